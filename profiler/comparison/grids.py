"""Two runs of page kind grid: time in the newer run ÷ time in the older one, cell by cell.

Ratios have no verdicts here: the runs may be of different machines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.analyse.effects import MeanRatio, mean_ratio
from profiler.comparison.changes import CellChange, Durations
from profiler.comparison.runs import ComparedRun, is_correct
from profiler.comparison.steps import RunStep
from profiler.findings.kinds.grids import Grid, grids
from profiler.model import Cell, Outcome, Variant
from profiler.planning.page_kinds import GRIDS


@dataclass(frozen=True)
class MissingTime:
    """A run that has no correct time of a cell."""

    run: int
    """Number of the run in the comparison, from 1."""
    outcome: Outcome | None
    """None: the cell is not in the run's plan."""
    cause: str


@dataclass(frozen=True)
class RunGridCell:
    """One cell of a grid in both runs."""

    row: object
    column: object
    change: CellChange | None
    """None where only one run has the cell."""
    missing: tuple[MissingTime, ...]

    @property
    def ratio(self) -> float:
        """Time in the newer run ÷ time in the older one; NaN where one of them has none."""
        return self._times.raw_ratio if self._times else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the ratio."""
        times = self._times
        return (times.raw_low, times.raw_high) if times else (math.nan, math.nan)

    @property
    def _times(self) -> Durations | None:
        return self.change.durations if self.change is not None and not self.missing else None


@dataclass(frozen=True)
class VariantGrid:
    """One variant in one grid."""

    variant: Variant
    grid: Grid
    cells: tuple[RunGridCell, ...]
    """Row by row; cells that neither run has are left out."""

    @property
    def measured(self) -> tuple[RunGridCell, ...]:
        """Cells with a time in both runs, by their ratio, the lowest first."""
        return tuple(
            sorted((cell for cell in self.cells if cell.ratio > 0), key=lambda cell: cell.ratio)
        )

    @property
    def mean(self) -> MeanRatio | None:
        """Geometric mean of the ratios; None where no cell has both times."""
        return mean_ratio(cell.ratio for cell in self.cells)


@dataclass(frozen=True, eq=False)
class RunGrids:
    """Problems and variants that both runs have, as grids."""

    names: tuple[str, str]
    """Names of the two runs: their machines, or the runs' own names on the same machine."""
    numbers: tuple[int, int]
    """Numbers of the runs in the comparison, from 1."""
    control: str | None
    """Id of the variant that verdicts are relative to."""
    grids: tuple[Grid, ...]
    variants: tuple[Variant, ...]
    by_place: Mapping[tuple[str, str], VariantGrid]
    """Grid of a variant by variant id and name of the grid; grids without a cell are left out."""

    def in_grid(self, grid: Grid) -> tuple[VariantGrid, ...]:
        """All variants in one grid."""
        places = ((variant.id, grid.name) for variant in self.variants)
        return tuple(self.by_place[place] for place in places if place in self.by_place)

    @cached_property
    def means(self) -> tuple[tuple[Variant, MeanRatio | None], ...]:
        """Geometric mean of each variant over all grids; None where no cell has both times."""
        return tuple((variant, mean_ratio(self.ratios(variant))) for variant in self.variants)

    def ratios(self, variant: Variant) -> list[float]:
        """Ratios of a variant in all grids."""
        return [
            cell.ratio
            for (name, _), variant_grid in self.by_place.items()
            if name == variant.id
            for cell in variant_grid.measured
        ]


def find_grids(
    older: ComparedRun, newer: ComparedRun, step: RunStep, cells: Mapping[str, Cell]
) -> RunGrids | None:
    """The two runs of a step as grids; None where neither is of page kind grid.

    `cells`: by id, under the names to be shown.
    """
    settings = [run.report.settings for run in (newer, older)]
    of_grids = next((of for of in settings if GRIDS in of.page_kind.finds), None)
    if of_grids is None:
        return None
    shared = _shared_cells(older, newer, step, cells)
    problems = {cell.problem.id: cell.problem for cell in shared}
    shared_grids = grids(tuple(problems.values()), of_grids.axes, of_grids.split)
    variants = {cell.variant.id: cell.variant for cell in shared}
    ids = {(cell.variant.id, cell.problem.id): cell.id for cell in shared}
    runs = [
        (number, run, frozenset(cell.id for cell in run.report.plan.cells))
        for number, run in zip(step.numbers, (older, newer), strict=True)
    ]

    def grid_cells(variant: Variant, grid: Grid) -> Iterator[RunGridCell]:
        for row, column in itertools.product(grid.row_values, grid.column_values):
            problem = grid.problems.get((row, column))
            cell = ids.get((variant.id, problem.id)) if problem else None
            if cell is not None:
                change = step.cells.get(cell)
                yield RunGridCell(row, column, change, tuple(_missing_times(runs, cell)))

    by_place = {
        (variant.id, grid.name): VariantGrid(variant, grid, tuple(grid_cells(variant, grid)))
        for variant, grid in itertools.product(variants.values(), shared_grids)
    }
    return RunGrids(
        names=_names(older, newer),
        numbers=step.numbers,
        control=step.control,
        grids=shared_grids,
        variants=tuple(variants.values()),
        by_place={place: variant for place, variant in by_place.items() if variant.cells},
    )


def _names(older: ComparedRun, newer: ComparedRun) -> tuple[str, str]:
    first, second = (run.report.environment.processor for run in (older, newer))
    return (first, second) if first and second and first != second else (older.name, newer.name)


def _shared_cells(
    older: ComparedRun, newer: ComparedRun, step: RunStep, cells: Mapping[str, Cell]
) -> Sequence[Cell]:
    """Cells of either run whose variant and whose problem both runs have in some cell.

    Operators or sizes that only one run has give no empty heat maps; a single cell that only one
    of the two runs has is shown.
    """
    variants = {change.cell.variant.id for change in step.cells.values()}
    problems = {change.cell.problem.id for change in step.cells.values()}
    planned = (cell.id for run in (newer, older) for cell in run.report.plan.cells)
    all_cells = (cells[name] for name in dict.fromkeys(planned))
    return [
        cell for cell in all_cells if cell.variant.id in variants and cell.problem.id in problems
    ]


_NumberedRun = tuple[int, ComparedRun, frozenset[str]]
"""A run with its number in the comparison, and the ids of its cells."""


def _missing_times(runs: Sequence[_NumberedRun], cell: str) -> Iterator[MissingTime]:
    """Runs that have no correct time of a cell."""
    for number, run, planned in runs:
        if cell not in planned:
            yield MissingTime(number, None, "")
        elif not is_correct(run, cell):
            status = run.report.statuses[cell]
            yield MissingTime(number, status.outcome, status.cause)
