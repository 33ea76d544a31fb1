"""How the variants stand over all problems: the numbers of `profiler.analyse`, per variant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from profiler.findings import ranking as analysis
from profiler.findings.lookup import Lookup
from profiler.findings.rulings import Ruling
from profiler.findings.values import NAN, Value
from profiler.findings.winners import Winner, decided
from profiler.model import Problem, Variant

RatioOf = tuple[Problem, Value]


@dataclass(frozen=True)
class Standing:
    """How one variant does against the baseline, and as the only one for everything."""

    variant: Variant
    ratios: tuple[RatioOf, ...]
    """Problems with a ratio to the baseline, in the order of the plan."""
    rulings: tuple[Ruling, ...]
    """What is said of it against the baseline, at the problems of `ratios`."""
    complete: bool
    """Whether it has a rank at every problem that any variant has."""
    geometric_mean: float
    best: RatioOf | None
    worst: RatioOf | None
    regret: analysis.Regret | None
    planned: frozenset[str]
    """Ids of the problems that it is planned for and that have a best: elsewhere it cannot run."""

    @property
    def covers(self) -> bool:
        """Whether it has a rank at every problem that it is planned for."""
        return self.regret is not None and self.planned.isdisjoint(self.regret.missing)

    @property
    def excluding_one(self) -> int:
        """Count the problems at which the interval of the ratio does not reach 1."""
        return sum(excludes_one(value) for _, value in self.ratios)


def standings(lookup: Lookup) -> tuple[Standing, ...]:
    """Every variant, best first: complete ones before those that lack a problem.

    Best is who has the smallest mean ratio to the baseline; on a page that tunes, who costs least
    in the worst case when used everywhere, references apart.
    """
    metric = lookup.report.primary
    means = {one.variant: one for one in analysis.overall(correct_rows(lookup), metric)}
    chosen = analysis.one_for_all(rival_rows(lookup), metric, decided(winners(lookup)))
    regrets = {one.variant: one for one in chosen}
    by_regret = tunes(lookup) or not means
    order = {name: number for number, name in enumerate(regrets if by_regret else means)}
    rows = [
        _standing(lookup, variant, means.get(variant.id), regrets.get(variant.id))
        for variant in lookup.variants
    ]
    last = len(order)
    return tuple(sorted(rows, key=lambda row: (not row.complete, order.get(row.variant.id, last))))


def correct_rows(lookup: Lookup) -> pd.DataFrame:
    """Give the rows of the summary that may be compared: those of correct results."""
    correct = [cell.id for cell in lookup.report.plan.cells if lookup.correct(cell)]
    return lookup.summary[lookup.summary["cell"].isin(correct)]


def tunes(lookup: Lookup) -> bool:
    """Whether the page chooses among configurations rather than compares versions."""
    return lookup.report.kind == "autotune"


def rival_rows(lookup: Lookup) -> pd.DataFrame:
    """Give the rows among which a best is chosen: on a page that tunes, without references."""
    rows = correct_rows(lookup)
    return rows[~rows["variant"].isin(lookup.references)] if tunes(lookup) else rows


def winners(lookup: Lookup) -> Mapping[str, Winner]:
    """Give the winners that stand for the best: on a page that tunes, without references."""
    return lookup.rival_winners if tunes(lookup) else lookup.winners


def best_or_tied(lookup: Lookup) -> Mapping[str, frozenset[str]]:
    """Give, by variant id, the problems where it is best, or where it is not shown to be worse."""
    found: dict[str, set[str]] = {}
    told = decided(winners(lookup))
    for one in analysis.best_per_problem(rival_rows(lookup), lookup.report.primary, told):
        for variant in (one.variant, *(tied.variant for tied in one.tied)):
            found.setdefault(variant, set()).add(one.problem)
    return {variant: frozenset(problems) for variant, problems in found.items()}


def excludes_one(value: Value) -> bool:
    """Whether the interval of a ratio is known and lies wholly on one side of 1."""
    return value.ratio_low > 1 or value.ratio_high < 1


def _standing(
    lookup: Lookup,
    variant: Variant,
    mean: analysis.VariantOverall | None,
    regret: analysis.Regret | None,
) -> Standing:
    pairs = tuple(
        (problem, value)
        for problem in lookup.problems
        if lookup.correct(lookup.cells.get((variant.id, problem.id)))
        and math.isfinite((value := lookup.at(variant, problem, lookup.report.primary)).ratio)
    )
    higher = lookup.primary.better == "higher"
    ordered = sorted(pairs, key=lambda pair: pair[1].ratio, reverse=higher)
    return Standing(
        variant=variant,
        ratios=pairs,
        rulings=tuple(lookup.ruling(variant, problem) for problem, _ in pairs),
        complete=regret is not None and not regret.missing,
        geometric_mean=mean.geomean_ratio if mean else NAN,
        best=ordered[0] if ordered else None,
        worst=ordered[-1] if ordered else None,
        regret=regret,
        planned=lookup.planned[variant.id].intersection(lookup.best_by_problem),
    )
