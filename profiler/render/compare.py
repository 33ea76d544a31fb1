"""Ratios of the primary metric to each of the named baselines that the page can switch between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from profiler.model import Cell
from profiler.render.lookup import NAN, Lookup
from profiler.render.roles import Ranking

_Other = Callable[[Cell], Cell | None]


@dataclass(frozen=True)
class Ratio:
    """Ratio of a cell to a baseline; NaN where it may not be compared or has no interval."""

    ratio: float = NAN
    low: float = NAN
    high: float = NAN


@dataclass(frozen=True)
class Comparison:
    """One baseline by its name, and the ratio of every cell of the plan to it."""

    key: str
    label: str
    ratios: Mapping[str, Ratio]
    """By cell id."""


def comparisons(ranking: Ranking) -> tuple[Comparison, ...]:
    """Compare with the reference of the spec, the best, the first and the previous variant.

    Only the reference has paired ratios with intervals; the others are ratios of medians.
    """
    lookup = ranking.lookup
    found = []
    if lookup.baseline is not None:
        found.append(
            Comparison(
                "reference",
                f"reference: {lookup.baseline.name}",
                {cell.id: _reference_ratio(lookup, cell) for cell in lookup.report.plan.cells},
            )
        )
    first = lookup.variants[0].name if lookup.variants else ""
    others: tuple[tuple[str, str, _Other], ...] = (
        ("best", "best of each problem", lambda cell: _best(lookup, cell)),
        ("first", f"first: {first}", lambda cell: _at(lookup, cell, 0)),
        ("previous", "previous variant of the plan", lambda cell: _previous(lookup, cell)),
    )
    for key, label, other in others:
        ratios = {
            cell.id: _median_ratio(lookup, cell, other(cell)) for cell in lookup.report.plan.cells
        }
        found.append(Comparison(key, label, ratios))
    return tuple(found)


def _reference_ratio(lookup: Lookup, cell: Cell) -> Ratio:
    if not lookup.correct(cell):
        return Ratio()
    value = lookup.value(cell, lookup.report.primary)
    return Ratio(value.ratio, value.ratio_low, value.ratio_high)


def _median_ratio(lookup: Lookup, cell: Cell, other: Cell | None) -> Ratio:
    if other is None or not lookup.correct(other) or not lookup.correct(cell):
        return Ratio()
    below = lookup.value(other, lookup.report.primary).median
    above = lookup.value(cell, lookup.report.primary).median
    return Ratio(above / below if math.isfinite(below) and below else NAN)


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
