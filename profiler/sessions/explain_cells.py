"""Cells of an explain session: those that the answer of a run is about, or those asked for."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence

import pandas as pd

from profiler.analyse.judge import times_of
from profiler.errors import UsageError
from profiler.model import Cell, Plan, SessionKind
from profiler.planning.problem_lookup import problems_called
from profiler.planning.questions import Question

ALL = "all"
MOST_CELLS = 6
_NEAR, _NEAR_SHARE = 0.02, 0.1
"""Problems that differ by less, as a logarithm, share a place, and noise does not choose. With a
difference from a baseline they have to be within this share of the largest, too."""
MOST_KERNELS = 20
"""Kernels in a launch beyond which a cell is explained only where it is asked for: ncu runs each of
them up to 34 times, and takes 1 to 6 s for it on an H200."""


def explain_cells(
    plan: Plan, samples: pd.DataFrame, explained: Container[str] = frozenset()
) -> tuple[Cell, ...]:
    """Cells to explain by default, in the order of the plan; at most MOST_CELLS.

    At the problem that takes longest the fastest rival, the baseline and the fastest other
    reference. Then the same with the leader, at the problem where it differs most from the
    baseline; with the leader among those of the other problems, where it was not measured; and at
    the problem where any rival differs most. Of problems that share a place (within 2 %; of
    differences within a tenth of the largest, too), one at which cells are `explained` already has
    it, else the one that takes longest, else the first. Where a leader is `explained` beside the
    baseline, those that are count among the MOST_CELLS: noise makes another one the fastest, or the
    first of two leaders. Where steps are asked for, every version at the problem that takes
    longest. Cells of more than MOST_KERNELS kernels are passed over.
    """
    many = many_kernels(samples)
    durations = {
        cell: duration for cell, duration in _durations(plan, samples).items() if cell not in many
    }
    if not durations:
        return ()
    by_problem = _by_problem(plan, durations)
    fastest = {
        problem: math.log(min(durations[cell.id] for cell in cells))
        for problem, cells in by_problem.items()
    }
    explained_problems = {cell.problem.id for cell in plan.cells if cell.id in explained}
    longest = _largest(fastest, _NEAR, explained_problems)
    if Question.STEPS in plan.questions:
        return tuple(by_problem[longest])
    leaders = tuple(_leaders(plan, by_problem, durations))
    cell_ids: set[str] = set()
    if _tell_of_a_leader(plan, by_problem, leaders, explained):
        cell_ids = {cell.id for cell in plan.cells if cell.id in explained}
    every_rival = frozenset(variant.id for variant in plan.rivals)
    questions = [(longest, every_rival)]
    for rivals in (*leaders, every_rival):
        preferred = explained_problems, {longest}
        furthest = _furthest(plan, by_problem, durations, rivals, preferred)
        questions += [(furthest, rivals)] if furthest else []
    for problem, rivals in questions:
        cells = _of_answer(plan, by_problem[problem], durations, rivals)
        with_answer = cell_ids | {cell.id for cell in cells}
        if len(with_answer) <= MOST_CELLS:
            cell_ids = with_answer
    return tuple(cell for cell in plan.cells if cell.id in cell_ids)


def _tell_of_a_leader(
    plan: Plan,
    by_problem: Mapping[str, Sequence[Cell]],
    leaders: Sequence[frozenset[str]],
    explained: Container[str],
) -> bool:
    """Whether explained cells tell why a leader differs from the baseline at some problem."""
    led = frozenset[str]().union(*leaders)
    for cells in by_problem.values():
        variant_ids = {cell.variant.id for cell in cells if cell.id in explained}
        if plan.baseline in variant_ids and variant_ids & led:
            return True
    return False


def _largest(values: Mapping[str, float], near: float, *preferred: Container[str]) -> str:
    """The problem of the largest value; of those less than `near` below it the first preferred."""
    highest = max(values.values())
    near_highest = [problem for problem, value in values.items() if value > highest - near]
    return max(near_highest, key=lambda problem: [problem in group for group in preferred])


def _furthest(
    plan: Plan,
    by_problem: dict[str, list[Cell]],
    durations: dict[str, float],
    rivals: frozenset[str],
    preferred: Sequence[Container[str]],
) -> str | None:
    """The problem where the fastest of these rivals differs most from the baseline, if any does."""
    differences = {
        problem: difference
        for problem, cells in by_problem.items()
        # 0 where none of these rivals, or no baseline, was measured.
        if (difference := _difference(plan, cells, durations, rivals))
    }
    if not differences:
        return None
    near = min(_NEAR, _NEAR_SHARE * max(differences.values()))
    return _largest(differences, near, *preferred)


def _leaders(
    plan: Plan, by_problem: dict[str, list[Cell]], durations: dict[str, float]
) -> Iterator[frozenset[str]]:
    """The leader, and the leader at the problems that it was not measured at, and so on.

    Each alone. The leader is the rival at most problems, and of these the one of the least
    geometric mean.
    """
    left = dict(by_problem)
    while left:
        logarithms: dict[str, list[float]] = {}
        for cells in left.values():
            for variant, logarithm in _logarithms(plan, cells, durations).items():
                logarithms.setdefault(variant, []).append(logarithm)
        rivals = [variant.id for variant in plan.rivals if variant.id in logarithms]
        if not rivals:
            return
        leader = min(rivals, key=lambda rival: (-len(logarithms[rival]), sum(logarithms[rival])))
        yield frozenset({leader})
        left = {
            problem: cells
            for problem, cells in left.items()
            if all(cell.variant.id != leader for cell in cells)
        }


def many_kernels(samples: pd.DataFrame) -> frozenset[str]:
    """Cells that launch more than MOST_KERNELS kernels, by their ids."""
    kernels = samples.groupby("cell")["kernels"].max()
    return frozenset(map(str, kernels.index[kernels > MOST_KERNELS]))


def asked_cells(plan: Plan, asked: Sequence[str]) -> tuple[Cell, ...]:
    """Cells that the texts name: ids and names of cells and problems, with commas, or `all`.

    Raises UsageError for a name that no cell and no problem has.
    """
    ids = {cell for text in asked for cell in _named(plan, text)}
    return tuple(cell for cell in plan.cells if cell.id in ids)


def _named(plan: Plan, text: str) -> Iterator[str]:
    """Ids of the cells that a text names; raises UsageError as `asked_cells`."""
    name_parts = text.split(",")
    while name_parts:
        # Names of problems have commas, too: as many name_parts as are a name together.
        counts = range(len(name_parts), 0, -1)
        named = ((count, _called(plan, ",".join(name_parts[:count]).strip())) for count in counts)
        count, cells = next((pair for pair in named if pair[1]), (0, frozenset()))
        if not cells:
            raise UsageError(
                f"--explain: no cell and no problem is called '{name_parts[0].strip()}'.",
                remedy="`profiler plan SPEC --json -` lists them; `all` explains every cell.",
            )
        yield from cells
        name_parts = name_parts[count:]


def _called(plan: Plan, name: str) -> frozenset[str]:
    """Ids of the cell with this id, else of the cells at the problems called so; or all."""
    if name == ALL:
        return frozenset(cell.id for cell in plan.cells)
    problems = {problem.id for problem in problems_called(plan.problems, name)}
    return frozenset(
        cell.id for cell in plan.cells if cell.id == name or cell.problem.id in problems
    )


def _durations(plan: Plan, samples: pd.DataFrame) -> dict[str, float]:
    """Median duration of each cell that was timed: of its confirmation, else of the blocks."""
    durations: dict[str, float] = {}
    for kind in (SessionKind.TIMING, SessionKind.FINAL):
        times = times_of(samples, plan.cells, kind)
        medians = times.groupby("cell")["duration_ns"].median()
        durations |= {str(cell): float(median) for cell, median in medians.items() if median > 0}
    return durations


def _by_problem(plan: Plan, durations: dict[str, float]) -> dict[str, list[Cell]]:
    by_problem: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if cell.id in durations:
            by_problem.setdefault(cell.problem.id, []).append(cell)
    return by_problem


def _of_answer(
    plan: Plan, cells: list[Cell], durations: dict[str, float], rivals: frozenset[str]
) -> list[Cell]:
    """The fastest of these rivals at a problem, its baseline, and its fastest other reference."""
    others = set(plan.references) - {plan.baseline}
    groups = (rivals, {plan.baseline}, others)
    members = [[cell for cell in cells if cell.variant.id in group] for group in groups]
    return [min(group, key=lambda cell: durations[cell.id]) for group in members if group]


def _difference(
    plan: Plan, cells: list[Cell], durations: dict[str, float], rivals: frozenset[str]
) -> float:
    """Distance of the fastest of these rivals from the baseline, as a logarithm, or 0."""
    logarithms = _logarithms(plan, cells, durations)
    return abs(min((logarithms[rival] for rival in rivals if rival in logarithms), default=0.0))


def _logarithms(plan: Plan, cells: list[Cell], durations: dict[str, float]) -> dict[str, float]:
    """Logarithm of each variant's ratio to the baseline at a problem; empty without a baseline."""
    times = {cell.variant.id: durations[cell.id] for cell in cells}
    baseline = times.get(plan.baseline or "")
    if baseline is None:
        return {}
    return {variant: math.log(time / baseline) for variant, time in times.items()}
