"""Every cell against each of the named baselines that the page can switch between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import NO_RULING, Ruling
from profiler.findings.values import NAN
from profiler.model import Cell

_Other = Callable[[Cell], Cell | None]


@dataclass(frozen=True)
class Comparison:
    """One baseline by its name, and what is said of every cell of the plan against it."""

    key: str
    label: str
    rulings: Mapping[str, Ruling]
    """By cell id; NaN where a cell may not be compared."""
    others: Mapping[str, str | None]
    """By cell id: the cell that it is compared with."""
    given: bool
    """Whether verdicts are given on the primary metric."""

    def without(self, cell: Cell) -> str:
        """Why a cell has no verdict."""
        if self.others[cell.id] == cell.id:
            return "compared with itself"
        if self.others[cell.id] is None:
            return "nothing to compare with"
        return "not compared" if self.given else "no verdict is given on this metric"


def comparisons(ranking: Ranking) -> tuple[Comparison, ...]:
    """Compare with the reference of the spec, the best, the first and the previous variant."""
    lookup = ranking.lookup
    first = lookup.variants[0].name if lookup.variants else ""
    named: list[tuple[str, str, _Other]] = [
        ("best", "best of each problem", lambda cell: _best(lookup, cell)),
        ("first", f"first: {first}", lambda cell: _at(lookup, cell, 0)),
        ("previous", "previous variant of the plan", lambda cell: _previous(lookup, cell)),
    ]
    baseline = lookup.baseline
    if baseline is not None:
        index = lookup.marks[baseline.id]
        label = f"reference: {baseline.name}"
        named.insert(0, ("reference", label, lambda cell: _at(lookup, cell, index)))
    return tuple(_comparison(lookup, *one) for one in named)


def _comparison(lookup: Lookup, key: str, label: str, other_of: _Other) -> Comparison:
    cells = lookup.report.plan.cells
    others = {cell.id: _correct(lookup, cell, other_of(cell)) for cell in cells}
    pairs = [(cell, other.id) for cell, other in others.items() if other and other.id != cell]
    said = lookup.said(pairs)
    rulings = {
        cell.id: _with_ratio(lookup, cell, other, said.get((cell.id, other.id), NO_RULING))
        if (other := others[cell.id])
        else NO_RULING
        for cell in cells
    }
    ids = {cell: other.id if other else None for cell, other in others.items()}
    return Comparison(key, label, rulings, ids, lookup.rulings.given)


def _correct(lookup: Lookup, cell: Cell, other: Cell | None) -> Cell | None:
    """The other cell, where both have a correct result."""
    return other if lookup.correct(cell) and lookup.correct(other) else None


def _with_ratio(lookup: Lookup, cell: Cell, other: Cell, ruling: Ruling) -> Ruling:
    """A ruling; without blocks that both have, the ratio of the medians."""
    if not math.isnan(ruling.ratio):
        return ruling
    primary = lookup.report.primary
    value = lookup.value(cell, primary)
    if other.variant == lookup.baseline:
        return replace(ruling, ratio=value.ratio, low=value.ratio_low, high=value.ratio_high)
    below = lookup.value(other, primary).median
    known = math.isfinite(below) and below
    return replace(ruling, ratio=value.median / below if known else NAN)


def _best(lookup: Lookup, cell: Cell) -> Cell | None:
    best = lookup.best_by_problem.get(cell.problem.id)
    return best[0] if best else None


def _at(lookup: Lookup, cell: Cell, index: int) -> Cell | None:
    return lookup.cells.get((lookup.variants[index].id, cell.problem.id))


def _previous(lookup: Lookup, cell: Cell) -> Cell | None:
    """Go back to the last earlier variant that has a correct result at this problem."""
    for index in range(lookup.marks[cell.variant.id] - 1, -1, -1):
        earlier = _at(lookup, cell, index)
        if lookup.correct(earlier):
            return earlier
    return None
