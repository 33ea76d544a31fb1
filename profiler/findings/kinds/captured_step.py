"""What a captured step of a program would take with each variant of an operator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.cell_numbers import Value
from profiler.findings.json_model import JsonObject, NamedDocument, Number, Source
from profiler.model import Cell, Variant
from profiler.run_folder.load.report import StepWeights


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
    weights: StepWeights | None,
    baseline: Variant | None,
    cells: Iterable[tuple[Cell, Value]],
) -> CapturedStep | None:
    """Projected times of a step; None without weights, or without numbers of the baseline.

    `cells`: those with a right result, with their durations in nanoseconds.
    """
    if weights is None or baseline is None:
        return None
    by_variant: dict[str, list[tuple[Cell, Value]]] = defaultdict(list)
    for cell, value in cells:
        by_variant[cell.variant.id].append((cell, value))
    of_baseline = by_variant.pop(baseline.id, ())
    counts = {
        cell.problem.id: float(cell.problem.params.get(weights.parameter) or 0)
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
    times = (_time(found, shares, total) for found in by_variant.values())
    return CapturedStep(
        baseline,
        total,
        None if weights.step_ms is None else weights.step_ms * 1e6,
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
    named = get.spread(NamedDocument, lambda at: at[1].variant)
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
    variants: list[StepTimeDocument] = get.rows(
        StepTimeDocument, lambda step: [(step, time) for time in step.times]
    )
