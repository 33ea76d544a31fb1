"""Cells of an explain session: the cells that a run's answer is about, or `--explain` names."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.judge import visit_times
from profiler.errors import UsageError
from profiler.model import Cell, Plan, SessionKind
from profiler.planning.cell_filter import problems_called
from profiler.planning.page_kinds import Question
from profiler.sessions.forecasts.launch_counts import MOST_EXPLAINED

ALL = "all"
_NEAR, _NEAR_SHARE = 0.02, 0.1
"""Problems that differ by less, as a logarithm, share a place, and noise does not choose. With a
difference from a baseline they have to be within this share of the largest, too."""
MOST_KERNELS = 20
"""Kernels in a launch beyond which a cell is explained only where it is asked for: ncu runs each of
them up to 34 times, and takes 1 to 6 s for it on an H200."""
MOST_KERNELS_AGAIN = 6
"""Kernels that another problem may add, where a leader is explained already: ncu took 1.4 s for
each of the seven of an eager RMSNorm, and 1 to 2 s for a cell of one, on an H200."""
LONG_NS = 50e6
"""Duration from which a problem is not the longest that is explained, if there are shorter ones:
ncu took 0.2 to 0.4 s for each ms of a launch on H100s, and more than 3 minutes for one of 250."""


@dataclass(frozen=True)
class _Durations:
    """Median durations by cell id, in nanoseconds, of cells that are not passed over."""

    timed: Mapping[str, float]
    confirmed: Mapping[str, float]
    kernels: Mapping[str, float]
    """Largest number of kernels in a launch by cell id; NaN where the collector sees none."""

    @property
    def measured(self) -> Mapping[str, float]:
        """Duration by cell id: of the confirmation, else of the earlier blocks."""
        return {**self.timed, **self.confirmed}

    def ratio(self, cell: str, other_cell: str) -> float:
        """Ratio of two cells' durations in one session; NaN where no session has both."""
        for session in (self.confirmed, self.timed):
            if cell in session and other_cell in session:
                return session[cell] / session[other_cell]
        return math.nan

    def fastest(self, cells: Collection[Cell]) -> Cell:
        """The fastest confirmed cell; of all cells where none was confirmed."""
        confirmed = [cell for cell in cells if cell.id in self.confirmed]
        return min(confirmed or cells, key=lambda cell: self.measured[cell.id])


def explain_cells(
    plan: Plan,
    samples: pd.DataFrame,
    explained: Container[str] = frozenset(),
    *,
    tunes: bool = False,
) -> tuple[Cell, ...]:
    """Cells to explain by default, in the order of the plan; at most MOST_EXPLAINED.

    The leader, the baseline and the fastest other reference at the problem where the leader differs
    most from the baseline. Then the same with the leader among those of the other problems, where
    it was not measured; with the fastest rival at the problem that takes longest; and at the
    problem where any rival differs most. Of problems that share a place (within 2 %; of
    differences within a tenth of the largest, too), one at which cells are `explained` already has
    it, else the one that takes longest (below LONG_NS), else the first; where the baseline has more
    than MOST_KERNELS_AGAIN kernels, one within a tenth of the largest difference. Where a leader is
    `explained` beside the baseline, those that are count among the MOST_EXPLAINED: noise makes
    another one the fastest, or the first of two leaders. Once a leader has its place, another
    problem of the same variants, or of any rival, is left out where it adds more than
    MOST_KERNELS_AGAIN. Where steps are asked for, every version at the problem that takes longest.
    Cells of more than MOST_KERNELS kernels are passed over.
    `tunes`: the leader is who has the smallest worst slowdown, as on the page, not the smallest
    geometric mean.
    """
    durations = _durations(plan, samples)
    measured = durations.measured
    if not measured:
        return ()
    by_problem = _by_problem(plan, measured)
    fastest = {
        problem: math.log(min(measured[cell.id] for cell in cells))
        for problem, cells in by_problem.items()
    }
    explained_problems = {cell.problem.id for cell in plan.cells if cell.id in explained}
    below_long = {problem: value for problem, value in fastest.items() if value < math.log(LONG_NS)}
    longest = _largest(below_long or fastest, _NEAR, explained_problems)
    if Question.STEPS in plan.questions:
        return tuple(by_problem[longest])
    leaders = tuple(_leaders(plan, by_problem, durations, tunes=tunes))
    cell_ids: set[str] = set()
    if _explain_a_leader(plan, by_problem, leaders, explained):
        cell_ids = {cell.id for cell in plan.cells if cell.id in explained}
    every_rival = frozenset(variant.id for variant in plan.rivals)
    preferred = explained_problems, {longest}
    furthest = [
        (_furthest(plan, by_problem, durations, rivals, preferred), rivals)
        for rivals in (*leaders, every_rival)
    ]
    of_any_rival = furthest.pop()
    questions = [
        (problem, rivals)
        for problem, rivals in (*furthest, (longest, every_rival), of_any_rival)
        if problem
    ]
    for problem, rivals in questions:
        cells = _answer_cells(plan, by_problem[problem], durations, rivals)
        added = {cell.id for cell in cells} - cell_ids
        explained_variants = {cell.variant.id for cell in plan.cells if cell.id in cell_ids}
        # Leaders go first; another rival that is the fastest at a problem is worth less.
        is_explained = (
            explained_variants.issuperset(cell.variant.id for cell in cells)
            or rivals == every_rival
        )
        kernels = sum(durations.kernels[cell] for cell in added)
        if cell_ids and is_explained and kernels > MOST_KERNELS_AGAIN:
            continue
        if len(cell_ids | added) <= MOST_EXPLAINED:
            cell_ids |= added
    return tuple(cell for cell in plan.cells if cell.id in cell_ids)


def _explain_a_leader(
    plan: Plan,
    by_problem: Mapping[str, Sequence[Cell]],
    leaders: Sequence[frozenset[str]],
    explained: Container[str],
) -> bool:
    """Whether a leader and the baseline are both among the explained cells at some problem."""
    led = frozenset[str]().union(*leaders)
    variants_by_problem = (
        {cell.variant.id for cell in cells if cell.id in explained} for cells in by_problem.values()
    )
    return any(plan.baseline in ids and bool(ids & led) for ids in variants_by_problem)


def _largest(values: Mapping[str, float], near: float, *preferred: Container[str]) -> str:
    """The problem of the largest value; among values less than `near` below, a preferred one."""
    highest = max(values.values())
    near_highest = [problem for problem, value in values.items() if value > highest - near]
    return max(near_highest, key=lambda problem: [problem in group for group in preferred])


def _furthest(
    plan: Plan,
    by_problem: Mapping[str, Sequence[Cell]],
    durations: _Durations,
    rivals: frozenset[str],
    preferred: Sequence[Container[str]],
) -> str | None:
    """Problem where the fastest of the rivals differs most from the baseline; None: nowhere."""
    differences = {
        problem: difference
        for problem, cells in by_problem.items()
        # 0 where none of these rivals, or no baseline, was measured.
        if (difference := _difference(plan, cells, durations, rivals))
    }
    if not differences:
        return None
    largest_difference = max(differences.values())
    explained, *_ = preferred
    explained_differences = {
        problem: difference
        for problem, difference in differences.items()
        if problem in explained and _has_costly_baseline(plan, by_problem[problem], durations)
    }
    if (
        explained_differences
        and max(explained_differences.values()) > (1 - _NEAR_SHARE) * largest_difference
    ):
        return max(explained_differences, key=explained_differences.__getitem__)
    return _largest(differences, min(_NEAR, _NEAR_SHARE * largest_difference), *preferred)


def _has_costly_baseline(plan: Plan, cells: Sequence[Cell], durations: _Durations) -> bool:
    """Whether the baseline launches more than MOST_KERNELS_AGAIN kernels: ncu takes seconds."""
    of_baseline = [cell.id for cell in cells if cell.variant.id == plan.baseline]
    return sum(durations.kernels[cell] for cell in of_baseline) > MOST_KERNELS_AGAIN


def _leaders(
    plan: Plan,
    by_problem: Mapping[str, Sequence[Cell]],
    durations: _Durations,
    *,
    tunes: bool,
) -> Iterator[frozenset[str]]:
    """Sets of one leader each: the leader of all problems, then of problems without it, and so on.

    The leader is the rival at most problems, and of these the one of the least
    geometric mean of ratios to the baseline; where the run tunes, of the least worst slowdown.
    """
    score = max if tunes else sum
    remaining = dict(by_problem)
    while remaining:
        logarithms: dict[str, list[float]] = {}
        for cells in remaining.values():
            relative_to = _fastest_rival(plan, cells, durations) if tunes else plan.baseline
            for variant, logarithm in _logarithms(cells, durations, relative_to).items():
                logarithms.setdefault(variant, []).append(logarithm)
        rivals = [variant.id for variant in plan.rivals if variant.id in logarithms]
        if not rivals:
            return
        leader = min(rivals, key=lambda rival: (-len(logarithms[rival]), score(logarithms[rival])))
        yield frozenset({leader})
        remaining = {
            problem: cells
            for problem, cells in remaining.items()
            if all(cell.variant.id != leader for cell in cells)
        }


def _fastest_rival(plan: Plan, cells: Sequence[Cell], durations: _Durations) -> str | None:
    """Id of the fastest variant that is no reference; None without rivals."""
    rivals = {variant.id for variant in plan.rivals}
    candidates = [cell for cell in cells if cell.variant.id in rivals]
    return durations.fastest(candidates).variant.id if candidates else None


def many_kernels(samples: pd.DataFrame) -> frozenset[str]:
    """Ids of cells that launch more than MOST_KERNELS kernels."""
    return frozenset(cell for cell, count in _kernels(samples).items() if count > MOST_KERNELS)


def _kernels(samples: pd.DataFrame) -> dict[str, float]:
    """Largest number of kernels in a launch by cell id; NaN where the collector sees none."""
    return {str(cell): float(n) for cell, n in samples.groupby("cell")["kernels"].max().items()}


def asked_cells(plan: Plan, texts: Sequence[str]) -> tuple[Cell, ...]:
    """Cells that texts name by comma-separated ids and names of cells and problems, or `all`.

    Raises UsageError for a name that no cell and no problem has.
    """
    ids = {cell for text in texts for cell in _cell_ids_of_text(plan, text)}
    return tuple(cell for cell in plan.cells if cell.id in ids)


def _cell_ids_of_text(plan: Plan, text: str) -> Iterator[str]:
    """Ids of the cells that a text names; raises UsageError like `asked_cells`."""
    parts = text.split(",")
    while parts:
        # Names of problems have commas, too: as many parts as are a name together.
        cells_by_count = (
            (count, _cell_ids_of_name(plan, ",".join(parts[:count]).strip()))
            for count in range(len(parts), 0, -1)
        )
        count, cells = next((pair for pair in cells_by_count if pair[1]), (0, frozenset()))
        if not cells:
            raise UsageError(
                f"--explain: no cell and no problem is called '{parts[0].strip()}'.",
                remedy="`profiler plan SPEC --json -` lists them; `all` explains every cell.",
            )
        yield from cells
        parts = parts[count:]


def _cell_ids_of_name(plan: Plan, name: str) -> frozenset[str]:
    """Ids of the cell with an id, else of cells at the problems with that name; or of all cells."""
    if name == ALL:
        return frozenset(cell.id for cell in plan.cells)
    problems = {problem.id for problem in problems_called(plan.problems, name)}
    return frozenset(
        cell.id for cell in plan.cells if cell.id == name or cell.problem.id in problems
    )


def _durations(plan: Plan, samples: pd.DataFrame) -> _Durations:
    """Durations of timed cells with at most MOST_KERNELS kernels."""
    passed_over = many_kernels(samples)

    def medians(kind: SessionKind) -> dict[str, float]:
        durations = visit_times(samples, plan.cells, kind).groupby("cell")["duration_ns"].median()
        return {
            str(cell): float(median)
            for cell, median in durations.items()
            if median > 0 and cell not in passed_over
        }

    return _Durations(medians(SessionKind.TIMING), medians(SessionKind.FINAL), _kernels(samples))


def _by_problem(plan: Plan, measured: Container[str]) -> dict[str, list[Cell]]:
    by_problem: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if cell.id in measured:
            by_problem.setdefault(cell.problem.id, []).append(cell)
    return by_problem


def _answer_cells(
    plan: Plan, cells: Sequence[Cell], durations: _Durations, rivals: frozenset[str]
) -> list[Cell]:
    """The fastest rival at a problem, the baseline, and the fastest other reference."""
    groups = (rivals, {plan.baseline}, set(plan.references) - {plan.baseline})
    members = [[cell for cell in cells if cell.variant.id in group] for group in groups]
    return [durations.fastest(group) for group in members if group]


def _difference(
    plan: Plan, cells: Sequence[Cell], durations: _Durations, rivals: frozenset[str]
) -> float:
    """Absolute log ratio of the fastest rival to the baseline; 0 where one was not measured."""
    logarithms = _logarithms(cells, durations, plan.baseline)
    return abs(min((logarithms[rival] for rival in rivals if rival in logarithms), default=0.0))


def _logarithms(
    cells: Sequence[Cell], durations: _Durations, relative_to: str | None
) -> dict[str, float]:
    """Log ratios to `relative_to` at a problem, by variant id; empty where it has no cell there."""
    reference_cell = next((cell.id for cell in cells if cell.variant.id == relative_to), None)
    if reference_cell is None:
        return {}
    ratios = {cell.variant.id: durations.ratio(cell.id, reference_cell) for cell in cells}
    return {variant: math.log(ratio) for variant, ratio in ratios.items() if ratio > 0}
