"""Timelines of whole files: of Nsight Systems, of torch.profiler."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.safe_frames import safe_frames
from profiler.findings.json_model import json_value
from profiler.findings.timelines.cells import TimelineFindings, imported_timelines
from profiler.findings.timelines.overview import (
    ON_CPU,
    TimelineOverview,
    overview,
    with_devices,
)
from profiler.importers.given_file import GivenFile
from profiler.importers.registry import Imported
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice
from profiler.outside_text import safe_values
from profiler.parse.nsys import Timeline
from profiler.parse.nsys_attribution import Attribution, attribute
from profiler.parse.nvtx_cells import without_identifiers
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
