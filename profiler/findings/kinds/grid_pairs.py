"""Two variants on every problem of a grid: ratios, verdicts, outcomes, bytes saved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiler.analyse.judge import Pair as CellPair
from profiler.findings.kinds.grid_axes import Grid
from profiler.findings.values import NAN, Value
from profiler.findings.verdicts import NO_DATA, PairVerdict, PairVerdicts
from profiler.model import Cell, Problem, Variant

DRAM = ("dram_read_bytes", "dram_write_bytes")
MOST_PAIRS = 10
"""Pairs of variants of one page: all of five variants."""
DURATION = "duration_ns"

Cells = Mapping[tuple[str, str], Cell]
"""By (variant id, problem id)."""


@dataclass(frozen=True)
class VariantPair:
    """Two variants: `over` is divided by `under`."""

    over: Variant
    under: Variant

    @property
    def name(self) -> str:
        """`compile / eager`."""
        return f"{self.over.label} / {self.under.label}"

    @property
    def reverse(self) -> str:
        """`eager / compile`."""
        return f"{self.under.label} / {self.over.label}"


@dataclass(frozen=True)
class GridCell:
    """A pair of variants at one problem."""

    pair: VariantPair
    grid: Grid
    row: object
    column: object
    problem: Problem
    over: Cell | None
    under: Cell | None
    verdict: PairVerdict
    """Its ratio is missing where one of the two has no correct result."""
    saved: float = NAN
    """DRAM bytes of `under` by those of `over`: above 1 fewer are moved."""


@dataclass(frozen=True, eq=False)
class GridPairs:
    """All pairs of variants over all grids of a page."""

    grids: tuple[Grid, ...]
    """Grids in which any cell was tried; all where none was."""
    all_grids: int
    """How many grids the problems make."""
    against_baseline: tuple[VariantPair, ...]
    """Every other variant over the baseline; over the first variant where there is none."""
    shown: tuple[VariantPair, ...]
    """The pairs that are compared, those with the baseline first."""
    left_out: int
    """Pairs that have no room."""
    cells: Mapping[tuple[str, str, str], tuple[GridCell, ...]]
    """By variants (ids) and name of the grid: the pair at each of its problems, by rows."""
    moved: Mapping[str, float]
    """Bytes that a correct cell read from and wrote to device memory, by cell id."""

    def of(self, pair: VariantPair, grid: Grid) -> tuple[GridCell, ...]:
        """A pair at every problem of a grid; empty where neither variant is planned there."""
        cells = self.cells[pair.over.id, pair.under.id, grid.name]
        return cells if any(cell.over and cell.under for cell in cells) else ()

    def with_baseline(self) -> list[GridCell]:
        """Every pair with the baseline at every problem."""
        return [
            cell
            for pair in self.against_baseline
            if pair in self.shown
            for grid in self.grids
            for cell in self.of(pair, grid)
        ]


def variant_pairs(
    variants: Sequence[Variant], baseline: Variant | None
) -> tuple[tuple[VariantPair, ...], tuple[VariantPair, ...]]:
    """Pairs with the baseline, and all pairs, those first."""
    if not variants:
        return (), ()
    under = baseline or variants[0]
    first = tuple(VariantPair(variant, under) for variant in variants if variant != under)
    others = [pair.over for pair in first]
    rest = (VariantPair(later, earlier) for earlier, later in itertools.combinations(others, 2))
    return first, (*first, *rest)


def pairs_to_judge(
    pairs: Sequence[VariantPair], problems: Sequence[Problem], correct: Cells
) -> tuple[CellPair, ...]:
    """Cell ids of each pair at each problem where both are correct."""
    return tuple(
        (over.id, under.id)
        for pair, problem in itertools.product(pairs, problems)
        if (over := correct.get((pair.over.id, problem.id)))
        and (under := correct.get((pair.under.id, problem.id)))
    )


def moved_bytes(
    correct: Mapping[str, Cell], values: Mapping[tuple[str, str], Value]
) -> dict[str, float]:
    """Bytes read from and written to device memory by each correct cell; NaN where not known."""
    return {
        cell: sum(values.get((cell, name), Value()).median for name in DRAM) for cell in correct
    }


def compare_on_grid(
    pair: VariantPair,
    grid: Grid,
    cells: Cells,
    verdicts: PairVerdicts,
    moved: Mapping[str, float],
) -> Iterator[GridCell]:
    """A pair at every problem of a grid, row by row. `cells`: all that are planned."""
    for row, column in itertools.product(grid.row_values, grid.column_values):
        problem = grid.problems.get((row, column))
        if problem is None:
            continue
        over, under = (cells.get((variant.id, problem.id)) for variant in (pair.over, pair.under))
        both = over is not None and under is not None and over.id in moved and under.id in moved
        yield GridCell(
            pair=pair,
            grid=grid,
            row=row,
            column=column,
            problem=problem,
            over=over,
            under=under,
            verdict=verdicts.of(over.id, under.id) if both and over and under else NO_DATA,
            saved=_quotient(_bytes_of(under, moved), _bytes_of(over, moved)),
        )


def _bytes_of(cell: Cell | None, moved: Mapping[str, float]) -> float:
    return NAN if cell is None else moved.get(cell.id, NAN)


def _quotient(above: float, below: float) -> float:
    return above / below if below > 0 and above > 0 else NAN


def with_ratio(cells: Iterable[GridCell]) -> list[GridCell]:
    """Cells that have a ratio, the lowest first."""
    finite = [cell for cell in cells if math.isfinite(cell.verdict.ratio)]
    return sorted(finite, key=lambda cell: cell.verdict.ratio)
