"""`profiler import`: ncu CSV files of users as launches with metrics of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.analyse.safe_frames import safe_frames
from profiler.analyse.samples import to_catalogue_metrics
from profiler.errors import ParseError
from profiler.importers.file_heads import HEAD_BYTES
from profiler.importers.json_values import json_value
from profiler.importers.ncu_text import details_csv
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice, severity, text
from profiler.parse.bounded_files import read_content
from profiler.parse.ncu_csv import (
    LAUNCH_COLUMNS,
    NcuTable,
    NvtxRange,
    parse_ncu_csv,
    read_ncu_csv,
)
from profiler.parse.nvtx_cells import without_identifiers
from profiler.runner import protocol

_ROWS_AT_ONCE = 1000
_NOT_READ: Sequence[tuple[re.Pattern[str], str, str]] = (
    (
        re.compile(
            r"==\d+== NVPROF is profiling|^\"?Type\"?,\"?Time ?\(%\)|^\"?Start\"?,\"?Duration\"?,"
            r"\"?Grid X",
            re.MULTILINE,
        ),
        "output of nvprof",
        "Measure with ncu or nsys, which have taken its place; `import` reads their files.",
    ),
    (
        re.compile(
            r"^\"?(?:Time ?\(%\)\"?,\"?Total (?:Time|\()|Start \(ns\)\"?,\"?Duration)"
            r"|^Processing \[.*\.sqlite\] with \[|^ \*\* .* \(\w+(?:_sum|_trace|sum|trace)\):",
            re.MULTILINE,
        ),
        "a table of `nsys stats`",
        "Give the report itself (.nsys-rep), or its export (nsys export --type sqlite): they have "
        "each launch.",
    ),
    (
        re.compile(
            r"^\"?(?:Index|Name|Kind)\"?,.*\"?(?:KernelName|gpu-id|Agent_Id|TotalDurationNs)",
            re.MULTILINE,
        ),
        "a table of rocprof",
        "Kernels of AMD's GPUs are not what this project measures.",
    ),
)
"""Files that people have beside ncu's: how they begin, what they are, what to give instead."""


_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[0-9]+")
_MOST_NUMBERED = 20
"""More ranges than that whose names differ in numbers alone are steps, requests or addresses."""


@dataclass(frozen=True, eq=False)
class Imported:
    """Launches of one or several files.

    `launches`: the columns of a launch, then metrics of the catalogue, then every other raw metric.
    """

    launches: pd.DataFrame
    metrics: tuple[str, ...]
    notices: tuple[Notice, ...]


def read_imports(files: Sequence[Path], limit: int | None = None) -> Imported:
    """Launches of files of any page and version.

    Raises ParseError where one holds no table of ncu, or unpacks to more than `limit` bytes
    (bounded_files.MAX_UNPACKED_BYTES).
    """
    return safe_frames(launches_as_written(files, limit))


def launches_as_written(files: Sequence[Path], limit: int | None = None) -> Imported:
    """Launches with names as they stand in the files, to be joined with others."""
    frames: list[pd.DataFrame] = []
    notices: list[Notice] = []
    for file in files:
        table = _read(file, limit)
        notices += table.notices
        frames.append(_catalogue_metrics_first(table.launches))
    launches = pd.concat(frames, ignore_index=True)
    metrics = tuple(str(name) for name in launches.columns if name not in LAUNCH_COLUMNS)
    launches.insert(len(LAUNCH_COLUMNS), "range", range_paths(launches["nvtx"]))
    return Imported(launches, metrics, tuple(notices))


def range_paths(ranges: Iterable[tuple[NvtxRange, ...]]) -> list[str]:
    """NVTX ranges around each launch, outermost first, joined by ` / `; empty where none was open.

    Without what numbers calls, launches and blocks; of many that differ in their numbers alone,
    what stays.
    """
    paths = [" / ".join(filter(None, map(_label, around or ()))) for around in ranges]
    numbered: dict[str, set[str]] = {}
    for path in set(paths):
        numbered.setdefault(_NUMBER.sub("*", path), set()).add(path)
    many = {path for alike in numbered.values() if len(alike) > _MOST_NUMBERED for path in alike}
    return [_NUMBER.sub("*", path) if path in many else path for path in paths]


def _label(item: NvtxRange) -> str:
    """Name of a range as a group has it; empty for that of one launch of ours."""
    visit = protocol.parse_range_name(item.name)
    if visit is not None:
        return visit[0]
    if protocol.parse_launch_range_name(item.name) is not None:
        return ""
    name = without_identifiers(item.name)
    return f"{item.domain}@{name}" if item.domain not in ("", protocol.NVTX_DOMAIN) else name


def _read(file: Path, limit: int | None) -> NcuTable:
    """Table of a file: CSV of ncu, or what it prints as text.

    Raises ParseError where it is neither, with what it is instead where that is known.
    """
    try:
        return read_ncu_csv(file, limit=limit)
    except ParseError as refused:
        if not file.is_file():
            raise
        try:
            content = read_content(file, limit).decode("utf-8", errors="replace")
        except OSError:  # /proc/self/mem is a file of which nothing can be read
            raise refused from None
        details = details_csv(content)
        if details is not None:
            return parse_ncu_csv(details, file.name)
        for pattern, what, remedy in _NOT_READ:
            if pattern.search(content[:HEAD_BYTES]):
                raise ParseError(f"{file.name}: {what}, which is not read", remedy=remedy) from None
        raise


def _catalogue_metrics_first(launches: pd.DataFrame) -> pd.DataFrame:
    """Columns of a launch, then metrics of the catalogue, then raw ones.

    A launch's own grid and block (three numbers each) win over the metrics of that name.
    """
    identity = launches[list(LAUNCH_COLUMNS)]
    metrics = to_catalogue_metrics(launches).drop(columns=list(LAUNCH_COLUMNS), errors="ignore")
    raw = launches.drop(columns=[*LAUNCH_COLUMNS, *metrics.columns], errors="ignore")
    return pd.concat([identity, metrics, raw], axis=1)


def import_document(imported: Imported) -> dict[str, Any]:
    """The launches as JSON; a value that is absent is null, never 0.

    They are made while they are read, because all at once can take gigabytes.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "launches": _launches(imported),
        "warnings": [
            {"kind": n.kind.value, "severity": severity(n).value, "text": text(n)}
            for n in imported.notices
        ],
    }


def _launches(imported: Imported) -> Iterator[dict[str, Any]]:
    for start in range(0, len(imported.launches), _ROWS_AT_ONCE):
        rows = imported.launches.iloc[start : start + _ROWS_AT_ONCE]
        yield from (_launch(row, imported.metrics) for row in rows.to_dict("records"))


def _launch(row: dict[Any, Any], metrics: Sequence[str]) -> dict[str, Any]:
    return {
        "kernel": json_value(row["kernel"]),
        "id": json_value(row["id"]),
        "nvtx": [_range(item) for item in row["nvtx"] or ()],
        "block_size": json_value(row.get("block_size")),
        "grid_size": json_value(row.get("grid_size")),
        "metrics": {name: json_value(row[name]) for name in metrics},
    }


def _range(item: NvtxRange) -> str:
    """A range as ncu's own filters write it: `domain@name`, the default domain without a name."""
    return f"{item.domain}@{item.name}" if item.domain else item.name
