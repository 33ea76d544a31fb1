"""Is a cell the same program in two runs, and how is that known."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from profiler.comparison.runs import ComparedRun
from profiler.comparison.tuning import retuned
from profiler.model import BuildResult, Cell


class Program(StrEnum):
    """Relation of a cell's program in two runs."""

    SAME_KEY = "same_key"
    """Everything that could change a number is the same: sources, machine code, machine, tools."""
    SAME_CODE = "same_code"
    """The same machine code and launch parameters."""
    SAME_TORCH = "same_torch"
    """Nothing of it is compiled by us, and torch has the same version."""
    RETUNED = "retuned"
    """A compiler made another program of the same source: its autotuner chose otherwise."""
    CHANGED = "changed"
    UNKNOWN = "unknown"

    @property
    def unchanged(self) -> bool:
        """Whether the cell may serve as a control."""
        return self in (Program.SAME_KEY, Program.SAME_CODE, Program.SAME_TORCH)


def programs(older: ComparedRun, newer: ComparedRun, cells: Sequence[Cell]) -> dict[str, Program]:
    """Relation of the programs of each cell that both runs have, by its id."""
    before = {cell.id: cell for cell in older.report.plan.cells}
    builds = [{build.variant: build for build in run.report.builds} for run in (older, newer)]
    return {
        cell.id: _program(
            older,
            newer,
            (before[cell.id], cell),
            [by_variant.get(cell.variant.id) for by_variant in builds],
        )
        for cell in cells
    }


def _program(
    older: ComparedRun,
    newer: ComparedRun,
    cells: tuple[Cell, Cell],
    builds: Sequence[BuildResult | None],
) -> Program:
    if _params(cells[0]) != _params(cells[1]):
        return Program.CHANGED
    if retuned(older, newer, cells[1].id):
        return Program.RETUNED
    keys = [run.record.keys.get(cells[1].id) for run in (older, newer)]
    if keys[0] is not None and keys[0] == keys[1]:
        return Program.SAME_KEY
    codes = [None if build is None else build.program or build.code_hash for build in builds]
    if None not in codes:
        return Program.SAME_CODE if codes[0] == codes[1] else Program.CHANGED
    return _without_code(older, newer, builds)


def _params(cell: Cell) -> tuple[dict[str, object], dict[str, object]]:
    return dict(cell.variant.params), dict(cell.problem.params)


def _without_code(
    older: ComparedRun, newer: ComparedRun, builds: Sequence[BuildResult | None]
) -> Program:
    """A cell without machine code of ours: torch's own, as far as its version tells."""
    compiled = any(build is not None and build.recipe_hash is not None for build in builds)
    versions = {run.report.environment.torch for run in (older, newer)}
    if compiled or older.external or newer.external or None in versions:
        return Program.UNKNOWN
    return Program.SAME_TORCH if len(versions) == 1 else Program.UNKNOWN
