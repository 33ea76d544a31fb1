"""Effects of steps: of one parameter with all else equal, or from version to version of a ladder.

A step that a single pair of variants makes has the ratio and the verdict of that pair; one of
several pairs is judged by their mean, block by block.

What a parameter of problems changes is asked as well: what a mask costs, or the layout of the
inputs. Durations of two problems are of different work, and are given no verdict.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import geometric_mean

from profiler.analyse.effects import Effect, ParameterStep, effects, judge_steps, over_problems
from profiler.analyse.judge import Judge, Pair
from profiler.analyse.summary import block_values
from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.json_model import JsonObject, NamedDocument, Number, Source
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.findings.verdicts import (
    JUDGED,
    NO_VERDICT,
    PairVerdict,
    PairVerdicts,
    VerdictPartDocument,
    read_verdicts,
    verdict_counts,
    verdict_on,
)
from profiler.model import Problem, Variant
from profiler.planning.problem_names import distinct_values, varying_parameters
from profiler.run_folder.load.report import PageSettings, Report

__all__ = ["Effect", "ParameterStep"]

BlockValues = Mapping[tuple[str, str], Mapping[int, float]]
"""By (variant id, problem id): the duration by block."""


@dataclass(frozen=True)
class StepEffect:
    """A step with its effect and its verdict, by problem in the order of the plan."""

    step: ParameterStep
    effects: tuple[Effect, ...]
    verdicts: tuple[PairVerdict, ...]
    overall: Effect
    """Over all problems: geometric mean, extremes, pairs."""

    def by(self, problems: Sequence[Problem]) -> list[tuple[Problem, Effect, PairVerdict]]:
        """Every problem of the plan with its effect and its verdict."""
        return [*zip(problems, self.effects, self.verdicts, strict=True)]


@dataclass(frozen=True)
class Rung:
    """Version of a ladder; effects are by problem, in the order of the plan."""

    number: int
    """From 1, in the order of the spec; that of an alias of another version is left out."""
    variant: Variant
    before: Variant | None
    """The version before it that has a correct result anywhere; None for the first of them."""
    step: StepEffect | None
    """Against the version before it."""
    cumulative: StepEffect | None
    """Against the first version that has a correct result; None where it has none itself."""
    ratios: tuple[float, ...]
    """To the baseline, by problem; NaN where either is missing."""
    ratio: float
    """Geometric mean of the ratios to the baseline."""


@dataclass(frozen=True, eq=False)
class StepFinder:
    """Effects and verdicts of steps, from the verdicts that were given on pairs of cells."""

    report: Report
    programs: Programs
    verdicts: PairVerdicts
    timing: Judge

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Ids, in the order of the plan."""
        return tuple(problem.id for problem in self.programs.problems)

    @cached_property
    def blocks(self) -> BlockValues:
        """The duration by block, of correct cells."""
        by_cell: dict[str, dict[int, float]] = {}
        frame = block_values(self.report.measured.samples, self.report.plan.cells, JUDGED)
        for cell, block, value in frame.itertuples(index=False):
            by_cell.setdefault(str(cell), {})[int(block)] = float(value)
        cells = self.programs.correct_by_place.items()
        return {place: by_cell[cell.id] for place, cell in cells if cell.id in by_cell}

    def effects_of(self, steps: Sequence[ParameterStep]) -> tuple[StepEffect, ...]:
        """Effect and verdict of each step at each problem; where there is no pair, no verdict."""
        if not steps:
            return ()
        by_blocks = effects(steps, self.blocks, self.problems)
        return tuple(
            _step_effect(step, row, verdict_row)
            for step, row, verdict_row in zip(steps, by_blocks, self._verdicts(steps), strict=True)
        )

    def _verdicts(self, steps: Sequence[ParameterStep]) -> list[tuple[PairVerdict, ...]]:
        several = [step for step in steps if len(step.pairs) > 1]
        by_mean = dict(zip(map(id, several), self._mean_verdicts(several), strict=True))
        return [
            by_mean[id(step)] if len(step.pairs) > 1 else self._pair_verdicts(step)
            for step in steps
        ]

    def _pair_verdicts(self, step: ParameterStep) -> tuple[PairVerdict, ...]:
        pairs = _pairs_of_step(step, self.programs)
        return tuple(
            NO_VERDICT if pair is None else verdict_on(self.verdicts, *pair) for pair in pairs
        )

    def _mean_verdicts(self, steps: Sequence[ParameterStep]) -> list[tuple[PairVerdict, ...]]:
        if not steps:
            return []
        ids = {place: cell.id for place, cell in self.programs.correct_by_place.items()}
        frame = judge_steps(steps, self.timing, ids, self.problems)
        flat = read_verdicts(frame, self.report.rules.looks)
        width = len(self.problems)
        return [tuple(flat[width * row : width * (row + 1)]) for row in range(len(steps))]


def _pairs_of_step(step: ParameterStep, programs: Programs) -> tuple[Pair | None, ...]:
    """Cell ids (after, before) of a step of one pair, by problem; None where one is not correct."""
    cells = [
        [programs.correct_at(variant, problem) for variant in step.pairs[0]]
        for problem in programs.problems
    ]
    return tuple((after.id, before.id) if after and before else None for before, after in cells)


def pairs_of_steps(steps: Sequence[ParameterStep], programs: Programs) -> tuple[Pair, ...]:
    """The pairs of cells that steps of a single pair compare."""
    rows = (_pairs_of_step(step, programs) for step in steps if len(step.pairs) == 1)
    return tuple(pair for row in rows for pair in row if pair is not None)


def _step_effect(
    step: ParameterStep, row: Sequence[Effect], verdicts: Sequence[PairVerdict]
) -> StepEffect:
    judged = _judged_effect if len(step.pairs) == 1 else _judged_mean_effect
    judged_effects = tuple(
        judged(effect, verdict) for effect, verdict in zip(row, verdicts, strict=True)
    )
    where_paired = tuple(
        replace(verdict, ratio=effect.ratio, low=effect.low, high=effect.high)
        if effect.pairs and verdict.blocks
        else verdict
        if effect.pairs
        else NO_VERDICT
        for effect, verdict in zip(judged_effects, verdicts, strict=True)
    )
    return StepEffect(step, judged_effects, where_paired, over_problems(judged_effects))


def _judged_mean_effect(effect: Effect, verdict: PairVerdict) -> Effect:
    """The mean of several pairs, with the interval of its verdict, which has the session's offset.

    The ratio stays the mean of the quotients of what is shown; the interval holds it.
    """
    if not verdict.blocks or not effect.pairs:
        return effect
    low, high = min(verdict.low, effect.ratio), max(verdict.high, effect.ratio)
    return replace(effect, low=low, high=high)


def _judged_effect(effect: Effect, verdict: PairVerdict) -> Effect:
    """The effect of a single pair, with the ratio that its verdict was given on."""
    if not verdict.blocks:
        return effect
    ratio = verdict.ratio
    return replace(
        effect, pairs=1, ratio=ratio, low=verdict.low, high=verdict.high,
        smallest=ratio, largest=ratio,
    )  # fmt: skip


# ---- ladders -------------------------------------------------------------------------------------


def ladder_steps(measured: Sequence[Variant]) -> tuple[ParameterStep, ...]:
    """From each version with a correct result to the next."""
    return tuple(
        ParameterStep("version", before.label, after.label, ((before, after),))
        for before, after in itertools.pairwise(measured)
    )


def cumulative_steps(measured: Sequence[Variant]) -> tuple[ParameterStep, ...]:
    """From the first version with a correct result to each other, the next one left out.

    That step is the second rung's own.
    """
    return tuple(
        ParameterStep("version", measured[0].label, after.label, ((measured[0], after),))
        for after in measured[1:]
    )


def make_ladder(
    measured: Sequence[Variant],
    finder: StepFinder,
    numbers: CellNumbers,
    means: Mapping[str, float],
) -> tuple[Rung, ...]:
    """Every version in the order of the spec, with its number there.

    `measured`: those with a correct result; `means`: geometric mean of the ratios to the baseline
    by variant id.
    """
    programs = finder.programs
    step = _by_variant(finder.effects_of(ladder_steps(measured)))
    cumulative = _by_variant(finder.effects_of(cumulative_steps(measured)))
    cumulative |= {variant.id: _itself(variant, finder) for variant in measured[:1]}
    before = {after.id: first for first, after in itertools.pairwise(measured)}
    versions = [item for item in programs.plan.variants if item.id not in programs.references]
    return tuple(
        Rung(
            number=number,
            variant=variant,
            before=before.get(variant.id),
            step=step.get(variant.id),
            cumulative=cumulative.get(variant.id),
            ratios=tuple(
                numbers.correct_at(variant, problem, JUDGED).ratio for problem in programs.problems
            ),
            ratio=means.get(variant.id, math.nan),
        )
        for number, variant in enumerate(versions, start=1)
        if variant.id not in programs.owners
    )


def _by_variant(step_effects: Sequence[StepEffect]) -> dict[str, StepEffect]:
    return {effect.step.pairs[0][1].id: effect for effect in step_effects}


def _itself(variant: Variant, finder: StepFinder) -> StepEffect:
    """The first version against itself: 1 wherever it was measured, and no verdict."""
    row = tuple(
        Effect(problem, 1, ratio=1.0, smallest=1.0, largest=1.0)
        if (variant.id, problem) in finder.programs.correct_by_place
        else Effect(problem, 0)
        for problem in finder.problems
    )
    step = ParameterStep("version", variant.label, variant.label, ((variant, variant),))
    return StepEffect(step, row, (NO_VERDICT,) * len(row), over_problems(row))


def largest_effects(steps: Sequence[StepEffect]) -> list[StepEffect]:
    """The steps with a ratio over all problems, the largest factor first, up or down."""
    measured = [step for step in steps if step.overall.pairs and step.overall.ratio > 0]
    return sorted(measured, key=lambda step: -abs(math.log(step.overall.ratio)))


def gains_and_losses(ladder: Sequence[Rung]) -> tuple[list[StepEffect], list[StepEffect]]:
    """Steps to a better and to a worse version over all problems, most factor first."""
    steps = [rung.step for rung in ladder if rung.step is not None and rung.step.overall.pairs]
    steps.sort(key=lambda step: step.overall.ratio)
    return (
        [step for step in steps if step.overall.ratio < 1],
        [step for step in reversed(steps) if step.overall.ratio > 1],
    )


# ---- as JSON -------------------------------------------------------------------------------------


class EffectDocument(JsonObject):
    """A ratio over pairs of variants: after ÷ before."""

    get = Source[Effect]()
    ratio: Number = get(lambda effect: effect.ratio if effect.pairs else math.nan)
    ratio_low: Number = get(lambda effect: effect.low)
    ratio_high: Number = get(lambda effect: effect.high)
    smallest: Number = get(lambda effect: effect.smallest)
    largest: Number = get(lambda effect: effect.largest)


class ProblemEffectDocument(JsonObject):
    """A step at one problem with its verdict."""

    get = Source[tuple[Effect, PairVerdict]]()
    problem: str = get(lambda judged: judged[0].problem)
    effect = get.spread(EffectDocument, lambda judged: judged[0])
    verdict = get.spread(VerdictPartDocument, lambda judged: judged[1])


class StepPartDocument(JsonObject):
    """A step over all problems, and at each."""

    get = Source[StepEffect]()
    effect = get.spread(EffectDocument, lambda step: step.overall)
    verdicts: dict[str, int] = get(lambda step: verdict_counts(step.verdicts))
    problems = get.rows(
        ProblemEffectDocument, lambda step: zip(step.effects, step.verdicts, strict=True)
    )


class RungDocument(JsonObject):
    """One version of a ladder."""

    get = Source[Rung]()
    number: int = get(lambda rung: rung.number)
    variant_names = get.spread(NamedDocument, lambda rung: rung.variant)
    note: str = get(lambda rung: rung.variant.note)
    before: str | None = get(lambda rung: rung.before.name if rung.before else None)
    step = get.nested(StepPartDocument, lambda rung: rung.step)
    cumulative = get.nested(StepPartDocument, lambda rung: rung.cumulative)
    ratio_to_baseline: Number = get(lambda rung: rung.ratio)
    """geometric mean over the problems"""


# ---- contrasts of problems -----------------------------------------------------------------------


@dataclass(frozen=True)
class Contrast:
    """Value of a parameter against the first value, or against `false`."""

    step: ParameterStep
    """Without pairs of variants: each problem has its own best."""
    ratios: tuple[tuple[Problem, float], ...]
    """The best value of each problem ÷ that of the problem that differs in this alone."""

    @property
    def ratio(self) -> float:
        """Geometric mean."""
        return geometric_mean(ratio for _, ratio in self.ratios)


def contrasted_parameter(problems: Sequence[Problem], settings: PageSettings) -> str | None:
    """The parameter of problems that an experiment asks about; None without one.

    A page of grids names it as its rows, which are words; else it is a flag. Problems of a captured
    step are what a program happened to ask.
    """
    if settings.weights is not None:
        return None
    keys = varying_parameters(problems)
    of_rows = settings.axes[0] if settings.axes else None
    if of_rows in keys and all(
        isinstance(value, str) for value in distinct_values(problems, of_rows)
    ):
        return of_rows
    flags = (
        key
        for key in keys
        if all(isinstance(problem.params.get(key), bool) for problem in problems)
    )
    return next(flags, None)


def flags_of(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Parameters that are on or off in variants that differ in them."""
    return tuple(
        key
        for key in varying_parameters(variants)
        if any(isinstance(variant.params.get(key), bool) for variant in variants)
    )


def contrasts(ranking: Ranking, settings: PageSettings) -> tuple[Contrast, ...]:
    """Every other value of the parameter that is asked about, the one that changes most first."""
    problems = ranking.programs.problems
    key = contrasted_parameter(problems, settings)
    if key is None:
        return ()
    before, *other_values = sorted(distinct_values(problems, key), key=lambda value: value is True)
    best = {
        problem: winner.value.median
        for problem, winner in ranking.winners.items()
        if winner.value.median > 0
    }
    by_key = {
        _identity_without(problem, key): problem
        for problem in problems
        if problem.params[key] == before
    }
    value_contrasts = []
    for value in other_values:
        ratios = tuple(
            (problem, best[problem.id] / best[counterpart.id])
            for problem in problems
            if problem.params[key] == value
            and (counterpart := by_key.get(_identity_without(problem, key))) is not None
            and {problem.id, counterpart.id} <= best.keys()
        )
        if ratios:
            value_contrasts.append(Contrast(ParameterStep(key, before, value, ()), ratios))
    return tuple(sorted(value_contrasts, key=lambda contrast: -abs(math.log(contrast.ratio))))


def _identity_without(problem: Problem, key: str) -> str:
    """Identity of a problem without one of its parameters."""
    return repr(sorted((name, value) for name, value in problem.params.items() if name != key))
