"""Problems as grids: which two parameters are the axes, and which tell the grids apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profiler.model import Problem
from profiler.planning.problem_names import distinct, is_number, varying

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
        grid for family in families.values() for grid in _of_family(family, axes, split)
    ]
    return tuple(_named_apart(family_grids))


def _of_family(
    problems: Sequence[Problem], axes: Sequence[str], split: Sequence[str]
) -> list[Grid]:
    rows, columns = _axes(problems, axes)
    rest = [key for key in varying(problems) if key not in (rows, columns)]
    # Parameters that are the same in this family may tell it from another.
    named = [key for key in split if key in problems[0].params]
    keys = [*named, *(key for key in rest if key not in named)]
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for problem in problems:
        groups.setdefault(tuple(str(problem.params[key]) for key in keys), []).append(problem)
    return [_grid(group, keys, rows, columns) for group in groups.values()]


def _axes(problems: Sequence[Problem], wanted: Sequence[str]) -> tuple[str, str]:
    """Rows and columns: as wanted, else the two numbers with most values, then anything else."""
    if wanted and all(key in problems[0].params for key in wanted):
        return wanted[0], wanted[1]
    keys = varying(problems)
    values = {key: distinct(problems, key) for key in keys}
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
        row_values=distinct(problems, rows) if rows else ("",),
        column_values=distinct(problems, columns),
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


def _named_apart(family_grids: Sequence[Grid]) -> list[Grid]:
    """Names that are given twice get their axes, so that each can be chosen."""
    names = [grid.name for grid in family_grids]
    return [
        replace(grid, name=f"{grid.name}: {grid.rows}, {grid.columns}")
        if names.count(grid.name) > 1
        else grid
        for grid in family_grids
    ]
