"""The winner of each problem, and how every other cell compares with it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.cell_numbers import FINAL, Value
from profiler.findings.verdicts import PairVerdict, PairVerdicts, verdict_on
from profiler.model import Cell, Variant, Verdict

Measured = Sequence[tuple[Cell, Value]]
"""Correct cells of one problem with their durations."""

_MOST_OF_THEM = 0.5
"""A cell with at most this share of the blocks of another left the race: it was shown to be slower,
whatever its median in the fewer blocks is."""


@dataclass(frozen=True)
class Winner:
    """The best number of a problem, and the verdicts on the others against it."""

    cell: Cell
    value: Value
    rival_verdicts: Mapping[str, PairVerdict]
    """By cell id: each other rival against the winner."""
    excluded: Mapping[str, PairVerdict]
    """By cell id: references, which never win here, against the winner."""
    same_cells: tuple[Cell, ...]
    """Rivals shown to differ from the winner by less than the margin, best first."""
    not_told_apart: tuple[Cell, ...]
    """Rivals that were not shown to be worse than the winner, nor to be the same, best first."""
    selection_bias: float = math.nan
    """How much too low its number reads, relative, were it and these rivals equal: the lowest of
    several is so by chance, and the blocks that chose it give its number. NaN without rivals."""

    @property
    def final(self) -> bool:
        """Whether the winner's number is of the final."""
        return self.value.source == FINAL

    @property
    def judged(self) -> bool:
        """Whether a test could decide on any of the others: with few blocks it could not."""
        return not self.rival_verdicts or any(
            verdict.tested for verdict in self.rival_verdicts.values()
        )

    @property
    def by_intervals(self) -> bool:
        """Whether intervals tell which others are worse, in place of verdicts."""
        return not (self.judged or math.isnan(self.value.low))

    @property
    def best(self) -> bool:
        """Whether the winner is shown to be better than every other: only then it is the best."""
        verdicts = [verdict.verdict for verdict in self.rival_verdicts.values()]
        return bool(verdicts) and all(verdict is Verdict.SLOWER for verdict in verdicts)

    @property
    def all_verdicts(self) -> Mapping[str, PairVerdict]:
        """Every other cell of the problem against the winner, references too."""
        return {**self.rival_verdicts, **self.excluded}

    @property
    def candidates(self) -> tuple[Cell, ...]:
        """The winner and the rivals that were not shown to be worse."""
        return (self.cell, *self.same_cells, *self.not_told_apart)

    @property
    def contenders(self) -> frozenset[str]:
        """Ids of the variants of `candidates`."""
        return frozenset(cell.variant.id for cell in self.candidates)


def leader_of(cells: Measured, baseline: Variant | None = None) -> Cell:
    """The cell with the lowest number of the final; without one, of those that stayed to the end.

    A final in which nothing but the baseline was right decides nothing. `cells` is not empty.
    """
    final = [(cell, value) for cell, value in cells if value.source == FINAL]
    if all(cell.variant == baseline for cell, _ in final):
        final = []
    most = max(value.n for _, value in cells)
    in_race = final or [(cell, value) for cell, value in cells if value.n > _MOST_OF_THEM * most]
    return min(in_race, key=lambda pair: pair[1].median)[0]


def make_winner(
    leader: Cell,
    cells: Sequence[Cell],
    values: Mapping[str, Value],
    verdicts: PairVerdicts,
    excluded: Collection[str],
) -> Winner:
    """The winner of a problem with the verdicts against it.

    `cells` stand best first, `values` are by their ids; variants (ids) in `excluded` are compared
    with it, and no rivals.
    """
    other_cells = [cell for cell in cells if cell != leader]
    rivals = [cell for cell in other_cells if cell.variant.id not in excluded]
    against = {cell.id: verdict_on(verdicts, cell.id, leader.id) for cell in other_cells}
    same_cells, not_told_apart = [], []
    for cell in rivals:
        verdict = against[cell.id]
        if verdict.tested and verdict.verdict is Verdict.SAME:
            same_cells.append(cell)
        elif _not_shown_worse(verdict, values[cell.id], values[leader.id]):
            not_told_apart.append(cell)
    return Winner(
        cell=leader,
        value=values[leader.id],
        rival_verdicts={cell.id: against[cell.id] for cell in rivals},
        excluded={cell.id: against[cell.id] for cell in other_cells if cell not in rivals},
        same_cells=tuple(same_cells),
        not_told_apart=tuple(not_told_apart),
    )


def _not_shown_worse(verdict: PairVerdict, value: Value, best: Value) -> bool:
    """Whether the test does not show it worse; without a test, whether the intervals overlap.

    Those of the ratios, which are paired, else of the medians. Without intervals one or two blocks
    show no duration to be worse; without blocks in common only equal medians are as good.
    """
    if verdict.tested:
        return verdict.verdict is not Verdict.SLOWER
    for low, high in (("ratio_low", "ratio_high"), ("low", "high")):
        ends = [getattr(cell_value, end) for cell_value in (value, best) for end in (low, high)]
        if not any(map(math.isnan, ends)):
            return bool(ends[0] <= ends[3] and ends[2] <= ends[1])
    return verdict.verdict is Verdict.UNCLEAR or value.median == best.median


def standing_of(variant: Variant, winners: Sequence[Winner]) -> tuple[int, int, int]:
    """Number of these problems at which a variant wins, is the same, or is not told apart.

    It is the same where it differs from the winner by less than the margin.
    """
    return (
        sum(winner.cell.variant == variant for winner in winners),
        sum(_has_variant(winner.same_cells, variant) for winner in winners),
        sum(_has_variant(winner.not_told_apart, variant) for winner in winners),
    )


def _has_variant(cells: Sequence[Cell], variant: Variant) -> bool:
    return any(cell.variant == variant for cell in cells)


# ---- slowdowns -----------------------------------------------------------------------------------


def slowdown(value: Value, blocks: Value, best: Value, best_blocks: Value) -> float:
    """Ratio by which a number is worse than the winner's; below 1 it is better.

    Two numbers of one kind are compared: both of the final, or both of the blocks before it, since
    the GPU's clock may have been another. `blocks` and `best_blocks` are of the latter.
    """
    above, below = (value, best) if value.source == best.source else (blocks, best_blocks)
    if not (above.median > 0 and below.median > 0):
        return math.nan
    return above.median / below.median


def ranks_by_slowdown(slowdowns: Mapping[str, float]) -> dict[str, float]:
    """Rank by cell id, 1 is best; equal slowdowns share the better rank, missing ones have none."""
    ranked = [value for value in slowdowns.values() if not math.isnan(value)]
    return {
        cell: 1.0 + sum(slowdown_of_other < value for slowdown_of_other in ranked)
        for cell, value in slowdowns.items()
        if not math.isnan(value)
    }
