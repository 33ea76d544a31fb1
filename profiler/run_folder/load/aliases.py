"""Cells that are the same program: of those, one is measured for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.model import BuildResult, Cell


def twins(cells: Sequence[Cell], builds: Sequence[BuildResult]) -> Mapping[str, str]:
    """Map each cell that has the program of an earlier one to the cell measured for both.

    Two cells are twins where their variants are the same program and the problem is the same.
    """
    code = {build.variant: build.program for build in builds if build.ok and build.program}
    first: dict[tuple[str, str], str] = {}
    found: dict[str, str] = {}
    for cell in cells:
        program = code.get(cell.variant.id)
        if program is None:
            continue
        measured = first.setdefault((program, cell.problem.id), cell.id)
        if measured != cell.id:
            found[cell.id] = measured
    return found
