"""The cleaned files of a timeline: three gzipped CSV and a JSON of versions, written and read.

They hold what nsys or torch.profiler recorded of operations, ranges and calls, and nothing of the
rest of a recording: no environment, command line, host or user. Every later stage reads these
files alone, so that a recording is shown as a live run is.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiler.errors import ParseError
from profiler.model import SCHEMA_VERSION
from profiler.parse.bounded_files import read_packed, read_plain, replacing
from profiler.parse.nsys import (
    API_COLUMNS,
    OPERATION_COLUMNS,
    RANGE_COLUMNS,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    RecordedTimeline,
)

OPERATIONS_FILE = "operations.csv"
RANGES_FILE = "ranges.csv"
API_FILE = "api.csv"
"""Names of the tables, which lie in the folder of an attempt as `<name>.gz`."""
FACTS_FILE = "timeline.json"
"""Written last: where this file is, the tables are complete."""

_TABLES: Mapping[str, Sequence[str]] = {
    OPERATIONS_FILE: OPERATION_COLUMNS,
    RANGES_FILE: RANGE_COLUMNS,
    API_FILE: API_COLUMNS,
}
_OPEN = "open"


@dataclass(frozen=True)
class TimelineFacts:
    """Facts of the recording of a timeline that its tables do not hold."""

    collector: str
    device: str
    """`cuda` or `cpu`."""
    capture: str
    """`visits`, `program`, or the range that was recorded."""
    tool: str | None = None
    """Version of the tool that recorded it."""
    schema: str | None = None
    """Version of the format of the tool's file."""


def write_timeline(folder: Path, timeline: RecordedTimeline, facts: TimelineFacts) -> None:
    """Write the cleaned files of an attempt; the same timeline gives the same bytes."""
    frames = (timeline.operations, timeline.ranges, timeline.api)
    for (name, columns), frame in zip(_TABLES.items(), frames, strict=True):
        text = frame[list(columns)].to_csv(index=False, lineterminator="\n")
        _write(folder / f"{name}.gz", gzip.compress(text.encode("utf-8"), 6, mtime=0))
    document = {"schema_version": SCHEMA_VERSION, **vars(facts)}
    _write(folder / FACTS_FILE, (json.dumps(document, indent=1) + "\n").encode())


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as stream:
        stream.write(content)


def has_timeline(folder: Path) -> bool:
    """Whether a folder holds the cleaned files of a timeline."""
    return (folder / FACTS_FILE).exists()


def read_timeline(folder: Path) -> tuple[RecordedTimeline, TimelineFacts] | None:
    """Timeline in the cleaned files of an attempt; None where there are none.

    Raises ParseError where a file is damaged or absent.
    """
    if not has_timeline(folder):
        return None
    facts = _read_facts(folder / FACTS_FILE)
    frames = {name: _table(folder / f"{name}.gz", columns) for name, columns in _TABLES.items()}
    timeline = RecordedTimeline(
        operations=frames[OPERATIONS_FILE],
        ranges=frames[RANGES_FILE],
        api=frames[API_FILE],
        nsys=facts.tool if facts.collector == "nsys" else None,
        schema=facts.schema,
    )
    return timeline, facts


def _read_facts(path: Path) -> TimelineFacts:
    try:
        data = json.loads(read_plain(path).decode("utf-8"))
        version = data.pop("schema_version")
        facts = TimelineFacts(**data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ParseError(f"{path}: damaged: {error}") from error
    if version != SCHEMA_VERSION:
        raise ParseError(f"{path}: written by another version (schema {version})")
    return facts


def _table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    try:
        text = read_packed(path).decode("utf-8")
        with np.errstate(invalid="raise"):  # of a number beyond 64 bits pandas makes any other
            frame = pd.read_csv(
                io.StringIO(text),
                dtype={name: _dtype(name) for name in columns},
                keep_default_na=False,
                na_values={name: [""] for name in columns if name not in TEXT_COLUMNS},
                lineterminator="\n",
            )
        return _with_categories(frame[list(columns)])
    except (
        *(OSError, EOFError, zlib.error, ValueError, KeyError, ArithmeticError),
        TypeError,  # of a fraction where a whole number belongs
    ) as error:
        raise ParseError(f"{path}: damaged: {error}") from error


def _dtype(name: str) -> Any:
    if name in TEXT_COLUMNS:
        return object
    if name == _OPEN:
        return bool
    return "int64" if name in TIME_COLUMNS else "Int64"


def _with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with texts as the parsers give them: categories of objects, missing where empty."""
    is_ranges = _OPEN in frame.columns
    texts = {
        # The default domain, and a range without a name, have an empty text.
        name: _categories(frame[name], empty=is_ranges)
        for name in frame.columns
        if name in TEXT_COLUMNS
    }
    return frame.assign(**texts)


def _categories(column: pd.Series[Any], *, empty: bool) -> pd.Categorical:
    texts: pd.Index[Any] = pd.Index(column, dtype=object)
    distinct = [text for text in dict.fromkeys(texts) if text or empty]
    categories: pd.Index[Any] = pd.Index(distinct, dtype=object)
    return pd.Categorical.from_codes(categories.get_indexer(texts), categories)
