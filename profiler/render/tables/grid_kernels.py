"""Lists of kernels that the cells of a grid page launch, grid by grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.grids import Grid
from profiler.model import Cell
from profiler.render.words.kernel_names import kernel_list, readable_kernel


@dataclass(frozen=True)
class KernelList:
    """Kernels that a launch of some cells is made of."""

    letter: str
    names: tuple[str, ...]
    """In the order of the launches, each once."""
    cells: tuple[str, ...]
    """Names of the variants, each with the number of its cells."""


@dataclass(frozen=True)
class GridKernels:
    """Lists of kernels of the cells of one grid."""

    grid: Grid
    lists: tuple[KernelList, ...]


@dataclass(frozen=True, eq=False)
class Kernels:
    """Which kernels each cell launches, and the letter of that list."""

    findings: Findings

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Kernels by cell id, as its first sample has them; without those that saw none."""
        frame = self.findings.report.measured.samples
        if "kernel_names" not in frame.columns:
            return {}
        pairs = frame.loc[frame["kernel_names"].notna(), ["cell", "kernel_names"]]
        first = pairs.drop_duplicates("cell").itertuples(index=False)
        names_by_cell = {str(cell): kernel_list(names) for cell, names in first}
        for cell in self.findings.programs.cells:
            owner = self.findings.programs.status(cell).duplicate_of
            if cell.id not in names_by_cell and owner in names_by_cell:
                names_by_cell[cell.id] = names_by_cell[owner]
        return {cell: names for cell, names in names_by_cell.items() if names}

    @cached_property
    def letters(self) -> Mapping[tuple[str, ...], str]:
        """Letters of the different lists, in the order of the plan."""
        cells = (self.names.get(cell.id) for cell in self.findings.programs.cells)
        lists = dict.fromkeys(names for names in cells if names)
        return {names: _letter(number) for number, names in enumerate(lists)}

    def letter(self, cell: Cell) -> str:
        """Letter of the list of a cell; empty where no kernel was seen."""
        return self.letters.get(self.names.get(cell.id, ()), "")


def grid_kernels(programs: Programs, kernels: Kernels, grid: Grid) -> GridKernels:
    """The lists of kernels among the cells of a grid, row by row."""
    cells = [
        cell
        for row in grid.row_values
        for column in grid.column_values
        if (problem := grid.problems.get((row, column)))
        for variant in programs.variants
        if (cell := programs.by_place.get((variant.id, problem.id)))
    ]
    return GridKernels(grid, _lists(kernels, cells))


def _lists(kernels: Kernels, cells: Sequence[Cell]) -> tuple[KernelList, ...]:
    having = [(cell, kernels.names[cell.id]) for cell in cells if cell.id in kernels.names]
    counts_by_kernels: dict[tuple[str, ...], dict[str, int]] = {}
    for cell, names in having:
        counts = counts_by_kernels.setdefault(names, {})
        counts[cell.variant.label] = counts.get(cell.variant.label, 0) + 1
    return tuple(
        KernelList(
            kernels.letters[names],
            tuple(readable_kernel(name) for name in names),
            tuple(f"{variant}: {count}" for variant, count in counts.items()),
        )
        for names, counts in counts_by_kernels.items()
    )


def _letter(number: int) -> str:
    """Name a list: A, B … Z, AA, AB and so on."""
    more, place = divmod(number, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[place]
