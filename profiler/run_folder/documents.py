"""Files of a run folder: JSON as dataclasses, checked when they are read; all written atomically.

Whatever is in a file, it becomes the dataclass with the types that it declares, or a UsageError
that names the file: nothing that reads a run meets a list where it expects a mapping.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from profiler.errors import UsageError
from profiler.parse.bounded_files import read_named, replacing

T = TypeVar("T")
_MOST_BITS = 64
_MOST_DIGITS = 20
"""Most digits of a whole number: longer ones have more than 64 bits, which no field has."""


def refuse_link(path: Path) -> None:
    """Raise UsageError for a link: its target is not part of the run."""
    if path.is_symlink():
        raise UsageError(
            f"{path}: is a link, and links in a run folder are not followed",
            remedy="Put the file or folder itself in its place.",
        )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, packed where its name ends in `.gz`.

    Raises UsageError where there is none, or one with numbers beyond those of a float.
    """
    return _parse(path, _read(path))


def read_dataclass(path: Path, kind: type[T]) -> T:
    """The content of a JSON file as `kind`, its nested dataclasses too; raises UsageError."""
    return checked_dataclass(path, _read(path), kind)


def checked_dataclass(name: Path | str, content: bytes, kind: type[T]) -> T:
    """JSON as `kind`, its nested dataclasses too; raises UsageError that names it `name`."""
    _parse(name, content)
    return _checked(name, content, kind)


def read_value(path: Path, key: str, kind: type[T]) -> T:
    """Value of a key of a JSON file, as `kind`; raises UsageError."""
    document = _parse(path, _read(path))
    if key not in document:
        raise UsageError(f"{path}: damaged, or of another version: {key}: Field required")
    return _checked(path, json.dumps(document[key]).encode(), kind, key)


def _checked(name: Path | str, content: bytes, kind: type[T], *place: str) -> T:
    """JSON at a place in a file, as `kind`; raises UsageError."""
    try:
        checked: T = _adapter(kind).validate_json(content, strict=True)  # type: ignore[arg-type]
        return checked
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, (*place, *first["loc"])))
        raise UsageError(
            f"{name}: damaged, or of another version: {where}: {first['msg']}"
        ) from error


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read(path: Path) -> bytes:
    refuse_link(path)
    try:
        return read_named(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not path.parent.exists():
            raise UsageError(
                f"{path.parent}: not a run folder (there is no such folder)",
                remedy="`profiler list` shows the runs that there are.",
            ) from error
        raise UsageError(
            f"{path.parent}: not a run folder (no {path.name})",
            remedy="Give the folder of a live run, or a recording; a replay leaves results only.",
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _parse(path: Path | str, content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8")
        data = json.loads(text, parse_int=_bounded, parse_float=_finite, parse_constant=_refuse)
    except RecursionError as error:
        raise UsageError(f"{path}: damaged: nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{path}: damaged: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: damaged: not a JSON object")
    return data


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse(text)
    return number


def _bounded(text: str) -> int:
    if len(text.removeprefix("-")) > _MOST_DIGITS or int(text).bit_length() > _MOST_BITS:
        _refuse(f"{text[:_MOST_DIGITS]}…")
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of this format")


# ---- written -------------------------------------------------------------------------------------

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def write_atomic(path: Path, text: str | Iterable[str]) -> None:
    """Write a text or its parts: a reader sees the old content or the new, never a part.

    Halves of characters, as in names that are no UTF-8, are written as escapes.
    """
    parts = (text,) if isinstance(text, str) else text
    with replacing(path) as stream:
        stream.writelines(part.encode("utf-8", "backslashreplace") for part in parts)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as stream:
        stream.write(content)


def write_json(path: Path, document: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write the `json_text` of a document atomically."""
    write_atomic(path, json_text(document, indent=indent))


def json_text(document: Mapping[str, Any], *, indent: int | None = 1) -> str:
    """JSON of a document; NaN is refused, missing values are null.

    `indent`: None for one line, which takes a tenth of the time.
    """
    text = json.dumps(document, indent=indent, allow_nan=False)
    if "\\ud" in text:  # half of a character is no JSON: readers would call the file damaged
        plain = json.dumps(document, allow_nan=False, ensure_ascii=False)
        text = json.dumps(json.loads(_HALF_CHARACTER.sub("?", plain)), indent=indent)
    return text + "\n"
