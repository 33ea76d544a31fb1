"""The journal of a search: JSON lines, each flushed, so that a killed search goes on by them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from profiler.errors import UsageError
from profiler.parse.bounded_files import read_packed, read_plain
from profiler.search.live.records import Record, SearchRecord, Unreadable, search_record


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Record)


class SearchJournal:
    """Appends records to a file; what was written before is in `records`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: tuple[Record | Unreadable, ...] = read_records(path) if path.exists() else ()

    def append(self, record: Record) -> None:
        """Write a record behind the others."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(record), separators=(",", ":"), allow_nan=False) + "\n")
            stream.flush()

    def cut_torn_line(self) -> None:
        """Take away a last line without its end, which a kill left."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        end_of_last_line = content.rfind(b"\n") + 1
        if end_of_last_line < len(content):
            os.truncate(self._path, end_of_last_line)

    def begin_anew(self) -> None:
        """Empty the journal."""
        self._path.unlink(missing_ok=True)
        self.records = ()


def read_search(path: Path) -> SearchRecord | None:
    """The search of a journal, compressed or not; None where there is none.

    Raises UsageError where it is damaged.
    """
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and not packed.exists():
        return None
    return search_record(read_records(path if path.exists() else packed))


def read_records(path: Path) -> tuple[Record | Unreadable, ...]:
    """Records of a journal, compressed or not; what is damaged costs the line that it stands in.

    Raises UsageError where the first is damaged, which says what is searched.
    """
    try:
        content = read_packed(path) if path.suffix == ".gz" else read_plain(path)
    except OSError as error:
        raise UsageError(f"{path}: damaged: {error}") from error
    return tuple(_if_whole(path, number, line) for number, line in enumerate(_lines(content), 1))


def _if_whole(path: Path, number: int, line: bytes) -> Record | Unreadable:
    try:
        return _record(path, number, line)
    except UsageError:
        if number == 1:
            raise
        return Unreadable(number)


def parsed_records(name: Path | str, content: bytes) -> tuple[Record, ...]:
    """Whole records of a journal's content; raises UsageError, which calls it by `name`."""
    return tuple(
        _record(name, number, line) for number, line in enumerate(_lines(content), start=1)
    )


def _lines(content: bytes) -> list[bytes]:
    """Lines with their end; behind the last end there is nothing, or a torn line."""
    return content.split(b"\n")[:-1]


def _record(name: Path | str, number: int, line: bytes) -> Record:
    try:
        record: Record = _adapter().validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{name}: line {number}: damaged, or of another version: {where}: {first['msg']}"
        ) from error
    return record
