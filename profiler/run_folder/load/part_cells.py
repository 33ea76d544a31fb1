"""Cells of the parts of external commands: each part is a problem of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from profiler.analyse.parts import RANGE
from profiler.analyse.samples import cell_of_part
from profiler.model import Cell, Params, Problem
from profiler.planning.matrix import default_name, identify
from profiler.planning.spec.models import DEFAULT_PROBLEM


def planned_cell(cell: str, planned: Set[str]) -> str:
    """The planned cell that a part of a command belongs to; itself where it is none."""
    name, dots, _ = cell.rpartition("..")
    while dots and cell not in planned and name not in planned:
        name, dots, _ = name.rpartition("..")
    return name if dots and cell not in planned else cell


def cells_of_parts(
    cells: Sequence[Cell], parts: Mapping[str, Params], measured: Set[str]
) -> tuple[Cell, ...]:
    """Cells of a plan, each replaced by one for each of its parts, in the order of the parts.

    `parts`: parameters by the cell ids of samples. A cell without any (it failed) has the parts of
    the other cells of its problem, so that each part says what became of it; of a cell that was
    measured, only its own.
    """
    planned = {cell.id for cell in cells}
    problem_of = {cell.id: cell.problem.id for cell in cells}
    parts_by_cell: dict[str, dict[str, Params]] = {cell: {} for cell in planned}
    parts_by_problem: dict[str, dict[str, Params]] = {}
    for sample_cell, params in parts.items():
        owner = planned_cell(sample_cell, planned)
        if owner in planned:
            parts_by_cell[owner][sample_cell] = params
            key = sample_cell.removeprefix(owner)
            parts_by_problem.setdefault(problem_of[owner], {}).setdefault(key, params)
    return tuple(
        part
        for cell in cells
        for part in _cells_of(
            cell,
            [params for id_, params in parts_by_cell[cell.id].items() if id_ in measured]
            or [*parts_by_problem.get(cell.problem.id, {}).values()],
        )
    )


def _cells_of(cell: Cell, parts: Sequence[Params]) -> Iterator[Cell]:
    if not parts:
        yield cell
    for params in parts:
        yield Cell(cell_of_part(cell.id, params), cell.variant, part_problem(cell.problem, params))


def part_problem(problem: Problem, params: Params) -> Problem:
    """The problem of a part: its parameters beside those of the problem that was planned.

    A name that the spec gave stays in front. Where ranges have a parameter that the problem has
    already, `range` holds theirs.
    """
    if problem.name == DEFAULT_PROBLEM:
        return Problem(identify(default_name(params), params), default_name(params), params)
    if problem.params.keys() & params.keys():
        params = {RANGE: default_name(params)}
    both = {**problem.params, **params}
    generated = problem.name == default_name(problem.params)
    name = default_name(both) if generated else f"{problem.name},{default_name(params)}"
    return Problem(identify(name, both), name, both)
