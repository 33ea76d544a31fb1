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
    OTHERS,
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
from profiler.parse.nsys import Timeline, read_nsys
from profiler.parse.nsys_attribution import Attribution, attribute
from profiler.parse.nvtx_cells import grouped_names, without_identifiers
from profiler.runner import protocol

_TIMES = ("start_ns", "end_ns", "launch_ns", "launch_end_ns")
_OF_OPERATIONS = (
    *("operations", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns"),
    *("span_ns", "idle_ns", "by_time"),
)
"""Columns of ranges that are made of the operations inside."""
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
    """The whole file, named by itself."""
    overview: TimelineOverview
    unread: Mapping[str, int]
    """Events that were left out, by what they are."""

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
    """None: what was not read stands beside each timeline."""

    def document(self) -> dict[str, Any]:
        """The timelines as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "timelines": [_document(timeline) for timeline in self.timelines],
        }


def imported_timeline(
    file: GivenFile, tool: str, collector: str, recorded: Timeline
) -> ImportedTimelines:
    """The timeline of one file, as a tool recorded it."""
    attribution = safe_frames(attribute(recorded))
    timeline = _file_timeline(file.name, collector, attribution)
    one = ImportedTimeline(
        file=file.name,
        tool=tool,
        version=safe_values(recorded.nsys),
        schema=safe_values(recorded.schema),
        timeline=timeline,
        overview=_overview(timeline, attribution.ranges),
        unread=safe_values({**recorded.unread, **_without_device(timeline.operations)}),
    )
    return ImportedTimelines((one,))


def _without_device(operations: pd.DataFrame) -> Mapping[str, int]:
    """Number of operations whose device is unknown where that of others is not, by its name."""
    count = len(operations) - len(with_devices(operations))
    return {"device of an operation": count} if count else {}


def _overview(timeline: CellTimeline, ranges: pd.DataFrame) -> TimelineOverview:
    """Tables of a timeline; what ranges have of operations is unknown where all calls are.

    `ranges`: with the names that they have in the file.
    """
    made = overview(timeline.operations, ranges, timeline.stacks, timeline.api)
    if timeline.operations["launch"].notna().any():
        return made
    return replace(made, ranges=made.ranges.assign(**dict.fromkeys(_OF_OPERATIONS, math.nan)))


def _file_timeline(name: str, collector: str, attribution: Attribution) -> CellTimeline:
    """Everything of a file, on a time axis that begins with its first event."""
    operations, api = attribution.operations, attribution.api
    names = attribution.ranges["name"].astype(object).map(without_identifiers, na_action="ignore")
    ranges = attribution.ranges.assign(name=names.astype("category"))
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


def timelines_to_draw(imported: Sequence[ImportedTimeline]) -> TimelineFindings:
    """Findings of the timelines that hold anything that can be drawn."""
    timelines = [file.timeline for file in imported]
    return imported_timelines(
        [timeline for timeline in timelines if len(timeline.operations) or len(timeline.ranges)]
    )


def _document(imported: ImportedTimeline) -> dict[str, Any]:
    summary = imported.overview
    of_sums = summary.busy_ns is None
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
        "ranges_in_groups": {
            "count": len(summary.members),
            "longest": _records(summary.members, _MOST_MEMBERS),
        },
        "idle_gaps": {
            "count": None if of_sums else len(summary.gaps),
            "total_ns": None if of_sums else int(summary.gaps["idle_ns"].sum()),
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
    """The timeline of a Chrome trace, without paths and names of the machine."""
    recorded = read_traces([file.path], file.limit)
    return imported_timeline(file, "torch.profiler", "torch", recorded)


def read_export(file: GivenFile) -> ImportedTimelines:
    """The timeline of an SQLite export of nsys."""
    with file.unpacked() as export:
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_other_programs=True))


def read_report(file: GivenFile) -> ImportedTimelines:
    """The timeline of a report of nsys, which nsys exports.

    A report holds the whole environment of the profiled process: it is exported in a private
    temporary folder, and only what `profiler.parse.nsys` takes out of the export is kept.
    """
    with file.unpacked() as report, temporary_folder() as folder:
        export = _exported(report, folder, file.environ)
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_other_programs=True))


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
    export_report(Nsys(nsys), report, export)
    return export


# ---- tables of `nsys stats` ----------------------------------------------------------------------

_SUMMED = ("instances", "host_ns", "operations", "span_ns")
_NOT_SUMMED = ("by_time", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns")


def read_nsys_stats(file: GivenFile) -> ImportedTimelines:
    """Tables of `nsys stats`: of reports that list events a timeline, of others the sums alone."""
    parts = parse_nsys_stats(file.text)
    if all(part.is_empty for part in parts):
        kinds = (counted_kind(n, what) for part in parts for what, n in part.unread.items())
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
        of = f" ({tables.export})" if tables.export else ""
        yield replace(
            timeline, file=f"{timeline.file}{of}", overview=_with_sums(timeline.overview, tables)
        )


def _with_sums(overview: TimelineOverview, tables: StatsTables) -> TimelineOverview:
    """Sums beside the events; where events are there, too, what these add up to stays."""
    sums = {of: _summary(rows) for of, rows in tables.sums.items() if of != RANGES}
    ranges = _with_groups(tables.sums.get(RANGES, []))
    made = replace(
        overview,
        kernels=overview.kernels if len(overview.kernels) else sums.get(KERNELS, overview.kernels),
        others=overview.others if len(overview.others) else sums.get(OTHERS, overview.others),
        api=overview.api if len(overview.api) else sums.get(API, overview.api),
        ranges=overview.ranges if len(overview.ranges) else _tree(ranges),
        members=overview.members if len(overview.ranges) else _members(ranges),
    )
    if tables.operations:
        return made
    counted = [frame["instances"].sum(min_count=1) for frame in (made.kernels, made.others)]
    known = [int(count) for count in counted if pd.notna(count)]
    return replace(made, operations=sum(known) if known else None, busy_ns=None, devices=None)


def _summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _with_groups(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Sums of ranges, and what stays of each name."""
    frame = pd.DataFrame(rows, columns=["domain", "name", *_SUMMED])
    groups = grouped_names(frame["name"].unique(), MOST_NUMBERED)
    return frame.assign(group=frame["name"].map(groups), gpu_ns=float("nan"))


def _tree(sums: pd.DataFrame) -> pd.DataFrame:
    """Ranges by name; a sum does not say which lies in which."""
    grouped = sums.groupby(["domain", "group"], sort=False)[list(_SUMMED)].sum(min_count=1)
    grouped = grouped.sort_values("host_ns", ascending=False, kind="stable").reset_index()
    tree = grouped.rename(columns={"group": "name"}).assign(parent=-1, depth=1)
    return tree.reindex(columns=list(TREE_COLUMNS)).astype(dict.fromkeys(_NOT_SUMMED, float))


def _members(sums: pd.DataFrame) -> pd.DataFrame:
    of_groups = sums[sums["name"] != sums["group"]].sort_values("host_ns", ascending=False)
    return of_groups[list(MEMBER_COLUMNS)].reset_index(drop=True)


# ---- what takes most time of a trace, and what a live capture would record of it

RANK_COLUMNS = ("name", "capture", "calls", "total_ns", "share")
"""`capture`: what a live one does with it; `share`: of the time of all."""
RECORDED, BY_PARTS, LEFT_OUT = "recorded", "as its operators", "left out"
_OPERATOR = re.compile(r"(aten|prims)::\w+")
_COLLECTIVE = re.compile(r"nccl|c10d|rccl", re.IGNORECASE)
_COMPILED = re.compile(r"triton_\w+_fused_|## Call CompiledFxGraph|CompiledFunction")


def ranked_work(timeline: CellTimeline) -> pd.DataFrame:
    """RANK_COLUMNS of a timeline, what takes longest first.

    Without a GPU these are the outermost operators of each thread. What a trace has of an input is
    its shape at best: nothing is run again from it.
    """
    operations = timeline.operations
    named = operations.assign(
        name=operations["name"].astype(object), ns=operations["end_ns"] - operations["start_ns"]
    )
    groups = named.groupby(["name", named["kind"].astype(str)])["ns"]
    ranks = groups.agg(calls="size", total_ns="sum").reset_index()
    pairs = zip(ranks["name"].astype(str), ranks["kind"], strict=True)
    ranks["capture"] = [_capture_of(name, kind) for name, kind in pairs]
    ranks["share"] = ranks["total_ns"] / max(1, ranks["total_ns"].sum())
    ranks = ranks.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
    return ranks[list(RANK_COLUMNS)]


def _capture_of(name: str, kind: str) -> str:
    """Words on what a capture does with a kernel or operator; empty where only a capture tells."""
    if _COLLECTIVE.search(name):
        return LEFT_OUT
    if _COMPILED.search(name):
        return BY_PARTS
    return RECORDED if kind in ON_CPU and _OPERATOR.fullmatch(name) else ""
