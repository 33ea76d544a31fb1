"""Every cell of a grid page: its kernels and its failure, grid by grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase

from profiler.findings.findings import Findings
from profiler.findings.kinds.grid_axes import Grid
from profiler.model import Cell
from profiler.render.tables.details import anchor, rerun_command
from profiler.render.tables.rows import outcome_css
from profiler.render.words.kernel_names import kernel_list, readable_kernel
from profiler.render.words.outcomes import OUTCOME_WORDS


@dataclass(frozen=True)
class KernelList:
    """Kernels that a launch of some cells is made of."""

    letter: str
    names: tuple[str, ...]
    """In the order of the launches, each once."""
    cells: tuple[str, ...]
    """Names of the variants, each with the number of its cells."""


@dataclass(frozen=True)
class CellLine:
    """One cell: where it stands, what became of it, what it launches."""

    anchor: str
    number: int
    mark: int
    variant: str
    row: str
    column: str
    outcome: str
    outcome_css: str
    cause: str
    letter: str


@dataclass(frozen=True)
class GridCells:
    """The cells of one grid."""

    grid: Grid
    command: str
    """Measures one cell again."""
    lists: tuple[KernelList, ...]
    lines: tuple[CellLine, ...]


@dataclass(frozen=True, eq=False)
class Kernels:
    """Which kernels each cell launches, and the letter of that list."""

    findings: Findings

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Kernels by cell id, as its first sample has them; without those that saw none."""
        frame = self.findings.report.samples
        if "kernel_names" not in frame.columns:
            return {}
        pairs = frame.loc[frame["kernel_names"].notna(), ["cell", "kernel_names"]]
        first = pairs.drop_duplicates("cell").itertuples(index=False)
        names_by_cell = {str(cell): kernel_list(names) for cell, names in first}
        for cell in self.findings.distinct_cells:
            owner = self.findings.status(cell).duplicate_of
            if cell.id not in names_by_cell and owner in names_by_cell:
                names_by_cell[cell.id] = names_by_cell[owner]
        return {cell: names for cell, names in names_by_cell.items() if names}

    @cached_property
    def letters(self) -> Mapping[tuple[str, ...], str]:
        """Letters of the different lists, in the order of the plan."""
        cells = (self.names.get(cell.id) for cell in self.findings.distinct_cells)
        lists = dict.fromkeys(names for names in cells if names)
        return {names: _letter(number) for number, names in enumerate(lists)}

    def letter(self, cell: Cell) -> str:
        """Letter of the list of a cell; empty where no kernel was seen."""
        return self.letters.get(self.names.get(cell.id, ()), "")


def grid_cells(findings: Findings, kernels: Kernels, grid: Grid) -> GridCells:
    """All cells of a grid, row by row, and the lists of kernels among them."""
    placed = [
        (row, column, cell)
        for row in grid.row_values
        for column in grid.column_values
        if (problem := grid.problems.get((row, column)))
        for variant in findings.variants
        if (cell := findings.cells.get((variant.id, problem.id)))
    ]
    lines = tuple(_line(findings, kernels, *place) for place in placed)
    first = placed[0][2].problem
    command = rerun_command(findings.report.spec_path, first).replace(first.id, "PROBLEM")
    return GridCells(grid, command, _lists(kernels, [cell for *_, cell in placed]), lines)


def _lists(kernels: Kernels, cells: Sequence[Cell]) -> tuple[KernelList, ...]:
    having = [(cell, kernels.names[cell.id]) for cell in cells if cell.id in kernels.names]
    counts_by_kernels: dict[tuple[str, ...], dict[str, int]] = {}
    for cell, names in having:
        counts = counts_by_kernels.setdefault(names, {})
        counts[cell.variant.name] = counts.get(cell.variant.name, 0) + 1
    return tuple(
        KernelList(
            kernels.letters[names],
            tuple(readable_kernel(name) for name in names),
            tuple(f"{variant}: {count}" for variant, count in counts.items()),
        )
        for names, counts in counts_by_kernels.items()
    )


def _line(
    findings: Findings, kernels: Kernels, row: object, column: object, cell: Cell
) -> CellLine:
    status = findings.status(cell)
    return CellLine(
        anchor=anchor(cell),
        number=findings.cell_numbers[cell.id],
        mark=findings.marks[cell.variant.id],
        variant=cell.variant.name,
        row=str(row),
        column=str(column),
        outcome=OUTCOME_WORDS[status.outcome],
        outcome_css=outcome_css(status.outcome),
        cause=status.cause,
        letter=kernels.letter(cell),
    )


def _letter(number: int) -> str:
    """Name a list: A, B … Z, AA, AB and so on."""
    more, place = divmod(number, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[place]
