"""Is a cell the same program in two runs, and how is that known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from profiler.comparison.edits import edited_files, is_source_changed
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
    SAME_SOURCE = "same_source"
    """The same Python source, with all that it uses, and the same version of torch."""
    FILES_EDITED = "files_edited"
    """Files of the workload were edited, and nothing tells whether this variant uses what changed:
    trusted to be the same."""
    RETUNED = "retuned"
    """A compiler made another program of the same source: its autotuner chose otherwise."""
    CHANGED = "changed"
    UNKNOWN = "unknown"

    @property
    def unchanged(self) -> bool:
        """Whether the cell may serve as a control."""
        return self in _UNCHANGED

    @property
    def other_code(self) -> bool:
        """Whether other code ran in the newer run."""
        return self in (Program.CHANGED, Program.RETUNED)


_UNCHANGED = frozenset(
    {
        Program.SAME_KEY,
        Program.SAME_CODE,
        Program.SAME_TORCH,
        Program.SAME_SOURCE,
        Program.FILES_EDITED,
    }
)


def programs(older: ComparedRun, newer: ComparedRun, cells: Sequence[Cell]) -> dict[str, Program]:
    """Relation of the programs of each cell that both runs have, by its id."""
    before = {cell.id: cell for cell in older.report.plan.cells}
    builds = [{build.variant: build for build in run.report.builds} for run in (older, newer)]
    edited = any(file.name.endswith(".py") for file in edited_files(older, newer))
    return {
        cell.id: _program(
            _Runs(older, newer, edited),
            (before[cell.id], cell),
            [by_variant.get(cell.variant.id) for by_variant in builds],
        )
        for cell in cells
    }


@dataclass(frozen=True)
class _Runs:
    older: ComparedRun
    newer: ComparedRun
    files_edited: bool
    """Whether Python files of the workload differ."""


def _program(
    runs: _Runs, cells: tuple[Cell, Cell], builds: Sequence[BuildResult | None]
) -> Program:
    if _params(cells[0]) != _params(cells[1]):
        return Program.CHANGED
    if retuned(runs.older, runs.newer, cells[1].id):
        return Program.RETUNED
    keys = [run.record.keys.get(cells[1].id) for run in (runs.older, runs.newer)]
    if keys[0] is not None and keys[0] == keys[1]:
        return Program.SAME_KEY
    codes = [None if build is None else build.program or build.code_hash for build in builds]
    if None not in codes:
        return Program.SAME_CODE if codes[0] == codes[1] else Program.CHANGED
    return _without_code(runs, cells[1].variant.id, builds)


def _params(cell: Cell) -> tuple[dict[str, object], dict[str, object]]:
    return dict(cell.variant.params), dict(cell.problem.params)


def _without_code(runs: _Runs, variant: str, builds: Sequence[BuildResult | None]) -> Program:
    """A cell without machine code of ours, as far as its source and torch's version tell."""
    changed = is_source_changed(runs.older, runs.newer, variant)
    if changed:
        return Program.CHANGED
    compiled = any(build is not None and build.recipe_hash is not None for build in builds)
    versions = {run.report.environment.torch for run in (runs.older, runs.newer)}
    external = runs.older.external or runs.newer.external
    if compiled or external or None in versions or len(versions) > 1:
        return Program.UNKNOWN
    if changed is not None:
        return Program.SAME_SOURCE
    return Program.FILES_EDITED if runs.files_edited else Program.SAME_TORCH
