"""Winners and ranks in words: ties, what the first of a run may be called, slowdowns."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.findings import Findings
from profiler.findings.ranking import VariantRank
from profiler.findings.winners import Winner, standing_of
from profiler.model import Cell
from profiler.render.words import numbers

_NAMED = 2
"""Variants that a sentence names; more are counted."""
_AS_FACTOR = 2.0
"""Slowdowns from here on are said as factors, below as percent."""
_SMALL = 0.0005
"""Shares below this are 0.0 percent with one decimal."""


def ties_words(winner: Winner) -> str:
    """Variants the same as a winner, or not told apart from it, as a clause; empty without any."""
    if not winner.judged:
        return ""
    parts = []
    if winner.same:
        parts.append(f"the same as {_names(winner.same)}")
    if winner.not_told_apart:
        parts.append(f"not told apart from {_names(winner.not_told_apart)}")
    return " and ".join(parts)


def _names(cells: Sequence[Cell]) -> str:
    names = [cell.variant.name for cell in cells]
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} others"


def best_word(findings: Findings) -> str:
    """Label of the variant to recommend: the best only where verdicts show it.

    Where the baseline has the better mean, it is only the first of the rest.
    """
    if findings.baseline_rank:
        return "first of the rest"
    row = findings.best_rank
    if row is None or not row.planned:
        return "leader"
    winners = [findings.deciding_winners.get(problem) for problem in row.planned]
    sole = (winner and winner.best and winner.cell.variant == row.variant for winner in winners)
    return "best" if all(sole) else "leader"


def planned_winners(findings: Findings, row: VariantRank) -> list[Winner]:
    """Winners of the problems that a variant is planned for."""
    winners = findings.deciding_winners
    return [winners[problem] for problem in row.planned if problem in winners]


def contender_words(findings: Findings, row: VariantRank) -> str:
    """Clause on the number of problems at which a variant wins or is not shown to be worse."""
    total = len(row.planned)
    winners = planned_winners(findings, row)
    problems = f"{total} problem{'s' if total > 1 else ''}"
    if not all(winner.judged for winner in winners):
        first = len(findings.contenders.get(row.variant.id, ()))
        return f"first, or with an interval that overlaps the first one's, at {first} of {problems}"
    standing = standing_of(row.variant, winners)
    parts = [f"has the lowest number at {standing.wins} of {problems}"]
    if standing.same:
        parts.append(f"the same as the winner at {standing.same}")
    if standing.not_told_apart:
        parts.append(f"not told apart from it at {standing.not_told_apart}")
    return ", ".join(parts)


def slowdown_words(slowdown: float) -> str:
    """A slowdown in percent, from twice on as a factor; of 1 `no slower`."""
    if numbers.is_missing(slowdown):
        return numbers.MISSING
    if slowdown >= _AS_FACTOR:
        return f"{slowdown:.2f}{numbers.TIMES} slower"
    percent = 100 * (slowdown - 1)
    return f"{percent:.1f}\u202f% slower" if percent >= 100 * _SMALL else "no slower"


def worst_slowdown_words(slowdown: float) -> str:
    """How far from the best a variant is at the worst of the problems that it is used for."""
    small = slowdown - 1 < _SMALL
    return "less than 0.1\u202f% slower" if small else f"at most {slowdown_words(slowdown)}"
