"""Winners and ranks in words: ties, what the first of a run may be called, slowdowns."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.findings import CellNumbers, Ranking
from profiler.findings.ranking import VariantRank
from profiler.findings.winners import Winner, standing_of
from profiler.model import Cell
from profiler.render.words import numbers
from profiler.render.words.steps import noun
from profiler.render.words.verdicts import percent

_NAMED = 2
"""Variants that a sentence names; more are counted."""
_LEAST_BIAS = 0.00005
"""Less is 0.00 %."""


def ties_words(winner: Winner) -> str:
    """Variants the same as a winner, or not told apart from it, as a clause; empty without any."""
    if not winner.judged:
        return ""
    parts = []
    if winner.same:
        parts.append(f"the same as {_names(winner.same)}")
    if winner.not_told_apart:
        parts.append(f"not told apart from {_names(winner.not_told_apart)}")
    bias = bias_words(winner.selection_bias)
    return " and ".join(parts) + (f" (the lowest of equal ones reads {bias})" if bias else "")


def bias_words(bias: float) -> str:
    """`0.12 % too low`: what choosing the lowest does to its number; empty where that is 0."""
    return f"{percent(bias)} too low" if bias >= _LEAST_BIAS else ""


def _names(cells: Sequence[Cell]) -> str:
    names = [cell.variant.label for cell in cells]
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} others"


def best_word(ranking: Ranking) -> str:
    """Label of the variant to recommend: the best only where verdicts show it.

    Where the baseline has the better mean, it is only the first of the rest.
    """
    if ranking.baseline_rank:
        return "first of the rest"
    row = ranking.best_rank
    if row is None or not row.planned:
        return "leader"
    winners = [ranking.deciding_winners.get(problem) for problem in row.planned]
    sole = (winner and winner.best and winner.cell.variant == row.variant for winner in winners)
    return "best" if all(sole) else "leader"


def planned_winners(ranking: Ranking, row: VariantRank) -> list[Winner]:
    """Winners of the problems that a variant is planned for."""
    winners = ranking.deciding_winners
    return [winners[problem] for problem in row.planned if problem in winners]


def contender_words(ranking: Ranking, row: VariantRank) -> str:
    """Clause on the number of problems at which a variant wins or is not shown to be worse."""
    total = len(row.planned)
    winners = planned_winners(ranking, row)
    problems = f"{total} problem{'s' if total > 1 else ''}"
    if not all(winner.judged for winner in winners):
        first = len(ranking.contenders.get(row.variant.id, ()))
        return f"first, or with an interval that overlaps the first one's, at {first} of {problems}"
    standing = standing_of(row.variant, winners)
    parts = [f"has the lowest number at {standing.wins} of {problems}"]
    if standing.same:
        parts.append(f"the same as the winner at {standing.same}")
    if standing.not_told_apart:
        parts.append(f"not told apart from it at {standing.not_told_apart}")
    return ", ".join(parts)


def of_the_best(cell_numbers: CellNumbers, slowdown: float) -> str:
    """A number against that of the best, as a ratio: `1.028x the time of the best`."""
    higher = cell_numbers.primary.better == "higher"
    ratio = numbers.ratio(1 / slowdown if higher else slowdown)
    return f"{ratio} the {noun(cell_numbers)} of the best"


def worst_of_the_best(numbers: CellNumbers, slowdown: float) -> str:
    """How far from the best a variant is at the worst of the problems that it is used for."""
    bound = "at least" if numbers.primary.better == "higher" else "at most"
    return f"{bound} {of_the_best(numbers, slowdown)}"
