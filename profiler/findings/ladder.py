"""A ladder of versions in the order of the spec: each step, and how far it is from the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analyse.effects import Effect, ParameterStep, over_problems
from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import Ruling
from profiler.findings.steps import Found, found_steps
from profiler.findings.values import NAN
from profiler.model import Problem, Variant


@dataclass(frozen=True)
class Rung:
    """One version of the ladder; effects are by problem, in the order of the plan."""

    number: int
    """From 1, in the order of the spec."""
    variant: Variant
    before: Variant | None
    """The version before it that has a correct result anywhere; None for the first of them."""
    step: tuple[Effect, ...]
    """Against the version before it."""
    step_rulings: tuple[Ruling, ...]
    """What is said of it against the version before it."""
    whole: tuple[Effect, ...]
    """Against the first version that has a correct result."""
    whole_rulings: tuple[Ruling, ...]
    """What is said of it against the first version; of the first itself nothing."""
    percents: tuple[float, ...]
    """Of the baseline's performance, by problem; NaN where either is missing."""
    percent: float
    """Geometric mean of `percents` that are known."""

    @property
    def measured(self) -> bool:
        """Whether it has a correct result anywhere."""
        return bool(self.whole)


def rungs(ranking: Ranking) -> tuple[Rung, ...]:
    """Every version that is no reference, in the order of the spec."""
    lookup = ranking.lookup
    measured = [one for one in lookup.rivals if _measured(lookup, one)]
    before = dict(zip((one.id for one in measured[1:]), measured, strict=False))
    step = _found(lookup, [(before[one.id], one) for one in measured[1:]])
    whole = _found(lookup, [(measured[0], one) for one in measured])
    nothing = Found(ParameterStep("version", "", "", ()), (), ())
    means = {row.variant.id: row.geometric_mean for row in ranking.standings}
    return tuple(
        Rung(
            number,
            one,
            before.get(one.id),
            step.get(one.id, nothing).effects,
            step.get(one.id, nothing).rulings,
            whole.get(one.id, nothing).effects,
            whole.get(one.id, nothing).rulings if one.id in before else (),
            tuple(_percent_at(lookup, one, problem) for problem in lookup.problems),
            _percent(lookup, means.get(one.id, NAN)),
        )
        for number, one in enumerate(lookup.rivals, start=1)
    )


def _measured(lookup: Lookup, variant: Variant) -> bool:
    return any((variant.id, problem.id) in lookup.blocks for problem in lookup.problems)


def _found(lookup: Lookup, pairs: Sequence[tuple[Variant, Variant]]) -> dict[str, Found]:
    """Effects and what is said of them, by the id of the second of each pair."""
    chosen = [ParameterStep("version", pair[0].name, pair[1].name, (pair,)) for pair in pairs]
    found = found_steps(lookup, chosen)
    return {pair[1].id: one for pair, one in zip(pairs, found, strict=True)}


def _percent_at(lookup: Lookup, variant: Variant, problem: Problem) -> float:
    if not lookup.correct(lookup.cells.get((variant.id, problem.id))):
        return NAN
    return _percent(lookup, lookup.at(variant, problem, lookup.report.primary).ratio)


def _percent(lookup: Lookup, ratio: float) -> float:
    """Percent of the baseline's performance: twice the time is half of it."""
    if not ratio > 0:
        return NAN
    return 100 * ratio if lookup.primary.better == "higher" else 100 / ratio


def largest_step(ladder: Sequence[Rung]) -> Rung | None:
    """The rung whose step is the largest factor, up or down, over all problems."""
    known = [one for one in ladder if over_problems(one.step).pairs]
    return max(known, key=lambda one: abs(math.log(over_problems(one.step).ratio)), default=None)
