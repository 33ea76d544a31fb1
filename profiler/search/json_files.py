"""JSON files of others, read within limits; what is wrong in them is named by its field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.errors import ParseError, nearest_file
from profiler.outside_text import safe_values
from profiler.parse.bounded_files import read_content


def read_json(path: Path, limit: int) -> Any:
    """Content of a JSON file, compressed by gzip or not, its texts made safe.

    Raises ParseError where it cannot be read, is no JSON or holds more than `limit` bytes.
    """
    try:
        content = read_content(path, limit)
        return safe_values(json.loads(content.decode("utf-8"), parse_constant=_refuse))
    except OSError as error:
        hint = nearest_file(path) if not path.exists() else ""
        raise ParseError(f"{path}: {error.strerror or error}{hint}") from None
    except RecursionError:
        raise ParseError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise ParseError(f"{path}: is no JSON: {str(error)[:200].partition(';')[0]}") from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def mapping_of(value: Any, where: str) -> Mapping[str, Any]:
    """The value; raises ParseError where it is no object."""
    if not isinstance(value, Mapping):
        raise ParseError(f"{where}: an object is missing")
    return value


def list_of(value: Any, where: str) -> list[Any]:
    """The value; raises ParseError where it is no list."""
    if not isinstance(value, list):
        raise ParseError(f"{where}: a list is missing")
    return value


def text_of(value: Any, where: str) -> str:
    """The value; raises ParseError where it is no text."""
    if not isinstance(value, str) or not value:
        raise ParseError(f"{where}: a text is missing")
    return value
