"""Summary of a timeline, as an import of it shows: sums, tree of ranges, gaps, latency, calls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analyse.timeline import (
    GAP_COLUMNS,
    MOST_NUMBERED,
    api_summary,
    busy_time,
    idle_gaps,
    kernel_summary,
    latency_summary,
    operation_summary,
    range_instances,
    range_tree,
)
from profiler.parse.nvtx_cells import grouped_names

ON_CPU = ("cpu_op",)
"""Kind of the operators of a trace without a GPU."""
OTHER_OPERATIONS = ("memcpy", "memset", "graph", *ON_CPU)
"""Kinds of operations that are no kernels; a graph that was not traced node by node is one."""

NAMED_GAP_COLUMNS = (*GAP_COLUMNS, "before_name", "after_name", "range")
"""GAP_COLUMNS, and the names of the operations on both sides, and of the innermost range that
holds both (missing where there is none)."""


MEMBER_COLUMNS = ("group", "name", "instances", "host_ns", "operations", "gpu_ns")
"""One row per name with an identifier that stands in a row of a group: `step_7` in `step_*`."""


@dataclass(frozen=True, eq=False)
class TimelineOverview:
    """Sums over one whole timeline. Times are nanoseconds."""

    kernels: pd.DataFrame
    """SUMMARY_COLUMNS by whole kernel name, as `nsys stats`."""
    other_operations: pd.DataFrame
    """SUMMARY_COLUMNS of copies, memsets, whole graphs, and operators on a CPU."""
    ranges: pd.DataFrame
    """TREE_COLUMNS; ranges of many numbers or identifiers are one (`step_*`)."""
    members: pd.DataFrame
    """MEMBER_COLUMNS; with most GPU time first, those of a group together."""
    gaps: pd.DataFrame
    """NAMED_GAP_COLUMNS, the longest first."""
    latency: pd.DataFrame
    """LATENCY_COLUMNS; without rows on a CPU."""
    api: pd.DataFrame
    """SUMMARY_COLUMNS of CUDA calls, as `nsys stats`; without rows on a CPU."""
    operations: int | None
    """None of sums that do not count them."""
    span_ns: int | None
    """From the first operation to the end of the last; None without any, and of sums alone."""
    busy_ns: int | None
    """Time in which at least one operation ran, summed over devices; None of sums alone."""
    devices: int | None
    on_gpu: bool
    """False where the operations are operators on a CPU: all times are of the host then."""

    @property
    def busy_share(self) -> float:
        """Busy time by the span, a mean over devices; NaN without a span, and of sums alone."""
        if not self.span_ns or self.busy_ns is None or not self.devices:
            return math.nan
        return self.busy_ns / (self.span_ns * self.devices)


def overview(
    operations: pd.DataFrame, ranges: pd.DataFrame, stacks: pd.DataFrame, api: pd.DataFrame
) -> TimelineOverview:
    """Sum up a timeline; frames as `profiler.analyse.timeline` and the parser describe them."""
    written = ranges["name"].astype(object)
    groups = grouped_names(written.dropna().unique(), MOST_NUMBERED)
    grouped = ranges.assign(name=written.map(groups).astype("category"))
    some = len(operations) > 0
    on_gpu = not operations["kind"].isin(list(ON_CPU)).any()
    placed = with_devices(operations)
    gaps = _named_gaps(placed, ranges, stacks)
    span = int(operations["end_ns"].max() - operations["start_ns"].min()) if some else None
    return TimelineOverview(
        kernels=kernel_summary(operations),
        other_operations=operation_summary(operations, OTHER_OPERATIONS),
        ranges=range_tree(operations, grouped, stacks),
        members=_members(operations, ranges.assign(group=grouped["name"]), stacks),
        # Operators of a CPU are their own calls: nothing launches them, and they are never late.
        gaps=gaps if on_gpu else gaps.assign(host_late=None),
        latency=latency_summary(operations if on_gpu else operations.iloc[:0]),
        api=api_summary(api if on_gpu else api.iloc[:0]),
        operations=len(operations),
        span_ns=span,
        busy_ns=busy_time(placed),
        devices=placed["device"].nunique(dropna=False),
        on_gpu=on_gpu,
    )


def with_devices(operations: pd.DataFrame) -> pd.DataFrame:
    """Operations that name their device; all of them where none does, as on the only one."""
    has_device = operations["device"].notna()
    return operations[has_device].reset_index(drop=True) if has_device.any() else operations


def _members(operations: pd.DataFrame, ranges: pd.DataFrame, stacks: pd.DataFrame) -> pd.DataFrame:
    """Single names of the groups, with what lies inside their ranges."""
    names, groups = (ranges[column].astype(object) for column in ("name", "group"))
    grouped = (names != groups) & names.notna()
    if not grouped.any():
        return pd.DataFrame(columns=list(MEMBER_COLUMNS))
    inside = range_instances(operations, stacks).set_index("range")[["operations", "gpu_ns"]]
    rows = ranges[grouped].assign(
        name=names, group=groups, instances=1, host_ns=ranges["end_ns"] - ranges["start_ns"]
    )
    sums = (
        rows.join(inside)
        .groupby(["group", "name"], sort=False)[list(MEMBER_COLUMNS[2:])]
        .sum(min_count=1)
        .reset_index()
    )
    total = sums.groupby("group")["gpu_ns"].transform("sum")
    order = ["total", "group", "gpu_ns", "host_ns"]
    ascending = [False, True, False, False]
    sums = sums.assign(total=total).sort_values(order, ascending=ascending, ignore_index=True)
    return sums[list(MEMBER_COLUMNS)]


def _named_gaps(
    operations: pd.DataFrame, ranges: pd.DataFrame, stacks: pd.DataFrame
) -> pd.DataFrame:
    gaps = idle_gaps(operations, stacks)
    names = operations["name"].astype(object).to_numpy()
    # A stack of no range finds the None at the end.
    innermost = np.append(stacks["range"].to_numpy(), -1)[gaps["stack"].to_numpy()]
    range_names = np.append(ranges["name"].astype(object).to_numpy(), np.array([None], object))
    named_gaps = gaps.assign(
        before_name=names[gaps["before"].to_numpy()],
        after_name=names[gaps["after"].to_numpy()],
        range=range_names[innermost],
    )
    named_gaps = named_gaps.sort_values(
        ["idle_ns", "start_ns"], ascending=[False, True], ignore_index=True
    )
    return named_gaps[list(NAMED_GAP_COLUMNS)]
