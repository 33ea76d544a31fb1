"""Ranking of variants over all problems, the variant to recommend, roles in figures."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.findings.cell_numbers import NOTHING, Value
from profiler.findings.programs import Programs
from profiler.findings.verdicts import NO_DATA, NO_VERDICT, PairVerdict, verdict_counts
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant

ProblemValue = tuple[Problem, Value]


@dataclass(frozen=True)
class VariantRank:
    """Ratios of one variant to the baseline, and its slowdowns as the single choice."""

    variant: Variant
    ratios: tuple[ProblemValue, ...]
    """Problems with a ratio to the baseline, in the order of the plan."""
    verdicts: tuple[PairVerdict, ...]
    """Against the baseline, at the problems of `ratios`."""
    verdict_by_problem: Mapping[str, PairVerdict]
    """Against the baseline, by the id of every problem that both are planned for; NO DATA where one
    failed."""
    geometric_mean: float
    """Geometric mean of `ratios`."""
    best: ProblemValue | None
    worst: ProblemValue | None
    slowdowns: Mapping[str, float]
    """Used for all problems: factor by which it is worse than the winner, of the metric that
    decides, at least 1; by id of each problem that it is ranked at."""
    missing: tuple[str, ...]
    """Ids of problems with a winner where it has no correct result; () if nowhere.

    Without problems at which a run ended before most of its variants had been tried."""
    planned: frozenset[str]
    """Ids of the problems that it is planned for, of those that have a winner."""

    @property
    def planned_verdicts(self) -> tuple[PairVerdict, ...]:
        """The verdicts of `verdict_by_problem`."""
        return tuple(self.verdict_by_problem.values())

    @property
    def complete(self) -> bool:
        """Whether the variant is ranked at every problem that any variant is ranked at."""
        return bool(self.slowdowns) and not self.missing

    @property
    def covers(self) -> bool:
        """Whether the variant is ranked at every problem that it is planned for."""
        return bool(self.slowdowns) and self.planned.isdisjoint(self.missing)

    @property
    def mean_slowdown(self) -> float:
        """Mean of `slowdowns`; NaN where it is ranked nowhere."""
        return sum(self.slowdowns.values()) / (len(self.slowdowns) or math.nan)

    @property
    def worst_slowdown(self) -> float:
        """The largest of `slowdowns`; NaN where it is ranked nowhere."""
        return max(self.slowdowns.values(), default=math.nan)

    @property
    def worst_problem(self) -> str:
        """Id of the problem of `worst_slowdown`; empty where it is ranked nowhere."""
        return max(self.slowdowns, key=self.slowdowns.__getitem__, default="")


@dataclass(frozen=True)
class ReferenceLead:
    """Ratio of the best reference to the best of the others, over their problems."""

    variant: Variant
    ratio: float
    """Geometric mean of its time by that of the best other at each problem; below 1 it is ahead."""
    problems: int
    verdicts: Mapping[str, int]
    """How often each verdict was given on it against the best other."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Winners of the problems, and ranks of the variants over all of them."""

    programs: Programs
    tunes: bool
    """Whether the question is which configuration to use, rather than which version is best."""
    values: Mapping[str, Value]
    """Durations by cell id."""
    against_baseline: Mapping[str, PairVerdict]
    """By id of each correct cell: against the baseline of its problem."""
    winners: Mapping[str, Winner]
    """By problem id, among all variants; none where nothing is correct."""
    rival_winners: Mapping[str, Winner]
    """By problem id, among the variants that are no references."""
    slowdowns: Mapping[str, float]
    """By cell id: how many times worse than the deciding winner."""

    @property
    def deciding_winners(self) -> Mapping[str, Winner]:
        """The winners that stand for the best: without references where the run tunes."""
        return self.rival_winners if self.tunes else self.winners

    @cached_property
    def ranks(self) -> tuple[VariantRank, ...]:
        """Every variant, best first: complete ones before those that lack a problem.

        Best is who has the smallest geometric mean of ratios to the baseline; where the run tunes,
        who has the smallest worst slowdown as the only one, references excluded.
        """
        ranks = [self._rank(variant) for variant in self.programs.variants]
        by_regret = self.tunes or all(math.isnan(rank.geometric_mean) for rank in ranks)

        def order(rank: VariantRank) -> tuple[bool, bool, float, float]:
            if by_regret:
                worst = rank.worst_slowdown if rank.slowdowns else math.inf
                return not rank.complete, not rank.slowdowns, float(len(rank.missing)), worst
            unknown = math.isnan(rank.geometric_mean)
            return not rank.complete, unknown, 0.0, 0.0 if unknown else rank.geometric_mean

        return tuple(sorted(ranks, key=order))

    def _rank(self, variant: Variant) -> VariantRank:
        cells = [
            (problem, cell)
            for problem in self.programs.problems
            if (cell := self.programs.correct_at(variant, problem)) is not None
            and math.isfinite(self.values.get(cell.id, NOTHING).ratio)
        ]
        ratios = tuple((problem, self.values[cell.id]) for problem, cell in cells)
        ordered = sorted(ratios, key=lambda pair: pair[1].ratio)
        is_reference = self.tunes and variant.id in self.programs.references
        winners = () if is_reference else self._ranked_problems
        slowdowns = {
            problem: max(1.0, slowdown)
            for problem in winners
            if (cell := self.programs.correct_by_place.get((variant.id, problem)))
            and math.isfinite(slowdown := self.slowdowns.get(cell.id, math.nan))
        }
        missing = (problem for problem in winners if slowdowns and problem not in slowdowns)
        return VariantRank(
            variant=variant,
            ratios=ratios,
            verdicts=tuple(self.against_baseline.get(cell.id, NO_VERDICT) for _, cell in cells),
            verdict_by_problem=self._verdict_by_problem(variant),
            geometric_mean=geometric_mean([value.ratio for _, value in ratios]),
            best=ordered[0] if ordered else None,
            worst=ordered[-1] if ordered else None,
            slowdowns=slowdowns,
            missing=tuple(missing),
            planned=self.programs.planned[variant.id].intersection(self.winners),
        )

    @cached_property
    def _ranked_problems(self) -> tuple[str, ...]:
        """Ids of the problems that a variant needs to be complete.

        Where a run ended when few of its variants had been tried at a problem, these few would be
        the only complete ones.
        """
        programs = self.programs
        tried = [place for place, cell in programs.by_place.items() if programs.tried(cell)]
        variants = {variant for variant, _ in tried}
        planned = Counter(problem for variant, problem in programs.by_place if variant in variants)
        tried_at = Counter(problem for _, problem in tried)
        with_winner = tuple(self.deciding_winners)
        most_tried = tuple(p for p in with_winner if 2 * tried_at[p] > planned[p])
        return most_tried or with_winner

    def _verdict_by_problem(self, variant: Variant) -> dict[str, PairVerdict]:
        """NO DATA where either failed or was not measured; nothing of a problem nobody tried."""
        programs, baseline = self.programs, self.programs.baseline
        if baseline is None or variant.id == baseline.id:
            return {}
        verdicts = {}
        for problem in programs.problems:
            both_planned = programs.at(variant, problem) and programs.at(baseline, problem)
            if problem.id in self.winners and both_planned:
                cell = programs.correct_at(variant, problem)
                verdicts[problem.id] = self.against_baseline.get(cell.id if cell else "", NO_DATA)
        return verdicts

    @cached_property
    def contenders(self) -> Mapping[str, frozenset[str]]:
        """Ids of problems that a variant wins or is not shown to lose, by variant id."""
        problems: dict[str, set[str]] = {}
        for problem, winner in self.deciding_winners.items():
            for variant in winner.contenders:
                problems.setdefault(variant, set()).add(problem)
        return {variant: frozenset(ids) for variant, ids in problems.items()}

    @cached_property
    def best_rank(self) -> VariantRank | None:
        """The variant to recommend; the baseline only where it stands alone.

        The first of all ranks, unless another variant is best, or not shown to be worse, at most
        problems: that may lack some, where the first has them all but wins few.
        """
        ranked = [rank for rank in self.ranks if rank.slowdowns]
        references = self.programs.references
        rival_ranks = [rank for rank in ranked if rank.variant.id not in references] or ranked
        if not rival_ranks:
            return None
        most_contending = max(
            rival_ranks, key=lambda rank: len(self.contenders.get(rank.variant.id, ()))
        )
        held = len(self.contenders.get(most_contending.variant.id, ()))
        wins_most = not self.tunes and 2 * held > len(self.deciding_winners)
        return most_contending if wins_most and not most_contending.complete else rival_ranks[0]

    @cached_property
    def baseline_rank(self) -> VariantRank | None:
        """The baseline, where over all problems it beats every other variant; else None."""
        best, baseline = self.best_rank, self.programs.baseline
        if best is None or baseline is None or best.variant.id == baseline.id:
            return None
        leads = best.geometric_mean > 1
        return next((rank for rank in self.ranks if leads and rank.variant == baseline), None)

    @property
    def leader(self) -> VariantRank | None:
        """The baseline where it beats the rest, else the variant to recommend.

        Where the run tunes always the latter: it asks which configuration to use.
        """
        return (None if self.tunes else self.baseline_rank) or self.best_rank

    @property
    def best(self) -> Variant | None:
        """The variant to recommend for all problems."""
        return self.best_rank.variant if self.best_rank else None

    @property
    def best_winners(self) -> list[Winner]:
        """Winners of the problems that the variant to recommend is planned for."""
        best = self.best_rank
        winners = self.deciding_winners.items()
        return [winner for problem, winner in winners if best and problem in best.planned]

    @property
    def wins(self) -> int:
        """Number of these problems at which the variant to recommend wins."""
        return sum(winner.cell.variant == self.best for winner in self.best_winners)

    @property
    def called(self) -> str:
        """`best`: shown better than every other at each of its problems; `leader`: else.

        `first_of_rest`: where the baseline beats it.
        """
        if self.baseline_rank:
            return "first_of_rest"
        planned = self.best_rank.planned if self.best_rank else frozenset()
        alone = sum(w.best and w.cell.variant == self.best for w in self.best_winners)
        return "best" if 0 < alone == len(planned) else "leader"

    @cached_property
    def best_reference(self) -> ReferenceLead | None:
        """The reference with the lowest geometric mean of times by those of the best others.

        None without any, or without a problem that both have.
        """
        leads = [
            lead
            for variant in self.programs.variants
            if variant.id in self.programs.references and (lead := self._lead(variant)) is not None
        ]
        return min(leads, key=lambda lead: lead.ratio, default=None)

    def _lead(self, reference: Variant) -> ReferenceLead | None:
        against = [
            winner.excluded[cell.id]
            for problem, winner in self.rival_winners.items()
            if (cell := self.programs.by_place.get((reference.id, problem)))
            and cell.id in winner.excluded
        ]
        ratios = [verdict.ratio for verdict in against if verdict.ratio > 0]
        if not ratios:
            return None
        return ReferenceLead(
            reference, geometric_mean(ratios), len(ratios), verdict_counts(against)
        )

    @cached_property
    def rival_groups(self) -> tuple[tuple[VariantRank, ...], ...]:
        """Variants that are no references, best first, by the problems that they are planned for.

        Configurations of one type cannot run on the problems of another: they are no rivals.
        """
        groups: dict[frozenset[str], list[VariantRank]] = {}
        for rank in self.ranks:
            if rank.variant.id not in self.programs.references:
                groups.setdefault(rank.planned, []).append(rank)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Role in figures (`best`, `baseline`, `series-1`) of variants that stand out, by id."""
        return figure_roles(self)

    def role(self, variant: Variant) -> str:
        """Role of a variant in figures; whoever is not named plays `other`."""
        return self.roles.get(variant.id, "other")

    def largest_of(self, *variants: Variant) -> Problem | None:
        """The problem whose best cell takes longest, of those at which all these are correct."""
        correct = self.programs.correct_by_place
        shared = [
            problem
            for problem in self.programs.problems
            if problem.id in self.winners
            and all((variant.id, problem.id) in correct for variant in variants)
        ]
        return max(shared, key=lambda problem: self.winners[problem.id].value.median, default=None)

    @cached_property
    def largest_problem(self) -> Problem | None:
        """The problem whose best cell takes longest: single-problem figures show it."""
        return self.largest_of()


def geometric_mean(ratios: Sequence[float]) -> float:
    """Geometric mean of positive ratios; NaN without any."""
    positive = [ratio for ratio in ratios if ratio > 0]
    return statistics.geometric_mean(positive) if positive else math.nan


# ---- roles in figures ----------------------------------------------------------------------------

_RUNNERS_UP, _MOST_RUNNERS_UP = 3, 4
"""The second is how many have a colour: one more where references need it."""


def figure_roles(ranking: Ranking) -> dict[str, str]:
    """Role in figures by variant id; whoever is not named plays `other`."""
    roles = {ranking.best_rank.variant.id: "best"} if ranking.best_rank else {}
    if ranking.programs.baseline:
        roles[ranking.programs.baseline.id] = "baseline"
    runners = [rank.variant for rank in ranking.ranks if rank.variant.id not in roles]
    count = _RUNNERS_UP
    if ranking.tunes:  # other references are of more interest than near equals of the best
        leaders = (ranks[0].variant.id for ranks in ranking.rival_groups)
        first = {*ranking.programs.references, *leaders}
        runners.sort(key=lambda variant: variant.id not in first)
        coloured_first = sum(variant.id in first for variant in runners)
        count = min(max(coloured_first, _RUNNERS_UP), _MOST_RUNNERS_UP)
    for number, variant in enumerate(runners[:count], start=1):
        roles[variant.id] = f"series-{number}"
    return roles
