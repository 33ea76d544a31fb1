"""Aliases: cells that are the same program, of which the first is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.model import BuildResult, Cell


def find_aliases(cells: Sequence[Cell], builds: Sequence[BuildResult]) -> Mapping[str, str]:
    """Id of the measured cell by the id of its alias: a later cell with the same program.

    Two cells are aliases where their variants are the same program and the problem is the same.
    """
    code = {build.variant: build.program for build in builds if build.ok and build.program}
    first: dict[tuple[str, str], str] = {}
    aliases: dict[str, str] = {}
    for cell in cells:
        program = code.get(cell.variant.id)
        if program is None:
            continue
        measured = first.setdefault((program, cell.problem.id), cell.id)
        if measured != cell.id:
            aliases[cell.id] = measured
    return aliases
