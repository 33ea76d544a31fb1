"""Every variant over all problems, best first; the one to recommend; roles in figures."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.findings import Programs
from profiler.findings.ranking import Regret, VariantRank, geometric_mean, regret_of
from profiler.findings.values import NOTHING, Value
from profiler.findings.verdicts import NO_DATA, NO_VERDICT, PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant


@dataclass(frozen=True, eq=False)
class RankInputs:
    """Inputs of the ranks."""

    programs: Programs
    values: Mapping[str, Value]
    """Values of the metric that decides, by cell id."""
    against_baseline: Mapping[str, PairVerdict]
    slowdowns: Mapping[tuple[str, str], float]
    """By (variant id, problem id), against the deciding winner."""
    deciding: Mapping[str, Winner]
    """By problem id."""
    winners: Mapping[str, Winner]
    higher_is_better: bool
    tunes: bool


def rank_variants(inputs: RankInputs) -> tuple[VariantRank, ...]:
    """Every variant, best first: complete ones before those that lack a problem.

    Best is who has the smallest geometric mean of ratios to the baseline; where the run tunes, who
    has the smallest worst slowdown as the only one, references excluded.
    """
    rows = [_rank(inputs, variant) for variant in inputs.programs.variants]
    sign = -1 if inputs.higher_is_better else 1
    by_regret = inputs.tunes or all(math.isnan(row.geometric_mean) for row in rows)

    def order(row: VariantRank) -> tuple[bool, bool, float, float]:
        if by_regret:
            missing = len(row.regret.missing) if row.regret else 0
            worst = row.regret.worst if row.regret else math.inf
            return (not row.complete, row.regret is None, float(missing), worst)
        unknown = math.isnan(row.geometric_mean)
        return (not row.complete, unknown, 0.0, 0.0 if unknown else sign * row.geometric_mean)

    return tuple(sorted(rows, key=order))


def _rank(inputs: RankInputs, variant: Variant) -> VariantRank:
    ratios = tuple(
        (problem, value)
        for problem in inputs.programs.problems
        if (cell := inputs.programs.correct_by_place.get((variant.id, problem.id))) is not None
        and math.isfinite((value := inputs.values.get(cell.id, NOTHING)).ratio)
    )
    ordered = sorted(ratios, key=lambda pair: pair[1].ratio, reverse=inputs.higher_is_better)
    regret = _regret(inputs, variant)
    return VariantRank(
        variant=variant,
        ratios=ratios,
        verdicts=tuple(_verdict(inputs, variant, problem) for problem, _ in ratios),
        verdict_by_problem=_verdict_by_problem(inputs, variant),
        complete=regret is not None and not regret.missing,
        geometric_mean=geometric_mean([value.ratio for _, value in ratios]),
        best=ordered[0] if ordered else None,
        worst=ordered[-1] if ordered else None,
        regret=regret,
        planned=inputs.programs.planned[variant.id].intersection(inputs.winners),
    )


def _regret(inputs: RankInputs, variant: Variant) -> Regret | None:
    if inputs.tunes and variant.id in inputs.programs.references:
        return None
    return regret_of(variant, inputs.slowdowns, list(inputs.deciding))


def _verdict(inputs: RankInputs, variant: Variant, problem: Problem) -> PairVerdict:
    cell = inputs.programs.correct_by_place[variant.id, problem.id]
    return inputs.against_baseline.get(cell.id, NO_VERDICT)


def _verdict_by_problem(inputs: RankInputs, variant: Variant) -> dict[str, PairVerdict]:
    """NO DATA where either failed or was not measured; nothing of a problem that nobody tried."""
    baseline = inputs.programs.baseline
    if baseline is None or variant.id == baseline.id:
        return {}
    verdicts = {}
    for problem in inputs.programs.problems:
        keys = ((variant.id, problem.id), (baseline.id, problem.id))
        if problem.id not in inputs.winners or not all(
            key in inputs.programs.by_place for key in keys
        ):
            continue
        cell = inputs.programs.correct_by_place.get(keys[0])
        verdict = inputs.against_baseline.get(cell.id) if cell else None
        verdicts[problem.id] = NO_DATA if verdict is None else verdict
    return verdicts


def best_rank(
    ranks: Sequence[VariantRank],
    contenders: Mapping[str, frozenset[str]],
    references: Collection[str],
    problems: int,
    *,
    tunes: bool,
) -> VariantRank | None:
    """The variant to recommend; the baseline only where it stands alone.

    The first in the order of all, unless another one is best, or not shown to be worse, at most of
    the `problems` with a winner: that may lack some, where the first has them all but wins few.
    """
    ranked = [row for row in ranks if row.regret is not None]
    others = [row for row in ranked if row.variant.id not in references] or ranked
    if not others:
        return None
    most = max(others, key=lambda row: len(contenders.get(row.variant.id, ())))
    held = len(contenders.get(most.variant.id, ()))
    wins_most = not tunes and 2 * held > problems
    return most if wins_most and not most.complete else others[0]


def leading_baseline(
    ranks: Sequence[VariantRank],
    best: VariantRank | None,
    baseline: Variant | None,
    *,
    higher_is_better: bool,
) -> VariantRank | None:
    """The baseline, where over all problems it beats every other variant; else None."""
    if best is None or baseline is None or best.variant.id == baseline.id:
        return None
    mean = best.geometric_mean
    leads = mean < 1 if higher_is_better else mean > 1
    return next((row for row in ranks if leads and row.variant.id == baseline.id), None)


def rival_groups(
    ranks: Sequence[VariantRank], references: Collection[str]
) -> tuple[tuple[VariantRank, ...], ...]:
    """Variants that are no references, best first, by the problems that they are planned for.

    Configurations of one type cannot run on the problems of another: they are no rivals.
    """
    groups: dict[frozenset[str], list[VariantRank]] = {}
    for row in ranks:
        if row.variant.id not in references:
            groups.setdefault(row.planned, []).append(row)
    return tuple(tuple(rows) for rows in groups.values())


# ---- roles in figures ----------------------------------------------------------------------------

_RUNNERS_UP, _MOST_RUNNERS_UP = 3, 4
"""The second is how many have a colour: one more where references need it."""


def figure_roles(  # noqa: PLR0913 - one by keyword
    ranks: Sequence[VariantRank],
    best: VariantRank | None,
    baseline: Variant | None,
    groups: Sequence[Sequence[VariantRank]],
    references: Collection[str],
    *,
    tunes: bool,
) -> dict[str, str]:
    """Role in figures by variant id; whoever is not named plays `other`."""
    roles = {best.variant.id: "best"} if best else {}
    if baseline:
        roles[baseline.id] = "baseline"
    runners = [row.variant for row in ranks if row.variant.id not in roles]
    count = _RUNNERS_UP
    if tunes:  # other references are of more interest than near equals of the best
        first = {*references, *(rows[0].variant.id for rows in groups)}
        runners.sort(key=lambda variant: variant.id not in first)
        named = sum(variant.id in first for variant in runners)
        count = min(max(named, _RUNNERS_UP), _MOST_RUNNERS_UP)
    for number, variant in enumerate(runners[:count], start=1):
        roles[variant.id] = f"series-{number}"
    return roles
