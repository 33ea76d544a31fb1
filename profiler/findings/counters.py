"""Counters that moved between two variants, and by how much; limits of kernels, roofs; no cause.

A limit is which part of the GPU is busy, and what warps wait for. Roofs are those over one problem,
with what its cells moved at each level of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import Literal

from profiler.analyse.effects import CounterChange, Medians, ParameterStep, counter_changes
from profiler.analyse.why.kernel_profiles import (
    DURATION,
    SHARED_WAVEFRONTS,
    SHARED_WAVEFRONTS_PCT,
)
from profiler.analyse.why.roofs import BYTES, OPERATIONS
from profiler.collect.registry import duration_metrics
from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.ranking import geometric_mean
from profiler.metrics.catalogue import ROOF_PREFIX, STALL_PREFIX, TENSOR_TYPES
from profiler.metrics.queries import Label, labels
from profiler.model import Cell, Problem, Variant

__all__ = ["CounterChange", "Medians", "ParameterStep"]

IDLE_PCT = 60.0
"""Below this on both sides ncu's rule SOLBottleneck looks for latency (2025.3.1)."""
CLOSE_PCT = 10.0
"""Compute and memory this close to each other count as balanced, as in the same rule."""

NOT_WAITING = frozenset({"selected", "not_selected"})
"""Reasons of warps that could run: they say that there is enough work, not what is in its way."""


LimitKind = Literal["compute", "memory", "balanced", "latency"]
"""What limits a kernel; `balanced`: compute and memory are as busy; `latency`: neither is busy,
warps wait."""


Limit = tuple[LimitKind, float, float, str | None]
"""Limit of a cell, its throughputs of compute and of memory in percent of their peaks, and the
stall that warps wait for most, as ncu spells it; None where nothing was counted."""


def limit_at(numbers: CellNumbers, variant: Variant, problem: Problem) -> Limit | None:
    """Limit of a correct cell; None without one, and where its throughputs were not measured."""
    compute, memory = (
        numbers.correct_at(variant, problem, f"{name}_throughput_pct").median
        for name in ("compute", "memory")
    )
    if math.isnan(compute) or math.isnan(memory):
        return None
    waits = {
        metric.name.removeprefix(STALL_PREFIX): cycles
        for metric in _stall_reasons(numbers)
        if (cycles := numbers.correct_at(variant, problem, metric.name).median) > 0
    }
    longest = max(waits, key=waits.__getitem__, default=None)
    return limit_kind(compute, memory), compute, memory, longest


def limit_kind(compute: float, memory: float) -> LimitKind:
    """Name of a kernel's limit by throughputs of compute and memory, in percent of their peaks."""
    if max(compute, memory) < IDLE_PCT:
        return "latency"
    if abs(compute - memory) < CLOSE_PCT:
        return "balanced"
    return "compute" if compute > memory else "memory"


def _stall_reasons(numbers: CellNumbers) -> list[Label]:
    """Metrics of the reasons for which warps waited."""
    return [
        metric
        for metric in numbers.metrics
        if metric.name.startswith(STALL_PREFIX)
        and metric.name.removeprefix(STALL_PREFIX) not in NOT_WAITING
    ]


STILL_UNDER = 0.01
"""Counters that moved by less than this share are left out."""
TIME_AGAIN = frozenset(
    {*duration_metrics().values(), "cycles", "tflops", "gbps", "dram_gbps", "sm_clock_ghz"}
    | {"memory_efficiency_pct"}
)
"""Metrics that say again which is best, by the same clock: they explain nothing."""
_POINTS = 50.0
"""Points of a percentage that count as much as a factor of e in a counter."""
_STALLED_WARPS = 1.0
"""Warps per issue that wait for one reason, more or less, which count as much too."""

_SHARES_OF_PEAKS = (
    "compute_throughput_pct",
    "memory_throughput_pct",
    "dram_throughput_pct",
    "peak_dram_pct",
    "tensor_pipe_pct",
)


@dataclass(frozen=True)
class CounterPair:
    """A counter of the best variant beside that of the baseline, at one problem."""

    metric: Label
    best: float
    baseline: float

    @property
    def size(self) -> float:
        """Size of the move on a log scale; appearing from or falling to 0 is infinite."""
        return movement(self.best, self.baseline)


def counter_medians(numbers: CellNumbers) -> dict[Label, Medians]:
    """Medians of metrics that can explain in all correct cells, by (variant id, problem id).

    Neither the primary one nor what follows from the time.
    """
    return {
        metric: {
            (cell.variant.id, cell.problem.id): value.median
            for cell in numbers.programs.correct_cells.values()
            if (value := numbers.value(cell, metric.name)).present
        }
        for metric in numbers.metrics
        if metric != numbers.primary and metric.name not in TIME_AGAIN
    }


def moved_counters(
    step: ParameterStep, medians: Mapping[Label, Medians], problems: Sequence[str]
) -> dict[Label, tuple[CounterChange, ...]]:
    """Changes by problem of the counters that moved with a step, those that moved most first."""
    changes = {
        metric: counter_changes(step, values, problems) for metric, values in medians.items()
    }
    sizes = {metric: _typical_size(metric, row) for metric, row in changes.items()}
    moved = (metric for metric, size in sizes.items() if size > STILL_UNDER)
    return {metric: changes[metric] for metric in sorted(moved, key=lambda metric: -sizes[metric])}


def _typical_size(metric: Label, row: Sequence[CounterChange]) -> float:
    """Size of a counter's move at the problem in the middle: the order of counters of all kinds."""
    sizes = [move_size(metric, move.before, move.after) for move in row if move.pairs]
    return median(sizes) if sizes else 0.0


def move_size(metric: Label, before: float, after: float) -> float:
    """Size of a counter's move, so that counters of all kinds have an order.

    Percentages and stall reasons go by their difference: a ratio would make much of nothing.
    """
    if metric.unit == "%":
        return abs(after - before) / _POINTS
    if metric.name.startswith(STALL_PREFIX):
        return abs(after - before) / _STALLED_WARPS
    return movement(after, before)


def movement(value: float, reference: float) -> float:
    """Distance of two counters on a log scale; infinite where one of them is 0."""
    if not (math.isfinite(value) and math.isfinite(reference)) or value == reference:
        return 0.0
    if value <= 0 or reference <= 0:
        return math.inf
    return abs(math.log(value / reference))


def counter_pairs(
    findings: Findings, metrics: Sequence[Label], problem: Problem
) -> tuple[CounterPair, ...]:
    """Counters of the best variant and of the baseline at one problem; NaN where one is missing."""
    return tuple(
        CounterPair(
            metric,
            *(
                findings.numbers.correct_at(variant, problem, metric.name).median
                for variant in (findings.ranking.best, findings.programs.baseline)
            ),
        )
        for metric in metrics
    )


def mean_ratio(findings: Findings, names: Sequence[str]) -> float:
    """Counters of the best variant, added up, by those of the baseline.

    Geometric mean over the problems at which both are known; NaN without any.
    """
    ratios = []
    for problem in findings.programs.problems:
        pairs = counter_pairs(findings, labels(names), problem)
        best, baseline = (sum(getattr(pair, end) for pair in pairs) for end in ("best", "baseline"))
        if best > 0 and baseline > 0:
            ratios.append(best / baseline)
    return geometric_mean(ratios)


def largest_stalls(findings: Findings, problem: Problem, most: int) -> tuple[CounterPair, ...]:
    """Stall reasons of the best variant and of the baseline, the most frequent first."""
    pairs = counter_pairs(findings, _stall_reasons(findings.numbers), problem)
    sizes = {pair.metric: max(_or_zero(pair.best), _or_zero(pair.baseline)) for pair in pairs}
    waiting = [pair for pair in pairs if sizes[pair.metric] > 0]
    return tuple(sorted(waiting, key=lambda pair: -sizes[pair.metric])[:most])


def nearest_roof(
    numbers: CellNumbers, variant: Variant, problem: Problem
) -> tuple[str, float] | None:
    """Name of the roof that a correct cell is nearest to, and percent of it; None without any."""
    roof = _nearest(numbers, variant, problem, _roofs(numbers))
    return roof and (roof[0].removeprefix(ROOF_PREFIX).removesuffix("_pct"), roof[1])


def nearest_peak(numbers: CellNumbers, cell: Cell) -> str | None:
    """Metric by which a correct cell is nearest to a peak: a roof, without roofs another share."""
    for names in (_roofs(numbers), _SHARES_OF_PEAKS):
        if peak := _nearest(numbers, cell.variant, cell.problem, names):
            return peak[0]
    return None


def _roofs(numbers: CellNumbers) -> list[str]:
    return [metric.name for metric in numbers.metrics if metric.name.startswith(ROOF_PREFIX)]


def _nearest(
    numbers: CellNumbers, variant: Variant, problem: Problem, names: Sequence[str]
) -> tuple[str, float] | None:
    """The largest of some percentages of a correct cell, with its name; None without any."""
    percents = [(name, numbers.correct_at(variant, problem, name).median) for name in names]
    measured = [pair for pair in percents if math.isfinite(pair[1])]
    return max(measured, key=itemgetter(1), default=None)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


# ---- roofs over one problem, for a roofline ------------------------------------------------------


MEMORY: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "dram": (("dram_read_bytes", "dram_write_bytes"), "dram_peak", "dram_clock_hz"),
    "l2": (("l2_bytes",), "l2_peak", "lts_clock_hz"),
    "l1": (("l1_bytes",), "l1_peak", "sm_clock_hz"),
}
"""By level: metrics that add up to its bytes, peak per cycle, clock."""
SHARED = "shared"
_WAVEFRONT_BYTES = 128
"""32 banks of 4 bytes: what shared memory gives in a cycle (CUDA C++ Programming Guide)."""
_LEAST_PCT = 1.0
"""ncu prints two decimals: of smaller percentages the ceiling would be off by more than 1 %."""


@dataclass(frozen=True)
class RoofLine:
    """Roof of the hardware at the clocks of a problem's launches."""

    name: str
    """`dram`, `l2`, `l1`, `shared`, `tensor_TYPE`, `fp32`."""
    unit: str
    """BYTES or OPERATIONS."""
    ceiling: float
    """Per second, median over the cells."""
    lowest: float
    highest: float
    """Ceilings at the lowest and at the highest clock of the cells."""
    practical: float = math.nan
    """Share of the ceiling that a plain kernel reached; NaN where that was not measured."""

    @property
    def is_memory(self) -> bool:
        """Whether the roof is one of bytes."""
        return self.unit == BYTES


@dataclass(frozen=True)
class OwnRoof:
    """The roof that a cell is nearest to, in the launch that was counted."""

    name: str
    percent: float
    """Percent of the roof, by the operations or bytes that counters saw."""
    ceiling: float
    """Per second at the clock of that launch; NaN where it was not counted."""

    @property
    def is_memory(self) -> bool:
        """Whether the roof is one of bytes."""
        return self.name in MEMORY


def own_roof(findings: Findings, cell: Cell) -> OwnRoof | None:
    """Nearest roof of a correct cell, at its own clock; None where no roof was counted."""
    nearest = nearest_roof(findings.numbers, cell.variant, cell.problem)
    if nearest is None:
        return None
    name, percent = nearest
    ceilings = {roof: values for roof, _, values in _ceilings(findings, [cell])}
    return OwnRoof(name, percent, next(iter(ceilings.get(name, ())), math.nan))


def roof_lines(findings: Findings, problem: Problem) -> tuple[RoofLine, ...]:
    """Roofs that counters of correct cells tell: memory first, then arithmetic that is used.

    Without them the roof of device memory alone, by the peak of the GPU's description.
    """
    cells = _correct_cells(findings.programs, problem)
    practical = findings.report.measured.practical_roofs
    lines = [
        RoofLine(
            name,
            unit,
            median(ceilings),
            min(ceilings),
            max(ceilings),
            practical.get(name, math.nan),
        )
        for name, unit, ceilings in _ceilings(findings, cells)
        if ceilings
    ]
    peak = findings.report.environment.peak_dram_bytes_per_s
    if peak and not any(line.name == "dram" for line in lines):
        lines.insert(0, RoofLine("dram", BYTES, peak, peak, peak, practical.get("dram", math.nan)))
    return tuple(lines)


def level_bytes(findings: Findings, cell: Cell) -> dict[str, float]:
    """Bytes of a cell at each level at which they were counted and any moved."""
    amounts = {
        level: sum(findings.numbers.value(cell, metric).median for metric in metrics)
        for level, (metrics, _, _) in MEMORY.items()
    }
    amounts[SHARED] = _shared(findings, cell)[0]
    return {level: amount for level, amount in amounts.items() if amount > 0}


def counted_operations(numbers: CellNumbers, cell: Cell) -> float:
    """Operations that counters saw: of tensor cores by type, and of FP32; NaN where none did."""
    counts = [numbers.value(cell, f"tensor_{kind}_ops").median for kind in TENSOR_TYPES]
    fma, add, mul = (numbers.value(cell, f"fp32_{name}").median for name in ("fma", "add", "mul"))
    counted = [count for count in (*counts, 2 * fma + add + mul) if math.isfinite(count)]
    return sum(counted) if counted else math.nan


def _correct_cells(programs: Programs, problem: Problem) -> list[Cell]:
    cells = (programs.correct_at(variant, problem) for variant in programs.variants)
    return [cell for cell in cells if cell is not None]


def _ceilings(findings: Findings, cells: list[Cell]) -> Iterator[tuple[str, str, list[float]]]:
    """Name, unit and ceilings of each roof, one for each cell that tells it."""
    numbers = findings.numbers
    for level, (_, peak, clock) in MEMORY.items():
        yield level, BYTES, _products(numbers, cells, peak, clock)
    shared = (_shared(findings, cell)[1] for cell in cells)
    yield SHARED, BYTES, [ceiling for ceiling in shared if math.isfinite(ceiling)]
    for kind in TENSOR_TYPES:
        working = [cell for cell in cells if numbers.value(cell, f"tensor_{kind}_ops").median > 0]
        ceilings = _products(numbers, working, f"tensor_{kind}_peak", "sm_clock_hz")
        yield f"tensor_{kind}", OPERATIONS, ceilings
    fma = _products(numbers, cells, "fp32_fma_peak", "sm_clock_hz")
    yield "fp32", OPERATIONS, [2 * ceiling for ceiling in fma]


def _products(numbers: CellNumbers, cells: list[Cell], peak: str, clock: str) -> list[float]:
    """Peak times clock of each cell that has both."""
    products = (
        numbers.value(cell, peak).median * numbers.value(cell, clock).median for cell in cells
    )
    return [product for product in products if product > 0]


def _shared(findings: Findings, cell: Cell) -> tuple[float, float]:
    """Bytes of shared memory that an explained cell moved, and their ceiling; NaN without.

    Wavefronts of 128 bytes: those of bank conflicts are among them.
    """
    launches = findings.report.details.profiles.get(cell.id, ())
    if len(launches) != 1:
        return math.nan, math.nan
    kernel = launches[0]
    amount = _WAVEFRONT_BYTES * kernel.value(SHARED_WAVEFRONTS)
    percent = kernel.value(SHARED_WAVEFRONTS_PCT)
    if not (percent >= _LEAST_PCT and kernel.value(DURATION) > 0):
        return amount, math.nan
    return amount, amount / kernel.value(DURATION) * 1e9 / (percent / 100)
