"""Findings of a report's timelines: units, phases, gaps, kernels, calls; each computed once.

A frame that stands here is never changed by a reader. Times are nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.phases import (
    CPU_OPERATOR,
    OUTSIDE,
    WHOLE,
    PhasedTimeline,
    api_calls,
    find_phases,
    gap_groups,
    phase_summary,
)
from profiler.analyse.range_counters import counters_of_paths, tree_paths
from profiler.analyse.timeline import (
    busy_bins,
    busy_time,
    kernel_summary,
    latency_summary,
    operation_summary,
    range_tree,
)
from profiler.findings.kinds.timers import timer_medians
from profiler.findings.timelines.bars import TimelineBars, UnitWindow, find_bars, find_window
from profiler.run_folder.load.report import Report

RANGE_METRICS = (
    "duration_ns",
    "dram_read_bytes",
    "dram_write_bytes",
    "dram_bytes",
    "instructions",
)
"""Counters by range that stand beside the tree, where they were collected: all add up."""
_OTHER_OPERATIONS = ("memcpy", "memset", "graph", CPU_OPERATOR)
_SLOWED = 1.1
"""Time in a recording by that of the timer above which busy shares are no longer the run's own."""


UnitPart = Literal["whole", "range", "outside"]
"""The whole unit, the ranges of one name right inside it, or what lies in none of these."""
_PARTS: Mapping[str, UnitPart] = {WHOLE: "whole", OUTSIDE: "outside"}


@dataclass(frozen=True)
class Phase:
    """Phase over all units: medians, lowest and highest; NaN where nothing ran in it."""

    part: UnitPart
    name: str
    """Name of its NVTX ranges; empty for the other parts."""
    units: int
    """How many units have it."""
    operations: float
    gpu_ns: float
    gpu_ns_range: tuple[float, float]
    host_ns: float
    idle_ns: float
    busy_share: float
    """Time in which an operation ran, of that from the first to the last of the phase; of a whole
    unit, of that since the last operation of the unit before."""
    busy_share_range: tuple[float, float]
    share_of_gpu: float
    """Busy time of all its instances, of that of all units."""


@dataclass(frozen=True, eq=False)
class CellTimelineFindings:
    """Findings of the timeline of one cell."""

    timeline: CellTimeline
    timed_ns: float = math.nan
    """Duration of a launch by CUDA events; NaN where they measured nothing."""
    counters: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Counters by range of this cell, as `Report.range_counters`; may be without rows."""

    @property
    def cell(self) -> str:
        """Id of the cell; of an imported file its name."""
        return self.timeline.cell

    @property
    def collector(self) -> str:
        """`nsys` or `torch`."""
        return self.timeline.collector

    @property
    def originals(self) -> tuple[str, ...]:
        """Paths of files that the tool itself wrote, in the run folder."""
        return self.timeline.originals

    @property
    def launches(self) -> int:
        """Number of launches of the workload; 0 for an external command."""
        return self.timeline.launches

    @cached_property
    def _phased(self) -> PhasedTimeline:
        return find_phases(self.timeline)

    # ---- units and phases ----

    @property
    def unit(self) -> str:
        """Name of what repeats: `launch`, `step_*`; empty where nothing does."""
        return self._phased.units.name

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self._phased.units.rows)

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the ranges right inside a unit, by first start."""
        return self._phased.phases

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The whole unit, its phases in their order, and what lies outside of them."""
        rows = phase_summary(self._phased.times).to_dict("records")
        return tuple(_phase({str(key): value for key, value in row.items()}) for row in rows)

    @property
    def whole_unit(self) -> Phase | None:
        """The whole unit; None where nothing repeats."""
        return next((phase for phase in self.phases if phase.part == "whole"), None)

    @cached_property
    def launch_ns(self) -> float:
        """Median time from the end of one launch's work to that of the next; NaN for one launch."""
        return self._phased.launch_ns

    @property
    def slowdown(self) -> float:
        """Time of a launch in the recording by that of CUDA events; NaN where one is not known."""
        return math.nan if self.on_cpu else self.launch_ns / self.timed_ns

    # ---- what ran ----

    @cached_property
    def on_cpu(self) -> bool:
        """Whether the operations are torch's operators on a CPU: no GPU was used."""
        return self._phased.on_cpu

    @property
    def device(self) -> str:
        """Device of its operations: `GPU` or `CPU`."""
        return "CPU" if self.on_cpu else "GPU"

    @property
    def has_operations(self) -> bool:
        """Whether anything ran at all."""
        return len(self.timeline.operations) > 0

    @cached_property
    def operation_counts(self) -> Mapping[str, int]:
        """Number of operations by kind, the most frequent first."""
        kinds = self.timeline.operations["kind"].astype(object).value_counts()
        return {str(kind): int(count) for kind, count in kinds.items()}

    @cached_property
    def graph_nodes(self) -> int:
        """Number of operations that are nodes of CUDA graphs."""
        return int(self.timeline.operations["graph_node"].notna().sum())

    @cached_property
    def by_time(self) -> int:
        """Number of operations that only their time places into ranges."""
        return int(self.timeline.operations["by_time"].sum())

    @property
    def span_ns(self) -> int:
        """From the beginning of the first operation to the end of the last; 0 where nothing ran."""
        start, end = self._extent if self.has_operations else (0, 0)
        return end - start

    @cached_property
    def busy_share(self) -> float:
        """Part of the span in which an operation ran, a mean over devices; NaN without a span.

        It holds the waits between units, as the share of a unit does, but not that before the first
        one.
        """
        operations = self.timeline.operations
        devices = max(operations["device"].nunique(), 1)
        return busy_time(operations) / (self.span_ns * devices) if self.span_ns else math.nan

    @property
    def _extent(self) -> tuple[int, int]:
        operations = self.timeline.operations
        return int(operations["start_ns"].min()), int(operations["end_ns"].max())

    # ---- tables ----

    @cached_property
    def calls(self) -> pd.DataFrame:
        """CUDA calls per launch: `phases.API_CALL_COLUMNS`; without rows on a CPU."""
        api = self.timeline.api
        return api_calls(api.iloc[:0] if self.on_cpu else api, self.timeline.ranges)

    @cached_property
    def ranges(self) -> pd.DataFrame:
        """Tree of ranges: `timeline.TREE_COLUMNS`, and a column for each of `range_metrics`."""
        timeline = self.timeline
        tree = range_tree(timeline.operations, self._phased.ranges, timeline.stacks)
        if not self.range_metrics:
            return tree
        return tree.join(counters_of_paths(self.counters, tree_paths(tree), self.range_metrics))

    @cached_property
    def range_metrics(self) -> tuple[str, ...]:
        """Counters by range that were collected for this cell, of `RANGE_METRICS`."""
        counters = self.counters
        return tuple(
            name for name in RANGE_METRICS if name in counters and counters[name].notna().any()
        )

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Idle gaps of the device: `phases.GAP_GROUP_COLUMNS`, most time first."""
        timeline = self.timeline
        return gap_groups(timeline.operations, self._phased.ranges, timeline.stacks)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """Kernels: `timeline.SUMMARY_COLUMNS`, most time first."""
        return kernel_summary(self.timeline.operations)

    @cached_property
    def other_operations(self) -> pd.DataFrame:
        """Copies, memsets, whole graphs, operators on a CPU: `timeline.SUMMARY_COLUMNS`."""
        return operation_summary(self.timeline.operations, _OTHER_OPERATIONS)

    @cached_property
    def latency(self) -> pd.DataFrame:
        """Launch latency: `timeline.LATENCY_COLUMNS`; without rows on a CPU."""
        operations = self.timeline.operations
        return latency_summary(operations.iloc[:0] if self.on_cpu else operations)

    @cached_property
    def operators(self) -> pd.DataFrame:
        """Operators of torch.profiler by device time, on a CPU by CPU time."""
        table = self.timeline.operators
        by = "self_device_us" if table["self_device_us"].any() else "self_cpu_us"
        return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)

    # ---- for drawing ----

    def bars(self, most: int) -> TimelineBars:
        """Bars of at most so many operations; of a larger timeline those of its first launches."""
        return find_bars(self._phased, most)

    def window(self, until_ns: float = np.inf) -> UnitWindow | None:
        """Times of the unit in the middle by its duration, of those that end before a time."""
        return find_window(self._phased, until_ns)

    def busy_over_time(self, count: int) -> tuple[tuple[int, int], npt.NDArray[np.float64]]:
        """Time of all operations, and the busy share of `count` equal parts; may be empty."""
        if not self.has_operations:
            return (0, 0), np.zeros(0)
        return self._extent, busy_bins(self.timeline.operations, self._extent, count)


def _phase(row: dict[str, float | str]) -> Phase:
    name = str(row.pop("phase"))
    part = _PARTS.get(name, "range")
    numbers = {key: float(value) for key, value in row.items()}
    return Phase(
        part=part,
        name=name if part == "range" else "",
        units=int(numbers.pop("units")),
        gpu_ns_range=(numbers.pop("gpu_ns_low"), numbers.pop("gpu_ns_high")),
        busy_share_range=(numbers.pop("busy_share_low"), numbers.pop("busy_share_high")),
        **numbers,
    )


@dataclass(frozen=True, eq=False)
class TimelineFindings:
    """The timelines of a report, in the order of its plan, or of imported files."""

    cells: tuple[CellTimelineFindings, ...]

    @cached_property
    def by_cell(self) -> Mapping[str, CellTimelineFindings]:
        """Findings by cell id."""
        return {timeline.cell: timeline for timeline in self.cells}

    def of_cells(self, cells: Collection[str]) -> TimelineFindings:
        """Findings of some cells (ids) alone, in the same order."""
        return TimelineFindings(
            tuple(timeline for timeline in self.cells if timeline.cell in cells)
        )

    @cached_property
    def device(self) -> str:
        """Device of all operations: `CPU` only where none ran on a GPU."""
        busy = [timeline for timeline in self.cells if timeline.has_operations]
        return "CPU" if busy and all(timeline.on_cpu for timeline in busy) else "GPU"

    @cached_property
    def most_slowed(self) -> CellTimelineFindings | None:
        """The cell whose launches recording stretched most; None where it stretched none."""
        slowed = [timeline for timeline in self.cells if timeline.slowdown > _SLOWED]
        return max(slowed, key=lambda timeline: timeline.slowdown, default=None)

    @cached_property
    def call_names(self) -> tuple[str, ...]:
        """Names of the CUDA calls of all cells, most time first."""
        time: dict[str, float] = {}
        for timeline in self.cells:
            calls = timeline.calls
            for name, host in zip(calls["name"], calls["host_ns"], strict=True):
                time[str(name)] = time.get(str(name), 0.0) + float(host)
        return tuple(sorted(time, key=lambda name: (-time[name], name)))

    @cached_property
    def by_time(self) -> bool:
        """Whether some operations are placed into ranges by their time alone."""
        return any(timeline.by_time for timeline in self.cells)


def find_timelines(report: Report) -> TimelineFindings:
    """Findings of the timelines of a report; whatever takes long is found when it is asked for."""
    measured = report.measured
    timed = timer_medians(measured.samples, measured.summary) if report.details.timelines else {}
    counters = measured.range_counters
    return TimelineFindings(
        tuple(
            CellTimelineFindings(
                report.details.timelines[cell.id],
                timed.get(cell.id, math.nan),
                counters[counters["cell"] == cell.id] if len(counters) else counters,
            )
            for cell in report.plan.cells
            if cell.id in report.details.timelines
        )
    )


def imported_timelines(timelines: Sequence[CellTimeline]) -> TimelineFindings:
    """Findings of timelines that no run of ours recorded."""
    return TimelineFindings(tuple(CellTimelineFindings(timeline) for timeline in timelines))
