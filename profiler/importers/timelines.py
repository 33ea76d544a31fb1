"""Timelines of whole files: traces of torch.profiler, exports, reports and tables of nsys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.safe_frames import safe_frames
from profiler.analyse.timeline import MOST_NUMBERED, SUMMARY_COLUMNS, TREE_COLUMNS
from profiler.collect.nsys import Nsys, find_nsys
from profiler.errors import EnvironmentUnusable, ParseError
from profiler.findings.json_model import json_value
from profiler.findings.timelines.cells import TimelineFindings, imported_timelines
from profiler.findings.timelines.overview import (
    MEMBER_COLUMNS,
    ON_CPU,
    TimelineOverview,
    overview,
    with_devices,
)
from profiler.importers.given_file import GivenFile, Imported
from profiler.importers.nsys_stats_tables import (
    API,
    KERNELS,
    OTHER_OPERATIONS,
    RANGES,
    StatsTables,
    parse_nsys_stats,
)
from profiler.machine.installs import export_report
from profiler.machine.temporary_folders import temporary_folder
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice, counted_kind
from profiler.outside_text import safe_values
from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys import RecordedTimeline, read_nsys
from profiler.parse.nsys_attribution import Attribution, attribute
from profiler.parse.nvtx_cells import grouped_names, without_identifiers
from profiler.runner import protocol

_TIMES = ("start_ns", "end_ns", "launch_ns", "launch_end_ns")
_OPERATION_COLUMNS = (
    *("operations", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns"),
    *("span_ns", "idle_ns", "by_time"),
)
"""Columns of ranges that are computed from the operations inside."""
_MOST_MEMBERS = 10_000
"""Names of single ranges that a document lists; `emit_nvtx` makes as many in a second."""
_MOST_GAPS = 1000
"""Idle gaps that a document lists; a long timeline has a million."""


@dataclass(frozen=True, eq=False)
class ImportedTimeline:
    """The timeline of one file."""

    file: str
    """Name without its folder."""
    tool: str
    """The tool that writes such files."""
    version: str | None
    schema: str | None
    timeline: CellTimeline
    """Timeline of the whole file, under the file's name."""
    overview: TimelineOverview
    unread: Mapping[str, int]
    """Number of events that were left out, by kind."""

    @property
    def recorded_by(self) -> str:
        """Tool and version."""
        return f"{self.tool} {self.version}" if self.version else self.tool


@dataclass(frozen=True, eq=False)
class ImportedTimelines(Imported):
    """Timelines of one or several files."""

    shows: ClassVar[str] = "a timeline: see below"
    timelines: tuple[ImportedTimeline, ...]
    notices: tuple[Notice, ...] = ()
    """Always empty: `unread` of each timeline has the events that were left out."""

    def document(self) -> dict[str, Any]:
        """The timelines as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "timelines": [_document(timeline) for timeline in self.timelines],
        }


def imported_timeline(
    file: GivenFile, tool: str, collector: str, recorded: RecordedTimeline
) -> ImportedTimelines:
    """Timeline of one file, of the events that a tool recorded."""
    attribution = safe_frames(attribute(recorded))
    timeline = _file_timeline(file.name, collector, attribution)
    imported = ImportedTimeline(
        file=file.name,
        tool=tool,
        version=safe_values(recorded.nsys),
        schema=safe_values(recorded.schema),
        timeline=timeline,
        overview=_overview(timeline, attribution.ranges),
        unread=safe_values({**recorded.unread, **_without_device(timeline.operations)}),
    )
    return ImportedTimelines((imported,))


def _without_device(operations: pd.DataFrame) -> Mapping[str, int]:
    """Number of operations without a device where others have one, under its text; else empty."""
    count = len(operations) - len(with_devices(operations))
    return {"device of an operation": count} if count else {}


def _overview(timeline: CellTimeline, ranges: pd.DataFrame) -> TimelineOverview:
    """Tables of a timeline; ranges have no numbers of operations where no launch is known.

    `ranges`: with their names in the file.
    """
    tables = overview(timeline.operations, ranges, timeline.stacks, timeline.api)
    if timeline.operations["launch"].notna().any():
        return tables
    return replace(
        tables, ranges=tables.ranges.assign(**dict.fromkeys(_OPERATION_COLUMNS, math.nan))
    )


def _file_timeline(name: str, collector: str, attribution: Attribution) -> CellTimeline:
    """Timeline of a whole file, on a time axis that begins with its first event."""
    operations, api = attribution.operations, attribution.api
    names = attribution.ranges["name"].astype(object).map(without_identifiers, na_action="ignore")
    ranges = attribution.ranges.assign(name=names.astype("category"))
    frames = (operations, ranges, api)
    origin = min((int(frame["start_ns"].min()) for frame in frames if len(frame)), default=0)
    launches = map(protocol.parse_launch_range_name, ranges["name"].dropna().astype(str))
    return CellTimeline(
        cell=name,
        collector=collector,
        operations=_with_times_since(origin, operations),
        ranges=_with_times_since(origin, ranges),
        stacks=attribution.stacks,
        api=_with_times_since(origin, api),
        launches=sum(number is not None for number in launches),
        operators=pd.DataFrame(columns=list(protocol.OPERATOR_FIELDS)),
    )


def _with_times_since(origin: int, frame: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in _TIMES if name in frame.columns]
    return frame.assign(**{name: frame[name] - origin for name in names})


def timelines_to_draw(imported: Sequence[ImportedTimeline]) -> TimelineFindings:
    """Findings of the timelines that have operations or ranges to draw."""
    timelines = [file.timeline for file in imported]
    return imported_timelines(
        [timeline for timeline in timelines if len(timeline.operations) or len(timeline.ranges)]
    )


def _document(imported: ImportedTimeline) -> dict[str, Any]:
    summary = imported.overview
    only_sums = summary.busy_ns is None
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
        "other_operations": _records(summary.other_operations),
        "ranges": _records(summary.ranges),
        "ranges_in_groups": {
            "count": len(summary.members),
            "longest": _records(summary.members, _MOST_MEMBERS),
        },
        "idle_gaps": {
            "count": None if only_sums else len(summary.gaps),
            "total_ns": None if only_sums else int(summary.gaps["idle_ns"].sum()),
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


# ---- traces, exports and reports -----------------------------------------------------------------


def read_trace(file: GivenFile) -> ImportedTimelines:
    """Timeline of a Chrome trace, without paths and names of the machine."""
    return imported_timeline(file, "torch.profiler", "torch", read_traces([file.path], file.limit))


def read_export(file: GivenFile) -> ImportedTimelines:
    """Timeline of an SQLite export of nsys."""
    with file.unpacked() as export:
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_other_programs=True))


def read_report(file: GivenFile) -> ImportedTimelines:
    """Timeline of a report of nsys, which nsys exports.

    A report holds the whole environment of the profiled process: it is exported in a private
    temporary folder, of which only the frames of `profiler.parse.nsys` are kept.
    """
    with file.unpacked() as report, temporary_folder() as folder:
        export = _exported_report(report, folder, file.environ)
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_other_programs=True))


def _exported_report(report: Path, folder: Path, environ: Mapping[str, str] | None) -> Path:
    """Path of the SQLite export of a report, in `folder`."""
    try:
        nsys = find_nsys(environ)
    except EnvironmentUnusable as error:
        raise EnvironmentUnusable(
            f"{report.name} is a report, which only nsys can read: {error.message}",
            remedy=f"{error.remedy} Or export it where nsys is (nsys export --type sqlite "
            f"{report.name}), and import that.",
        ) from error
    export = folder / "export.sqlite"
    export_report(Nsys(nsys), report, export)
    return export


# ---- tables of `nsys stats` ----------------------------------------------------------------------

_SUMMED = ("instances", "host_ns", "operations", "span_ns")
_NOT_SUMMED = ("by_time", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns")


def read_nsys_stats(file: GivenFile) -> ImportedTimelines:
    """Timelines of tables of `nsys stats`: of reports with events; of other reports, sums alone."""
    parts = parse_nsys_stats(file.text)
    if all(part.is_empty for part in parts):
        kinds = (counted_kind(n, kind) for part in parts for kind, n in part.unread.items())
        unread = ", ".join(kinds)
        raise ParseError(
            f"{file.name}: nothing of `nsys stats` that is read ({unread or 'no row'})",
            remedy="Give the report itself (.nsys-rep), or its export (nsys export --type sqlite).",
        )
    return ImportedTimelines(
        tuple(timeline for part in parts for timeline in _timelines(file, part))
    )


def _timelines(file: GivenFile, tables: StatsTables) -> Iterator[Any]:
    for timeline in imported_timeline(file, "nsys stats", "nsys", tables.timeline).timelines:
        export_name = f" ({tables.export})" if tables.export else ""
        yield replace(
            timeline,
            file=f"{timeline.file}{export_name}",
            overview=_with_sums(timeline.overview, tables),
        )


def _with_sums(overview: TimelineOverview, tables: StatsTables) -> TimelineOverview:
    """Overview with sums in the tables for which there are no events."""
    sums = {kind: _summary(rows) for kind, rows in tables.sums.items() if kind != RANGES}
    ranges = _grouped_range_sums(tables.sums.get(RANGES, []))
    with_sums = replace(
        overview,
        kernels=overview.kernels if len(overview.kernels) else sums.get(KERNELS, overview.kernels),
        other_operations=overview.other_operations
        if len(overview.other_operations)
        else sums.get(OTHER_OPERATIONS, overview.other_operations),
        api=overview.api if len(overview.api) else sums.get(API, overview.api),
        ranges=overview.ranges if len(overview.ranges) else _range_tree_of_sums(ranges),
        members=overview.members if len(overview.ranges) else _members(ranges),
    )
    if tables.operations:
        return with_sums
    counted = [
        frame["instances"].sum(min_count=1)
        for frame in (with_sums.kernels, with_sums.other_operations)
    ]
    counts = [int(count) for count in counted if pd.notna(count)]
    return replace(
        with_sums, operations=sum(counts) if counts else None, busy_ns=None, devices=None
    )


def _summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _grouped_range_sums(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Sums of ranges, with the group of each name."""
    frame = pd.DataFrame(rows, columns=["domain", "name", *_SUMMED])
    groups = grouped_names(frame["name"].unique(), MOST_NUMBERED)
    return frame.assign(group=frame["name"].map(groups), gpu_ns=float("nan"))


def _range_tree_of_sums(sums: pd.DataFrame) -> pd.DataFrame:
    """Ranges by name as a tree of depth 1: sums do not tell how ranges are nested."""
    grouped = sums.groupby(["domain", "group"], sort=False)[list(_SUMMED)].sum(min_count=1)
    grouped = grouped.sort_values("host_ns", ascending=False, kind="stable").reset_index()
    tree = grouped.rename(columns={"group": "name"}).assign(parent=-1, depth=1)
    return tree.reindex(columns=list(TREE_COLUMNS)).astype(dict.fromkeys(_NOT_SUMMED, float))


def _members(sums: pd.DataFrame) -> pd.DataFrame:
    grouped = sums[sums["name"] != sums["group"]].sort_values("host_ns", ascending=False)
    return grouped[list(MEMBER_COLUMNS)].reset_index(drop=True)


# ---- work of a trace by its time, and the part of it that a live capture would record

RANK_COLUMNS = ("name", "capture", "calls", "total_ns", "share")
"""`capture`: treatment by a live capture; `share`: share of the time of all work."""
RECORDED, BY_PARTS, LEFT_OUT = "recorded", "as its operators", "left out"
_OPERATOR = re.compile(r"(aten|prims)::\w+")
_COLLECTIVE = re.compile(r"nccl|c10d|rccl", re.IGNORECASE)
_COMPILED = re.compile(r"triton_\w+_fused_|## Call CompiledFxGraph|CompiledFunction")


def ranked_work(timeline: CellTimeline) -> pd.DataFrame:
    """RANK_COLUMNS of a timeline, longest total time first.

    Without a GPU the rows are the outermost operators of each thread. A trace has at best the
    shapes of inputs: no operator can be replayed from it.
    """
    operations = timeline.operations
    timed = operations.assign(
        name=operations["name"].astype(object), ns=operations["end_ns"] - operations["start_ns"]
    )
    groups = timed.groupby(["name", timed["kind"].astype(str)])["ns"]
    ranks = groups.agg(calls="size", total_ns="sum").reset_index()
    pairs = zip(ranks["name"].astype(str), ranks["kind"], strict=True)
    ranks["capture"] = [_capture_of(name, kind) for name, kind in pairs]
    ranks["share"] = ranks["total_ns"] / max(1, ranks["total_ns"].sum())
    ranks = ranks.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
    return ranks[list(RANK_COLUMNS)]


def _capture_of(name: str, kind: str) -> str:
    """Treatment of a kernel or operator by a live capture; empty where only a capture can tell."""
    if _COLLECTIVE.search(name):
        return LEFT_OUT
    if _COMPILED.search(name):
        return BY_PARTS
    return RECORDED if kind in ON_CPU and _OPERATOR.fullmatch(name) else ""
