"""Cells as they are used: among launches that follow each other, and in a captured step.

Back to back: durations, verdicts and power against those of one launch on an idle GPU. The verdicts
of both are given by the same rules, each in a family of its own: they are about different
quantities, and no verdict mixes them. In a step: what a captured step of a program would take with
each variant of an operator.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.analyse.judge import Judge, Rules, visit_times
from profiler.analyse.why.account import logarithmic_mean
from profiler.collect.timer import SUSTAINED
from profiler.findings.cell_numbers import NOTHING, CellNumbers, Value
from profiler.findings.json_model import JsonObject, NamedDocument, Number, Source
from profiler.findings.kinds.timers import reference_collector
from profiler.findings.verdicts import NO_VERDICT, PairVerdict, Reason, VerdictPartDocument, judged
from profiler.model import Cell, SessionKind, Variant, Verdict
from profiler.run_folder.load.report import PageSettings, Report

MOSTLY_LIMITED_PCT = 50.0
"""From so many readings on that name the power limit, a kernel is held by it."""
_DURATION, _CLOCK = "duration_ns", "sm_clock_ghz"
_DECIDED = (Verdict.FASTER, Verdict.SAME, Verdict.SLOWER)


@dataclass(frozen=True)
class SustainedCell:
    """A cell once on an idle GPU (cold) and back to back; NaN is not known."""

    cell: Cell
    values: Mapping[str, Value]
    """By metric."""
    cold_verdict: PairVerdict
    """Against the baseline, as everywhere else."""
    verdict: PairVerdict
    """Against the baseline, both back to back."""

    def median(self, metric: str) -> float:
        """Median of a metric in this cell."""
        return self.values.get(metric, NOTHING).median

    @property
    def cold_ns(self) -> float:
        """Duration of one launch on an idle GPU."""
        return self.median(_DURATION)

    @property
    def sustained_ns(self) -> float:
        """Duration of a launch among others."""
        return self.median(SUSTAINED.metric or "")

    @property
    def cold_share(self) -> float:
        """Cold ÷ sustained duration: below 1 it is slower when it is used."""
        return self.cold_ns / self.sustained_ns if self.sustained_ns else math.nan

    @property
    def cold_clock_ghz(self) -> float:
        """Clock of one launch, from its cycles."""
        return self.median(_CLOCK)

    @property
    def clock_ghz(self) -> float:
        """Clock of a launch among others, by NVML."""
        return self.median("sustained_clock_ghz")

    @property
    def clock_ns(self) -> float:
        """Part of sustained - cold duration that is the clock's; NaN where one is not known.

        Where the power limit holds the kernel it is the limit's, else of another cause.
        duration = cycles / clock, decomposed as in `profiler.analyse.why.account`.
        """
        clocks, durations = (self.cold_clock_ghz, self.clock_ghz), (self.sustained_ns, self.cold_ns)
        if not all(value > 0 for value in (*clocks, *durations)):
            return math.nan
        return logarithmic_mean(*durations) * math.log(clocks[0] / clocks[1])

    @property
    def cycles_ns(self) -> float:
        """The other part: more cycles, or fewer."""
        return self.sustained_ns - self.cold_ns - self.clock_ns

    @property
    def is_power_limited(self) -> bool:
        """Whether the power limit holds its clock."""
        return self.median("power_limited_pct") >= MOSTLY_LIMITED_PCT

    @property
    def differs(self) -> bool:
        """Whether both verdicts were given and are others.

        A cold one that is UNCLEAR since cycles do not confirm the time counts: the clock of use
        decides then.
        """
        cold, sustained = self.cold_verdict.verdict, self.verdict.verdict
        is_cold_clear = cold in _DECIDED or self.cold_verdict.reason is Reason.CLOCK
        return is_cold_clear and sustained in _DECIDED and cold != sustained


def differing_cells(cells: Iterable[SustainedCell]) -> list[SustainedCell]:
    """Cells whose verdict is another when they are used, contrary ones first."""
    return sorted(
        (cell for cell in cells if cell.differs),
        key=lambda cell: cell.verdict.verdict is Verdict.SAME,
    )


def find_sustained(
    report: Report, numbers: CellNumbers, against_baseline: Mapping[str, PairVerdict]
) -> tuple[SustainedCell, ...]:
    """Cells that were measured both ways, compared; `against_baseline`: cold verdicts by id."""
    samples = report.measured.samples
    reference = reference_collector(samples)
    if reference in (None, SUSTAINED.name) or SUSTAINED.name not in samples["collector"].unique():
        return ()
    times = visit_times(samples, report.plan.cells, SessionKind.TIMING, collector=SUSTAINED.name)
    judge = Judge(times, report.plan.baseline, Rules(looks=1, delta=report.rules.delta))
    cells = list(numbers.programs.correct_cells.values())
    pairs = judged(judge, dict.fromkeys(judge.pairs_with_baseline(cells), "baseline"))
    verdicts = {cell: verdict for (cell, _), verdict in pairs.items()}
    measured = [
        SustainedCell(
            cell,
            {metric.name: numbers.value(cell, metric.name) for metric in numbers.metrics},
            against_baseline.get(cell.id, NO_VERDICT),
            verdicts.get(cell.id, NO_VERDICT),
        )
        for cell in cells
    ]
    return tuple(cell for cell in measured if cell.sustained_ns > 0 and cell.cold_ns > 0)


class SustainedDocument(JsonObject):
    """A cell back to back: its verdict against the baseline beside that of one launch."""

    get = Source[SustainedCell]()
    cell: str = get(lambda timed: timed.cell.id)
    cold_ns: Number = get(lambda timed: timed.cold_ns)
    sustained_ns: Number = get(lambda timed: timed.sustained_ns)
    cold_verdict: str | None = get(
        lambda timed: timed.cold_verdict.verdict and timed.cold_verdict.verdict.value
    )
    clock_ns: Number = get(lambda timed: timed.clock_ns)
    cycles_ns: Number = get(lambda timed: timed.cycles_ns)
    power_limited: bool = get(lambda timed: timed.is_power_limited)
    ratio: Number = get(lambda timed: timed.verdict.ratio)
    ratio_low: Number = get(lambda timed: timed.verdict.low)
    ratio_high: Number = get(lambda timed: timed.verdict.high)
    sustained = get.spread(VerdictPartDocument, lambda timed: timed.verdict)


# ---- in a captured step --------------------------------------------------------------------------


@dataclass(frozen=True)
class StepTime:
    """Time of an operator in a step with one variant: calls by duration, over the problems."""

    variant: Variant
    ns: float
    """The baseline's time where the variant has no right result."""
    ratio: float
    """By the time with the baseline."""
    low: float
    """95 % interval of the ratio; problems are independent of each other."""
    high: float
    problems: int
    """At how many it has a ratio."""


@dataclass(frozen=True)
class CapturedStep:
    """The step that a program was captured in, with each variant in place of the baseline."""

    baseline: Variant
    baseline_ns: float
    """Time of the operator in the step with the baseline, as it was measured here."""
    step_ns: float | None
    """The whole step, as the program took it; None where that was not measured."""
    problems: int
    times: tuple[StepTime, ...]
    """Times of a step with every other variant that has a ratio, shortest first."""

    def step_with(self, ratio: float) -> float | None:
        """Nanoseconds of the step at a ratio of the operator's time; None where not known.

        An operator that takes longer here, alone, than the whole step did says nothing of it.
        """
        if self.step_ns is None or self.step_ns <= self.baseline_ns:
            return None
        return self.step_ns - self.baseline_ns * (1 - ratio)


def find_captured_step(
    settings: PageSettings,
    baseline: Variant | None,
    cells: Iterable[tuple[Cell, Value]],
) -> CapturedStep | None:
    """Projected times of a step; None without weights, or without numbers of the baseline.

    `cells`: those with a right result, with their durations in nanoseconds.
    """
    if settings.weights is None or baseline is None:
        return None
    by_variant: dict[str, list[tuple[Cell, Value]]] = defaultdict(list)
    for cell, value in cells:
        by_variant[cell.variant.id].append((cell, value))
    of_baseline = by_variant.pop(baseline.id, ())
    counts = {
        cell.problem.id: float(cell.problem.params.get(settings.weights) or 0)
        for cell, _ in of_baseline
    }
    shares = {
        cell.problem.id: counts[cell.problem.id] * value.median
        for cell, value in of_baseline
        if counts[cell.problem.id]
    }
    total = sum(shares.values())
    if not (math.isfinite(total) and total > 0):
        return None
    times = (_time(measured, shares, total) for measured in by_variant.values())
    return CapturedStep(
        baseline,
        total,
        None if settings.step_ms is None else settings.step_ms * 1e6,
        len(shares),
        tuple(sorted((time for time in times if time.problems), key=lambda time: time.ns)),
    )


def _time(
    cells: Sequence[tuple[Cell, Value]], shares: Mapping[str, float], total: float
) -> StepTime:
    """Sum over the cells of one variant; `shares`: times with the baseline by problem id.

    Half widths of the intervals add up as those of independent numbers do.
    """
    compared = [
        (shares[cell.problem.id], value)
        for cell, value in cells
        if cell.problem.id in shares and math.isfinite(value.ratio)
    ]
    change = sum(share * (value.ratio - 1) for share, value in compared)
    below = math.hypot(*(share * (value.ratio - value.ratio_low) for share, value in compared))
    above = math.hypot(*(share * (value.ratio_high - value.ratio) for share, value in compared))
    return StepTime(
        variant=cells[0][0].variant,
        ns=total + change,
        ratio=1 + change / total,
        low=1 + (change - below) / total,
        high=1 + (change + above) / total,
        problems=len(compared),
    )


class StepTimeDocument(JsonObject):
    """A step with one variant of the operator."""

    get = Source[tuple[CapturedStep, StepTime]]()
    variant_names = get.spread(NamedDocument, lambda at: at[1].variant)
    operator_ns: Number = get(lambda at: at[1].ns)
    ratio: Number = get(lambda at: at[1].ratio)
    """operator_ns by that of the baseline"""
    ratio_low: Number = get(lambda at: at[1].low)
    ratio_high: Number = get(lambda at: at[1].high)
    step_ns: Number = get(lambda at: at[0].step_with(at[1].ratio))
    problems: int = get(lambda at: at[1].problems)
    """problems with a ratio; at the others the baseline's time counts"""


class CapturedStepDocument(JsonObject):
    """What a captured step would take: calls in a step by duration, over the problems."""

    get = Source[CapturedStep]()
    operator_ns: float = get(lambda step: step.baseline_ns)
    """of the baseline, as measured here"""
    step_ns: Number = get(lambda step: step.step_ns)
    """of the whole step, as the program took it"""
    problems: int = get(lambda step: step.problems)
    variants = get.rows(StepTimeDocument, lambda step: [(step, time) for time in step.times])
