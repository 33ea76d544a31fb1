"""Activities of the warpgroups of one launch, and the operations under way meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.parse.stamps import KernelStamps
from profiler.run_folder.load.report import Report

WAIT = "wait"
"""How names of activities begin that only wait."""
_OPERATION_COLUMNS = ("block", "group", "operation", "start_ns", "end_ns")
_Edges = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class ActivityShare:
    """Activity of a warpgroup, over all blocks that were recorded.

    Shares are of the time of the activity, in which operations of the warpgroup itself, and of
    another one of its block, were under way; NaN where the kernel names no operations.
    """

    group: int
    activity: str
    count: int
    median_ns: float
    time_share: float
    """Share of the time that was recorded of all warpgroups of the block."""
    with_own_operations: float
    with_other_operations: float


@dataclass(frozen=True, eq=False)
class InKernelFindings:
    """The stamps of one cell and what follows from them. Times are nanoseconds."""

    cell: str
    stamps: KernelStamps

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks that were recorded."""
        return tuple(sorted(self.stamps.ends["block"].unique().tolist()))

    @cached_property
    def cut_off(self) -> bool:
        """Whether some warpgroup did more than was recorded."""
        return bool(self.stamps.ends["full"].any())

    def window(self, block: int) -> tuple[float, float]:
        """Time of a block in which everything was recorded of each of its warpgroups.

        Of those that have operations, where any has: one that only copies the queries ends long
        before the others.
        """
        spans = self.stamps.spans
        spans = spans[spans["block"] == block]
        beginnings = {operation.begins for operation in self.stamps.operations}
        working = spans.loc[spans["activity"].isin(beginnings), "group"].unique()
        groups = (spans[spans["group"].isin(working)] if len(working) else spans).groupby("group")
        if not len(groups):
            return 0.0, 0.0
        return float(groups["start_ns"].min().max()), float(groups["end_ns"].max().min())

    def spans_in_window(self, block: int) -> pd.DataFrame:
        """Spans of a block that lie inside its window."""
        start, end = self.window(block)
        spans = self.stamps.spans
        inside = (spans["start_ns"] >= start) & (spans["end_ns"] <= end)
        return spans[(spans["block"] == block) & inside]

    @cached_property
    def under_way(self) -> pd.DataFrame:
        """`block group operation start_ns end_ns`: each operation from its start to its end."""
        rows = [
            row
            for block, of_block in _groups(self.stamps.spans, "block")
            for group, spans in _groups(of_block, "group")
            for row in self._operations(spans, block, group)
        ]
        return pd.DataFrame(rows, columns=list(_OPERATION_COLUMNS))

    def _operations(
        self, spans: pd.DataFrame, block: int, group: int
    ) -> list[tuple[int, int, str, float, float]]:
        pairs: list[tuple[int, int, str, float, float]] = []
        for operation in self.stamps.operations:
            begins = spans.loc[spans["activity"] == operation.begins, "start_ns"].to_numpy()
            ends = spans.loc[spans["activity"] == operation.ends, "end_ns"].to_numpy()
            places = np.searchsorted(ends, begins, side="right")
            pairs += [
                (block, group, operation.name, float(begin), float(ends[place]))
                for begin, place in zip(begins, places, strict=True)
                if place < len(ends)
            ]
        return pairs

    @cached_property
    def activity_shares(self) -> tuple[ActivityShare, ...]:
        """Every activity of every warpgroup, by the number of the group and most time first."""
        spans = pd.concat([self._with_overlaps(block) for block in self.blocks] or [_NO_SPANS])
        recorded_ns = sum(max(end - start, 0.0) for start, end in map(self.window, self.blocks))
        shares = [
            ActivityShare(
                group=group,
                activity=str(activity),
                count=len(part),
                median_ns=float(part["ns"].median()),
                time_share=_share(part["ns"].sum(), recorded_ns),
                with_own_operations=_share(part["own_ns"].sum(skipna=False), part["ns"].sum()),
                with_other_operations=_share(part["others_ns"].sum(skipna=False), part["ns"].sum()),
            )
            for group, of_group in _groups(spans, "group")
            for activity, part in of_group.groupby("activity")
        ]
        return tuple(sorted(shares, key=lambda share: (share.group, -share.time_share)))

    def _with_overlaps(self, block: int) -> pd.DataFrame:
        """Spans of a block inside its window, with the time of operations during each."""
        operations = self.under_way[self.under_way["block"] == block]
        parts = [_NO_SPANS]
        for group, part in _groups(self.spans_in_window(block), "group"):
            of_group = operations["group"] == group
            missing = math.nan if not self.stamps.operations else 0.0
            parts.append(
                part.assign(
                    ns=part["end_ns"] - part["start_ns"],
                    own_ns=_overlap(part, _merged(operations[of_group])) + missing,
                    others_ns=_overlap(part, _merged(operations[~of_group])) + missing,
                )
            )
        return pd.concat([part for part in parts if len(part)] or parts)

    @cached_property
    def operation_shares(self) -> tuple[float, ...]:
        """Shares of time with operations of 0, 1, 2, … warpgroups of a block under way.

        One entry more than there are warpgroups with operations; empty without any.
        """
        groups = self.under_way["group"].nunique()
        if not groups:
            return ()
        time = np.zeros(groups + 1)
        for block in self.blocks:
            time += self._time_by_groups(block, groups)
        return tuple((time / time.sum()).tolist()) if time.sum() > 0 else ()

    def _time_by_groups(self, block: int, most: int) -> npt.NDArray[np.float64]:
        """Time of a block by the number of its warpgroups that have operations under way."""
        start, end = self.window(block)
        edges = [(start, 0), (max(start, end), 0)]
        operations = self.under_way[self.under_way["block"] == block]
        for _, part in _groups(operations, "group"):
            sides = (np.clip(side, start, max(start, end)) for side in _merged(part))
            for begin, until in zip(*sides, strict=True):
                if begin < until:
                    edges += [(float(begin), 1), (float(until), -1)]
        edges.sort()
        times = np.array([edge for edge, _ in edges])
        active = np.cumsum([step for _, step in edges])[:-1]
        time = np.bincount(active, weights=np.diff(times), minlength=most + 1)
        return np.asarray(time, dtype=np.float64)


_NO_SPANS = pd.DataFrame(
    columns=["block", "group", "activity", "start_ns", "end_ns", "ns", "own_ns", "others_ns"]
)


def find_in_kernel(report: Report) -> dict[str, InKernelFindings]:
    """Findings of the stamps of a report by cell id, in the order of its plan."""
    return {
        cell.id: InKernelFindings(cell.id, report.details.in_kernel[cell.id])
        for cell in report.plan.cells
        if cell.id in report.details.in_kernel
    }


def _groups(frame: pd.DataFrame, column: str) -> list[tuple[int, pd.DataFrame]]:
    """Rows by the number in a column, in its order."""
    return [(int(number), frame[frame[column] == number]) for number in sorted(set(frame[column]))]


def _merged(operations: pd.DataFrame) -> _Edges:
    """Beginnings and ends of the stretches in which at least one operation is under way."""
    ordered = operations.sort_values("start_ns")
    begins = ordered["start_ns"].to_numpy(dtype=np.float64)
    if not len(begins):
        return begins, begins
    until = np.maximum.accumulate(ordered["end_ns"].to_numpy(dtype=np.float64))
    opens = np.concatenate([[True], begins[1:] > until[:-1]])
    return begins[opens], until[np.concatenate([opens[1:], [True]])]


def _overlap(spans: pd.DataFrame, stretches: _Edges) -> npt.NDArray[np.float64]:
    """Time of each span that lies in stretches which do not overlap."""
    begins, ends = stretches
    if not len(begins):
        return np.zeros(len(spans))
    times = np.stack([begins, ends], axis=1).ravel()
    covered = np.cumsum(np.stack([np.zeros(len(begins)), ends - begins], axis=1).ravel())
    until, since = (np.interp(spans[name], times, covered) for name in ("end_ns", "start_ns"))
    return np.asarray(until - since)


def _share(part_ns: float, total_ns: float) -> float:
    return float(part_ns / total_ns) if total_ns > 0 else math.nan
