"""Ranks of variants: at each problem, over all problems, and as the best single choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.values import NAN, Value
from profiler.findings.verdicts import PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant

ProblemValue = tuple[Problem, Value]


@dataclass(frozen=True)
class Regret:
    """Slowdown of one variant used for all problems, relative to the winner of each.

    Slowdowns are factors of the metric that decides: 1.23 is 23 % worse than the winner.
    """

    problems: int
    missing: tuple[str, ...]
    """Ids of problems that have a winner, and where the variant has no correct result."""
    mean: float
    """Mean slowdown."""
    worst: float
    worst_problem: str
    """Id."""


@dataclass(frozen=True)
class VariantRank:
    """Ratios of one variant to the baseline, and its regret as the single choice."""

    variant: Variant
    ratios: tuple[ProblemValue, ...]
    """Problems with a ratio to the baseline, in the order of the plan."""
    verdicts: tuple[PairVerdict, ...]
    """Against the baseline, at the problems of `ratios`."""
    verdict_by_problem: Mapping[str, PairVerdict]
    """Against the baseline, by the id of every problem that both are planned for; NO DATA where one
    failed."""
    complete: bool
    """Whether it is ranked at every problem that any variant is ranked at."""
    geometric_mean: float
    """Geometric mean of `ratios`."""
    best: ProblemValue | None
    worst: ProblemValue | None
    regret: Regret | None
    planned: frozenset[str]
    """Ids of the problems that it is planned for, of those that have a winner."""

    @property
    def planned_verdicts(self) -> tuple[PairVerdict, ...]:
        """The verdicts of `verdict_by_problem`."""
        return tuple(self.verdict_by_problem.values())

    @property
    def covers(self) -> bool:
        """Whether it is ranked at every problem that it is planned for."""
        return self.regret is not None and self.planned.isdisjoint(self.regret.missing)

    @property
    def excluding_one(self) -> int:
        """Count the problems at which the interval of the ratio does not reach 1."""
        return sum(excludes_one(value) for _, value in self.ratios)


def excludes_one(value: Value) -> bool:
    """Whether the interval of a ratio is known and lies wholly on one side of 1."""
    return value.ratio_low > 1 or value.ratio_high < 1


def slowdown(
    value: Value, blocks: Value, best: Value, best_blocks: Value, *, higher_is_better: bool = False
) -> float:
    """Ratio by which a number is worse than the winner's; below 1 it is better.

    Two numbers of one kind are compared: both of the final, or both of the blocks before it, since
    the GPU's clock may have been another. `blocks` and `best_blocks` are of the latter.
    """
    above, below = (value, best) if value.source == best.source else (blocks, best_blocks)
    if not (above.median > 0 and below.median > 0):
        return NAN
    return below.median / above.median if higher_is_better else above.median / below.median


def ranks_by_slowdown(slowdowns: Mapping[str, float]) -> dict[str, float]:
    """Rank by cell id, 1 is best; equal slowdowns share the better rank, missing ones have none."""
    ranked = [value for value in slowdowns.values() if not math.isnan(value)]
    return {
        cell: 1.0 + sum(other < value for other in ranked)
        for cell, value in slowdowns.items()
        if not math.isnan(value)
    }


def regret_of(
    variant: Variant, slowdowns: Mapping[tuple[str, str], float], problems: Sequence[str]
) -> Regret | None:
    """Regret of a variant over problems (ids) that have a winner; None where it is ranked nowhere.

    `slowdowns` by (variant id, problem id); what is better than the winner costs nothing.
    """
    slowdown_by_problem = {
        problem: max(1.0, slowdowns[variant.id, problem])
        for problem in problems
        if math.isfinite(slowdowns.get((variant.id, problem), NAN))
    }
    if not slowdown_by_problem:
        return None
    worst = max(slowdown_by_problem, key=lambda problem: slowdown_by_problem[problem])
    return Regret(
        problems=len(slowdown_by_problem),
        missing=tuple(problem for problem in problems if problem not in slowdown_by_problem),
        mean=sum(slowdown_by_problem.values()) / len(slowdown_by_problem),
        worst=slowdown_by_problem[worst],
        worst_problem=worst,
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """Geometric mean of positive ratios; NaN without any."""
    positive = [ratio for ratio in ratios if ratio > 0]
    return math.exp(sum(map(math.log, positive)) / len(positive)) if positive else NAN


def contenders_of(winners: Mapping[str, Winner]) -> dict[str, frozenset[str]]:
    """Ids of the problems at which a variant wins or is not shown to be worse, by variant id."""
    problems: dict[str, set[str]] = {}
    for problem, winner in winners.items():
        for variant in winner.contenders:
            problems.setdefault(variant, set()).add(problem)
    return {variant: frozenset(ids) for variant, ids in problems.items()}
