"""`profiler import` of timelines: exports and reports of Nsight Systems, traces of torch.profiler.

A report holds the whole environment of the profiled process. It is exported in a private temporary
folder, and only what `profiler.parse.nsys` takes out of the export is kept. A trace holds paths and
names of the machine, of which `profiler.parse.chrome_trace` takes none.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.safe_frames import safe_frames
from profiler.collect.nsys import convert_command, convert_failed, find_nsys
from profiler.errors import EnvironmentUnusable, ParseError, UsageError
from profiler.findings.timelines.cells import TimelineFindings, imported_timelines
from profiler.findings.timelines.overview import TimelineOverview, overview
from profiler.importers.file_heads import head
from profiler.importers.json_values import json_value
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import printed
from profiler.model import SCHEMA_VERSION
from profiler.outside_text import safe, safe_values
from profiler.parse.bounded_files import is_packed, require_regular, unpack
from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys import Timeline, read_nsys
from profiler.parse.nsys_attribution import Attribution, attribute
from profiler.runner import protocol

NSYS, TORCH = "nsys", "torch.profiler"

_SQLITE = b"SQLite format 3\0"
_TRACE_EVENTS = b'"traceEvents"'
_PHASE = re.compile(rb'"ph"\s*:')
_REPORTS = (".nsys-rep", ".qdrep")
_EXPORT_TIMEOUT_S = 1800.0
_TIMES = ("start_ns", "end_ns", "launch_ns", "launch_end_ns")
_OF_OPERATIONS = (
    *("operations", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns"),
    *("span_ns", "idle_ns", "by_time"),
)
"""Columns of ranges that are made of the operations inside."""
_MOST_GAPS = 1000
"""Idle gaps that a document lists; a long timeline has a million."""


@dataclass(frozen=True, eq=False)
class ImportedTimeline:
    """The timeline of one file."""

    file: str
    """Name without its folder."""
    tool: str
    """The tool that writes such files: NSYS or TORCH."""
    version: str | None
    schema: str | None
    timeline: CellTimeline
    """The whole file, named by itself."""
    overview: TimelineOverview
    unread: Mapping[str, int]
    """Events that were left out, by what they are."""

    @property
    def recorded_by(self) -> str:
        """Tool and version."""
        return f"{self.tool} {self.version}" if self.version else self.tool


def read_timelines(
    files: Sequence[Path],
    environ: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> tuple[ImportedTimeline, ...] | None:
    """Timelines in files, packed by gzip or not; None where no file is one.

    `limit`: most bytes that a packed file may hold, by default bounded_files.MAX_UNPACKED_BYTES.

    Raises UsageError where only some are timelines, ParseError where one cannot be read, and
    EnvironmentUnusable where a report (`.nsys-rep`) cannot be exported here.
    """
    timelines = [file for file in files if _is_timeline(file)]
    if not timelines:
        return None
    if len(timelines) < len(files):
        other = next(file for file in files if file not in timelines)
        raise UsageError(
            f"{timelines[0].name} is a timeline, and {other.name} is none.",
            remedy="Import timelines, tables of ncu and logs one kind at a time.",
        )
    return tuple(_read(file, environ, limit) for file in timelines)


def _is_timeline(file: Path) -> bool:
    require_regular(file)
    # Whoever gives a file of that name wants to hear what is wrong with it as an export.
    is_export = file.name.removesuffix(".gz").endswith(".sqlite") and file.is_file()
    if _is_report(file) or is_export:
        return True
    start = head(file)
    return start.startswith(_SQLITE) or _is_trace(start)


def _is_trace(start: bytes) -> bool:
    """Whether a file is a trace: an object with events, or the list of them alone."""
    beginning = start.lstrip()
    if beginning.startswith(b"["):
        return _PHASE.search(start) is not None
    return beginning.startswith(b"{") and _TRACE_EVENTS in start


def _is_report(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(_REPORTS)


def _read(file: Path, environ: Mapping[str, str] | None, limit: int | None) -> ImportedTimeline:
    is_trace = not _is_report(file) and _is_trace(head(file))
    recorded = read_traces([file], limit) if is_trace else _read_nsys(file, environ, limit)
    timeline = _file_timeline(
        safe(file.name), "torch" if is_trace else "nsys", safe_frames(attribute(recorded))
    )
    return ImportedTimeline(
        file=safe(file.name),
        tool=TORCH if is_trace else NSYS,
        version=safe_values(recorded.nsys),
        schema=safe_values(recorded.schema),
        timeline=timeline,
        overview=_overview(timeline),
        unread=safe_values(recorded.unread),
    )


def _overview(timeline: CellTimeline) -> TimelineOverview:
    """Tables of a timeline; where no operation was read, what a range has of them is not known."""
    made = overview(timeline.operations, timeline.ranges, timeline.stacks, timeline.api)
    if made.operations:
        return made
    return replace(made, ranges=made.ranges.assign(**dict.fromkeys(_OF_OPERATIONS, math.nan)))


def _file_timeline(name: str, collector: str, attribution: Attribution) -> CellTimeline:
    """Everything of a file, on a time axis that begins with its first event."""
    operations, ranges, api = attribution.operations, attribution.ranges, attribution.api
    frames = (operations, ranges, api)
    origin = min((int(frame["start_ns"].min()) for frame in frames if len(frame)), default=0)
    launches = map(protocol.parse_launch_range_name, ranges["name"].dropna().astype(str))
    return CellTimeline(
        cell=name,
        collector=collector,
        operations=_since(origin, operations),
        ranges=_since(origin, ranges),
        stacks=attribution.stacks,
        api=_since(origin, api),
        launches=sum(number is not None for number in launches),
        operators=pd.DataFrame(columns=list(protocol.OPERATOR_FIELDS)),
    )


def _since(origin: int, frame: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in _TIMES if name in frame.columns]
    return frame.assign(**{name: frame[name] - origin for name in names})


def _read_nsys(file: Path, environ: Mapping[str, str] | None, limit: int | None) -> Timeline:
    with temporary_folder() as folder:
        plain = _unpacked(file, folder, limit)
        return read_nsys(_exported(plain, folder, environ) if _is_report(file) else plain)


def _unpacked(file: Path, folder: Path, limit: int | None) -> Path:
    """The file itself, or a copy in the folder of what was packed in it."""
    if not file.is_file():
        raise ParseError(f"{file.name}: no such file.")
    if not is_packed(file):
        return file
    plain = folder / file.name.removesuffix(".gz")
    try:
        unpack(file, plain, limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ParseError(f"{file.name}: cannot be unpacked: {error}.") from error
    return plain


def _exported(report: Path, folder: Path, environ: Mapping[str, str] | None) -> Path:
    """SQLite export of a report, in that folder."""
    try:
        nsys = find_nsys(environ)
    except EnvironmentUnusable as error:
        raise EnvironmentUnusable(
            f"{report.name} is a report, which only nsys can read: {error.message}",
            remedy=f"{error.remedy} Or export it where nsys is (nsys export --type sqlite "
            f"{report.name}), and import that.",
        ) from error
    export = folder / "export.sqlite"
    output = printed(convert_command(nsys, report.resolve(), export), _EXPORT_TIMEOUT_S)
    failed = convert_failed(export, report.name, output)
    if failed is not None:
        raise failed
    return export


def timelines_to_draw(imported: Sequence[ImportedTimeline]) -> TimelineFindings:
    """Findings of the timelines that hold anything that can be drawn."""
    timelines = [file.timeline for file in imported]
    return imported_timelines(
        [timeline for timeline in timelines if len(timeline.operations) or len(timeline.ranges)]
    )


# ---- as JSON -------------------------------------------------------------------------------------


def timelines_document(imported: Sequence[ImportedTimeline]) -> dict[str, Any]:
    """The timelines as JSON; a value that is absent is null, never 0."""
    return {
        "schema_version": SCHEMA_VERSION,
        "timelines": [_document(timeline) for timeline in imported],
    }


def _document(imported: ImportedTimeline) -> dict[str, Any]:
    summary = imported.overview
    return {
        "file": imported.file,
        "tool": imported.tool,
        "tool_version": imported.version,
        "file_schema": imported.schema,
        "not_read": dict(imported.unread),
        "operations": summary.operations,
        "span_ns": summary.span_ns,
        "busy_ns": summary.busy_ns,
        "devices": summary.devices,
        "kernels": _records(summary.kernels),
        "other_operations": _records(summary.others),
        "ranges": _records(summary.ranges),
        "idle_gaps": {
            "count": len(summary.gaps),
            "total_ns": int(summary.gaps["idle_ns"].sum()),
            "longest": _records(
                summary.gaps.drop(columns=["before", "after", "stack"]), _MOST_GAPS
            ),
        },
        "launch_latency": _records(summary.latency),
        "api": _records(summary.api),
    }


def _records(frame: pd.DataFrame, most: int | None = None) -> list[dict[str, Any]]:
    rows = (frame if most is None else frame.head(most)).astype(object).to_dict("records")
    return [{str(name): json_value(value) for name, value in row.items()} for row in rows]
