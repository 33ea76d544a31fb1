"""The four answers as data: which is best, by how much, is it real, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.findings import Ranking
from profiler.findings.ranking import VariantRank, geometric_mean
from profiler.findings.verdicts import verdict_counts
from profiler.findings.winners import Winner
from profiler.model import Cell, Variant


@dataclass(frozen=True)
class ReferenceLead:
    """Ratio of the best reference to the best of the others, over their problems."""

    variant: Variant
    ratio: float
    """Geometric mean of its time by that of the best other at each problem; below 1 it is ahead."""
    problems: int
    verdicts: Mapping[str, int]
    """How often each verdict was given on it against the best other."""


@dataclass(frozen=True)
class Answer:
    """The four answers of a run, over all problems."""

    rank: VariantRank | None
    """Rank of the variant to recommend."""
    called: str
    """`best`: shown better than every other at each of its problems; `leader`: else;
    `first_of_rest`: where the baseline beats it."""
    wins: int
    same: int
    not_told_apart: int
    """At how many of its problems it wins, is the same as the winner, or not told apart from it."""
    reference: ReferenceLead | None
    """The best of the references; None without any, or without a problem that both have."""


def answer_of(ranking: Ranking) -> Answer:
    """The answer of a run; without a correct result, one without a rank."""
    rank = ranking.best_rank
    variant = rank.variant.id if rank else ""
    winners = [
        winner
        for problem, winner in ranking.deciding_winners.items()
        if rank and problem in rank.planned
    ]
    return Answer(
        rank=rank,
        called=_called(ranking, rank, winners),
        wins=sum(winner.cell.variant.id == variant for winner in winners),
        same=sum(_among(variant, winner.same) for winner in winners),
        not_told_apart=sum(
            winner.judged and _among(variant, winner.not_told_apart) for winner in winners
        ),
        reference=_best_reference(ranking),
    )


def _among(variant: str, cells: Sequence[Cell]) -> bool:
    return any(cell.variant.id == variant for cell in cells)


def _called(ranking: Ranking, rank: VariantRank | None, winners: Sequence[Winner]) -> str:
    if ranking.baseline_rank:
        return "first_of_rest"
    alone = [
        winner.best and rank is not None and winner.cell.variant == rank.variant
        for winner in winners
    ]
    return "best" if alone and all(alone) else "leader"


def _best_reference(ranking: Ranking) -> ReferenceLead | None:
    """The reference with the lowest geometric mean of times by those of the best others."""
    leads = [
        lead
        for variant in ranking.programs.variants
        if variant.id in ranking.programs.references
        and (lead := _lead(ranking, variant)) is not None
    ]
    return min(leads, key=lambda lead: lead.ratio, default=None)


def _lead(ranking: Ranking, reference: Variant) -> ReferenceLead | None:
    against = [
        winner.excluded[cell.id]
        for problem, winner in ranking.rival_winners.items()
        if (cell := ranking.programs.by_place.get((reference.id, problem)))
        and cell.id in winner.excluded
    ]
    compared = [verdict for verdict in against if verdict.ratio > 0]
    if not compared:
        return None
    return ReferenceLead(
        variant=reference,
        ratio=geometric_mean([verdict.ratio for verdict in compared]),
        problems=len(compared),
        verdicts=verdict_counts(against),
    )


def span(values: Sequence[float]) -> tuple[float, float] | None:
    """Smallest and largest of the finite values; None without any."""
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else None
