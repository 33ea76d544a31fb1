"""Tables of `nsys stats`: of reports that list events a timeline, of others the sums alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from profiler.analyse.timeline import MOST_NUMBERED, SUMMARY_COLUMNS, TREE_COLUMNS
from profiler.errors import ParseError
from profiler.findings.timelines.overview import MEMBER_COLUMNS, TimelineOverview
from profiler.importers.given_file import GivenFile
from profiler.importers.nsys_stats_tables import (
    API,
    KERNELS,
    OTHERS,
    RANGES,
    StatsTables,
    is_nsys_stats,
    parse_nsys_stats,
)
from profiler.importers.registry import Importer
from profiler.importers.timelines import ImportedTimelines, imported_timeline
from profiler.notices import counted_kind
from profiler.parse.nvtx_cells import grouped_names


def _read(file: GivenFile) -> ImportedTimelines:
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
    frame = pd.DataFrame(rows, columns=["domain", "name", *_OF_RANGES])
    groups = grouped_names(frame["name"].unique(), MOST_NUMBERED)
    return frame.assign(group=frame["name"].map(groups), gpu_ns=float("nan"))


def _tree(sums: pd.DataFrame) -> pd.DataFrame:
    """Ranges by name; a sum does not say which lies in which."""
    grouped = sums.groupby(["domain", "group"], sort=False)[list(_OF_RANGES)].sum(min_count=1)
    grouped = grouped.sort_values("host_ns", ascending=False, kind="stable").reset_index()
    tree = grouped.rename(columns={"group": "name"}).assign(parent=-1, depth=1)
    return tree.reindex(columns=list(TREE_COLUMNS)).astype(dict.fromkeys(_NOT_SUMMED, float))


def _members(sums: pd.DataFrame) -> pd.DataFrame:
    of_groups = sums[sums["name"] != sums["group"]].sort_values("host_ns", ascending=False)
    return of_groups[list(MEMBER_COLUMNS)].reset_index(drop=True)


_OF_RANGES = ("instances", "host_ns", "operations", "span_ns")
_NOT_SUMMED = ("by_time", "gpu_ns", "busy_ns", "self_operations", "self_gpu_ns", "self_busy_ns")

IMPORTER = Importer(
    name="a table of `nsys stats`",
    files="what `nsys stats` prints, in columns, as CSV, TSV or JSON: `cuda_gpu_trace`, "
    "`cuda_api_trace`, `nvtx_pushpop_trace`; the sums of `cuda_gpu_kern_sum`, "
    "`cuda_gpu_mem_time_sum`, "
    "`cuda_gpu_sum`, `cuda_api_sum`, `cuda_api_gpu_sum`, `nvtx_sum`, `nvtx_pushpop_sum`, "
    "`nvtx_gpu_proj_sum` and `nvtx_gpu_proj_trace`",
    gives=ImportedTimelines,
    read=_read,
    is_in=is_nsys_stats,
    among_others=True,
)
