"""Who wins a problem: by the finals where there are any, and who is not told apart from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.findings.ranking import Decided
from profiler.findings.rulings import NO_RULING, Ruling, Rulings
from profiler.findings.values import Value
from profiler.model import Cell, Verdict

Ranked = Sequence[tuple[Cell, Value]]

_MOST_OF_THEM = 0.5
"""A cell with at most this share of the blocks of another left the race: it was shown to be slower,
whatever its median in the fewer blocks is."""
_NAMED = 2
"""Ties that a sentence names; more are counted."""


@dataclass(frozen=True)
class Winner:
    """The lowest median of a problem, and what is said of the others against it."""

    cell: Cell
    value: Value
    """Of the finals where it was in them."""
    final: bool
    others: Mapping[str, Ruling]
    """By cell id: each other rival against the winner."""
    apart: Mapping[str, Ruling]
    """By cell id: references, which never win, against the winner."""
    tied: tuple[Cell, ...]
    """Others that a test did not show to be worse, best first."""

    @property
    def judged(self) -> bool:
        """Whether verdicts are given at all: not on other metrics, nor with few blocks."""
        return not self.others or any(one.tested for one in self.others.values())

    @property
    def best(self) -> bool:
        """Whether it is shown to be better than every other: only then it is called the best."""
        shown = all(one.verdict is Verdict.SLOWER for one in self.others.values())
        return bool(self.others) and shown

    @property
    def all_others(self) -> Mapping[str, Ruling]:
        """Every other cell of the problem against the winner, references too."""
        return {**self.others, **self.apart}

    def ties(self) -> str:
        """Name the ties, or count them where they are many; empty where there are none."""
        names = [cell.variant.name for cell in self.tied]
        return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} others"


def find_winners(
    by_problem: Mapping[str, Ranked], rulings: Rulings, apart: Collection[str] = ()
) -> Mapping[str, Winner]:
    """The winner of each problem (id) that has a cell; all of them are judged at once.

    Variants (ids) that stand `apart` never win; they are judged against the winner, too.
    """
    rivals = {
        problem: [pair for pair in cells if pair[0].variant.id not in apart]
        for problem, cells in by_problem.items()
    }
    leaders = {problem: _leader(cells, rulings) for problem, cells in rivals.items() if cells}
    pairs = [
        (cell.id, leader.id)
        for problem, (leader, _, _) in leaders.items()
        for cell, _ in by_problem[problem]
        if cell != leader
    ]
    found = rulings.of(pairs)
    winners = {}
    for problem, (leader, value, final) in leaders.items():
        cells = [cell for cell, _ in by_problem[problem] if cell != leader]
        told = {cell.id: found.get((cell.id, leader.id), NO_RULING) for cell in cells}
        own = [cell for cell in cells if cell.variant.id not in apart]
        winners[problem] = Winner(
            leader,
            value,
            final,
            others={cell.id: told[cell.id] for cell in own},
            apart={cell.id: told[cell.id] for cell in cells if cell not in own},
            tied=tuple(cell for cell in own if _tied(told[cell.id])),
        )
    return winners


def _tied(ruling: Ruling) -> bool:
    return ruling.tested and ruling.verdict is not Verdict.SLOWER


def _leader(cells: Ranked, rulings: Rulings) -> tuple[Cell, Value, bool]:
    """The lowest median of the finals; without finals, of the cells that stayed to the end."""
    finals = [
        (replace(value, n=own.n, median=own.median, low=own.low, high=own.high), cell)
        for cell, value in cells
        if (own := rulings.final_value(cell.id)) is not None
    ]
    if finals:
        value, cell = min(finals, key=lambda pair: pair[0].median)
        return cell, value, True
    most = max(value.n for _, value in cells)
    stayed = [pair for pair in cells if pair[1].n > _MOST_OF_THEM * most]
    cell, value = stayed[0]
    return cell, value, False


def decided(winners: Mapping[str, Winner]) -> Decided:
    """Winners and verdicts as `profiler.findings.ranking` takes them."""
    return Decided(
        best={problem: one.cell.id for problem, one in winners.items()},
        verdicts={
            cell: ruling.verdict
            for one in winners.values()
            for cell, ruling in one.all_others.items()
            if ruling.tested and ruling.verdict is not None
        },
    )
