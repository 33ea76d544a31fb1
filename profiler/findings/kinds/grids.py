"""Problems as grids, and two variants on every problem of one: ratios, verdicts, bytes saved.

Which two parameters are the axes of a grid, and which tell grids apart, is found from the problems.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profiler.analyse.judge import Pair as CellPair
from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.findings.programs import Programs
from profiler.findings.verdicts import (
    NO_DATA,
    PairVerdict,
    PairVerdicts,
    VerdictPartDocument,
    verdict_on,
)
from profiler.model import Cell, Problem, Variant
from profiler.planning.problem_names import distinct_values, is_number, varying_parameters
from profiler.run_folder.load.report import PageSettings

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Grid:
    """Problems that differ in nothing but the two axes."""

    name: str
    rows: str
    """Parameter of the rows; empty where problems differ in the columns only."""
    columns: str
    row_values: tuple[Any, ...]
    column_values: tuple[Any, ...]
    problems: Mapping[tuple[Any, Any], Problem]
    """By row and column; not every place need be planned."""

    def place(self, row: Any, column: Any) -> str:
        """Row and column of a cell: `dim0 = 128, dim1 = 4096`."""
        return ", ".join(f"{key} = {value}" for key, value in self._places(row, column) if key)

    def short_place(self, row: Any, column: Any) -> str:
        """Row and column of a cell without the names of the axes: `128 \u00d7 4096`."""
        return f" {TIMES} ".join(str(value) for key, value in self._places(row, column) if key)

    def _places(self, row: Any, column: Any) -> tuple[tuple[str, Any], ...]:
        return ((self.rows, row), (self.columns, column))


def grids(
    problems: Sequence[Problem], axes: Sequence[str] = (), split: Sequence[str] = ()
) -> tuple[Grid, ...]:
    """Every problem in exactly one grid, grids in the order of the plan.

    Problems with other parameters are another family, with axes of their own where the given ones
    are not among theirs: attention by batch and length, and by length and width.
    """
    families: dict[tuple[str, ...], list[Problem]] = {}
    for problem in problems:
        families.setdefault(tuple(sorted(problem.params)), []).append(problem)
    family_grids = [
        grid for family in families.values() for grid in _family_grids(family, axes, split)
    ]
    return tuple(_with_distinct_names(family_grids))


def _family_grids(
    problems: Sequence[Problem], axes: Sequence[str], split: Sequence[str]
) -> list[Grid]:
    rows, columns = _axes(problems, axes)
    further_keys = [key for key in varying_parameters(problems) if key not in (rows, columns)]
    # Parameters that are the same in this family may tell it from another.
    split_keys = [key for key in split if key in problems[0].params]
    keys = [*split_keys, *(key for key in further_keys if key not in split_keys)]
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for problem in problems:
        groups.setdefault(tuple(str(problem.params[key]) for key in keys), []).append(problem)
    return [_grid(group, keys, rows, columns) for group in groups.values()]


def _axes(problems: Sequence[Problem], wanted_axes: Sequence[str]) -> tuple[str, str]:
    """Rows and columns: as wanted, else the two numbers with most values, then anything else."""
    if wanted_axes and all(key in problems[0].params for key in wanted_axes):
        return wanted_axes[0], wanted_axes[1]
    keys = varying_parameters(problems)
    values = {key: distinct_values(problems, key) for key in keys}
    numeric = {key: all(map(is_number, distinct_values)) for key, distinct_values in values.items()}
    order = sorted(keys, key=lambda key: (not numeric[key], -len(values[key])))
    axes = [key for key in keys if key in order[:2]]
    if len(axes) == 2 and numeric[axes[0]] and not numeric[axes[1]]:
        axes.reverse()  # words as rows: there is room for them
    if not axes:
        return "", next(iter(problems[0].params), "")
    return (axes[0], axes[1]) if len(axes) == 2 else ("", axes[0])


def _grid(problems: Sequence[Problem], keys: Sequence[str], rows: str, columns: str) -> Grid:
    name = _name(problems[0].params, keys)
    return Grid(
        name=name or f" {TIMES} ".join(key for key in (rows, columns) if key),
        rows=rows,
        columns=columns,
        row_values=distinct_values(problems, rows) if rows else ("",),
        column_values=distinct_values(problems, columns),
        problems={
            (problem.params.get(rows, ""), problem.params.get(columns)): problem
            for problem in problems
        },
    )


def _name(params: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Parameters that the grid's problems share: words alone, numbers with their key."""
    return ", ".join(
        str(params[key]) if isinstance(params[key], str) else f"{key} = {params[key]}"
        for key in keys
    )


def _with_distinct_names(family_grids: Sequence[Grid]) -> list[Grid]:
    """Names that are given twice get their axes, so that each can be chosen."""
    names = [grid.name for grid in family_grids]
    return [
        replace(grid, name=f"{grid.name}: {grid.rows}, {grid.columns}")
        if names.count(grid.name) > 1
        else grid
        for grid in family_grids
    ]


DRAM = ("dram_read_bytes", "dram_write_bytes")
MOST_PAIRS = 10
"""Pairs of variants of one page: all of five variants."""
DURATION = "duration_ns"


@dataclass(frozen=True)
class VariantPair:
    """Two variants: `over` is divided by `under`."""

    over: Variant
    under: Variant

    @property
    def name(self) -> str:
        """`compile / eager`."""
        return f"{self.over.label} / {self.under.label}"


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
    """Verdict on `over` against `under`; without a ratio where either has no correct result."""
    saved: float = math.nan
    """DRAM bytes of `under` by those of `over`: above 1 fewer are moved."""


@dataclass(frozen=True, eq=False)
class GridPairs:
    """All pairs of variants over all grids of a page."""

    grids: tuple[Grid, ...]
    """Grids in which any cell was tried; all where none was."""
    all_grids: int
    """How many grids the problems make."""
    against_baseline: tuple[VariantPair, ...]
    """Those of `compared_pairs` with the baseline; with the first variant where there is none."""
    compared_pairs: tuple[VariantPair, ...]
    """The pairs that are compared, those with the baseline first."""
    left_out: int
    """Pairs that have no room."""
    cells: Mapping[tuple[str, str, str], tuple[GridCell, ...]]
    """By variants (ids) and name of the grid: the pair at each of its problems, by rows."""
    moved: Mapping[str, float]
    """Bytes that a correct cell read from and wrote to device memory, by cell id."""

    def cells_of(self, pair: VariantPair, grid: Grid) -> tuple[GridCell, ...]:
        """A pair at every problem of a grid; empty where neither variant is planned there."""
        cells = self.cells[pair.over.id, pair.under.id, grid.name]
        return cells if any(cell.over and cell.under for cell in cells) else ()

    def with_baseline(self) -> list[GridCell]:
        """Every pair with the baseline at every problem."""
        return [
            cell
            for pair in self.against_baseline
            for grid in self.grids
            for cell in self.cells_of(pair, grid)
        ]


def variant_pairs(programs: Programs) -> tuple[VariantPair, ...]:
    """All pairs of variants: those with the baseline first, else with the first variant."""
    under = programs.baseline or next(iter(programs.variants), None)
    other_variants = [variant for variant in programs.variants if variant != under]
    pairs_of_others = (
        VariantPair(later, earlier) for earlier, later in itertools.combinations(other_variants, 2)
    )
    return (*(VariantPair(variant, under) for variant in other_variants if under), *pairs_of_others)


def pairs_to_judge(programs: Programs) -> tuple[CellPair, ...]:
    """Cell ids of each pair that is shown at each problem where both are correct."""
    return tuple(
        (over.id, under.id)
        for pair, problem in itertools.product(
            variant_pairs(programs)[:MOST_PAIRS], programs.problems
        )
        if (over := programs.correct_at(pair.over, problem))
        and (under := programs.correct_at(pair.under, problem))
    )


def find_grid_pairs(
    numbers: CellNumbers, settings: PageSettings, verdicts: PairVerdicts
) -> GridPairs:
    """Pairs of variants over the grids that the problems make."""
    programs = numbers.programs
    all_grids = grids(programs.problems, settings.axes, settings.split)
    pairs = variant_pairs(programs)
    moved = {
        cell.id: sum(numbers.value(cell, name).median for name in DRAM)
        for cell in programs.correct_cells.values()
    }
    tried = tuple(grid for grid in all_grids if _is_tried(programs, grid)) or all_grids
    return GridPairs(
        grids=tried,
        all_grids=len(all_grids),
        against_baseline=pairs[: min(max(len(programs.variants) - 1, 0), MOST_PAIRS)],
        compared_pairs=pairs[:MOST_PAIRS],
        left_out=len(pairs[MOST_PAIRS:]),
        cells={
            (pair.over.id, pair.under.id, grid.name): tuple(
                _compared_cells(pair, grid, programs, verdicts, moved)
            )
            for grid in tried
            for pair in pairs[:MOST_PAIRS]
        },
        moved=moved,
    )


def _is_tried(programs: Programs, grid: Grid) -> bool:
    """Whether any cell of a grid was measured, or failed: a part of a run need not have all."""
    return any(
        programs.tried(programs.at(variant, problem))
        for problem in grid.problems.values()
        for variant in programs.variants
    )


def _compared_cells(
    pair: VariantPair,
    grid: Grid,
    programs: Programs,
    verdicts: PairVerdicts,
    moved: Mapping[str, float],
) -> Iterator[GridCell]:
    """A pair at every problem of a grid, row by row."""
    for row, column in itertools.product(grid.row_values, grid.column_values):
        problem = grid.problems.get((row, column))
        if problem is None:
            continue
        over, under = (programs.at(variant, problem) for variant in (pair.over, pair.under))
        verdict = NO_DATA
        if over and under and {over.id, under.id} <= moved.keys():
            verdict = verdict_on(verdicts, over.id, under.id)
        above, below = (moved.get(cell.id if cell else "", math.nan) for cell in (under, over))
        yield GridCell(
            pair=pair,
            grid=grid,
            row=row,
            column=column,
            problem=problem,
            over=over,
            under=under,
            verdict=verdict,
            saved=above / below if below > 0 and above > 0 else math.nan,
        )


def with_ratio(cells: Iterable[GridCell]) -> list[GridCell]:
    """Cells that have a ratio, the lowest first."""
    finite = [cell for cell in cells if math.isfinite(cell.verdict.ratio)]
    return sorted(finite, key=lambda cell: cell.verdict.ratio)


# ---- as JSON -------------------------------------------------------------------------------------


class GridCellDocument(JsonObject):
    """A pair of variants at one problem."""

    get = Source[GridCell]()
    problem: str = get(lambda cell: cell.problem.id)
    ratio: Number = get(lambda cell: cell.verdict.ratio)
    ratio_low: Number = get(lambda cell: cell.verdict.low)
    ratio_high: Number = get(lambda cell: cell.verdict.high)
    dram_bytes_saved: Number = get(lambda cell: cell.saved)
    verdict = get.spread(VerdictPartDocument, lambda cell: cell.verdict)


class GridPairDocument(JsonObject):
    """Two variants over a grid: `over` is divided by `under`."""

    get = Source[tuple[VariantPair, tuple[GridCell, ...]]]()
    over: str = get(lambda compared: compared[0].over.name)
    under: str = get(lambda compared: compared[0].under.name)
    cells = get.rows(GridCellDocument, lambda compared: compared[1])


class GridDocument(JsonObject):
    """Problems that differ in two sizes."""

    get = Source[tuple[Grid, GridPairs]]()
    name: str = get(lambda row: row[0].name)
    rows: str = get(lambda row: row[0].rows)
    columns: str = get(lambda row: row[0].columns)
    pairs = get.rows(
        GridPairDocument,
        lambda row: [
            (pair, cells)
            for pair in row[1].compared_pairs
            if (cells := row[1].cells_of(pair, row[0]))
        ],
    )
