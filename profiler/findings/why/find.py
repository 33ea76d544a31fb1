"""The why of a run: its explained cells, the pairs that the answer is about, and idle devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.ranking import Ranking
from profiler.findings.timelines.cells import Phase
from profiler.findings.why.cells import CellWhy, cell_why
from profiler.findings.why.pairs import PairWhy
from profiler.model import FLUSHED_PER_LAUNCH, ON_ZEROS, Cell, Problem


@dataclass(frozen=True, eq=False)
class RunWhy:
    """Explained cells and pairs of a run."""

    cells: Mapping[str, CellWhy]
    """By id of each explained cell."""
    pairs: tuple[PairWhy, ...]
    """A pair for each explained problem, or each step of a ladder; that of the answer first."""

    @property
    def answer(self) -> PairWhy | None:
        """The pair that the answer is about; None where it was not explained."""
        return self.pairs[0] if self.pairs else None


FOUND: WeakKeyDictionary[Findings, RunWhy] = WeakKeyDictionary()
"""Explanations made already: only some readers of findings ask, and these ask several times."""


def find_why(findings: Findings) -> RunWhy:
    """The why of every explained cell, and of the pairs of each problem that has any."""
    if findings not in FOUND:
        FOUND[findings] = _run_why(findings)
    return FOUND[findings]


def _run_why(findings: Findings) -> RunWhy:
    cells = {cell.id: why for cell in findings.programs.cells if (why := _why(findings, cell))}
    pairs = _ladder_pairs(findings, cells) if findings.ladder else _answer_pairs(findings, cells)
    return RunWhy(cells, tuple(pairs))


def pair_why(
    findings: Findings, cells: Mapping[str, CellWhy], cell: Cell, against: Cell
) -> PairWhy:
    """The why of two explained cells, with the verdict on them; `cells`: by id of the measured one.

    What has the machine code of another is what was measured and explained of that.
    """
    return PairWhy(
        cell=cell,
        against=against,
        verdict=findings.verdicts.verdict_on(cell, against),
        first=cells[findings.programs.source(cell)],
        second=cells[findings.programs.source(against)],
        timed_ns=findings.verdicts.timed(cell, against),
        clocks_on_zeros=_clocks_on_zeros(findings, cell, against),
        flushed_per_launch=findings.report.environment.cache_control == FLUSHED_PER_LAUNCH,
    )


def _clocks_on_zeros(findings: Findings, cell: Cell, against: Cell) -> tuple[float, float]:
    """SM clocks of both at the same problem with zeros in its inputs; NaN without it."""
    on_zeros = {**cell.problem.params, **ON_ZEROS}
    for problem in findings.programs.problems:
        if problem.params == on_zeros:
            first, second = (
                findings.numbers.at(timed_cell.variant, problem, "sm_clock_ghz").median
                for timed_cell in (cell, against)
            )
            return first, second
    return math.nan, math.nan


def _why(findings: Findings, cell: Cell) -> CellWhy | None:
    launches = findings.report.details.profiles.get(findings.programs.source(cell))
    if launches is None or not findings.programs.correct(cell):
        return None
    environment = findings.report.environment
    return cell_why(
        launches,
        compute_capability=environment.compute_capability,
        least_bytes=findings.programs.status(cell).facts.bytes,
        practical=findings.report.measured.practical_roofs,
        highest_clock_ghz=(environment.max_sm_clock_mhz or math.nan) / 1e3,
    )


def _answer_pairs(findings: Findings, cells: Mapping[str, CellWhy]) -> Iterator[PairWhy]:
    """Pairs at each explained problem: the best with the baseline, then with the best reference.

    First come problems of the variant to recommend, and among them those where a difference from
    the baseline is shown, and then the one that takes longest.
    """

    def order(pairs: list[PairWhy]) -> tuple[bool, bool, bool]:
        first = pairs[0]
        recommended = first.cell.variant == findings.ranking.best
        longest = first.cell.problem == findings.ranking.largest_problem
        return (not recommended, not first.shows_difference, not longest)

    at_problems = [
        pairs
        for problem in findings.programs.problems
        if (pairs := _problem_pairs(findings, cells, problem))
    ]
    for pairs in sorted(at_problems, key=order):
        yield from pairs


def _problem_pairs(
    findings: Findings, cells: Mapping[str, CellWhy], problem: Problem
) -> list[PairWhy]:
    """The best of a problem against the baseline, then against the best reference, if explained."""
    best = _best_at(findings.ranking, cells, problem)
    if best is None:
        return []
    opponents = _opponents_at(findings.numbers, cells, problem, best)
    return [pair_why(findings, cells, best, opponent) for opponent in opponents]


def _best_at(ranking: Ranking, cells: Mapping[str, CellWhy], problem: Problem) -> Cell | None:
    """The variant to recommend where it was explained, else the winner among the rivals."""
    winner = ranking.rival_winners.get(problem.id) or ranking.winners.get(problem.id)
    candidates = (ranking.programs.at(ranking.best, problem), winner.cell if winner else None)
    return next((cell for cell in candidates if cell is not None and cell.id in cells), None)


def _opponents_at(
    numbers: CellNumbers, cells: Mapping[str, CellWhy], problem: Problem, best: Cell
) -> list[Cell]:
    """The baseline, and the fastest of the other explained references."""
    baseline = numbers.programs.baseline.id if numbers.programs.baseline else None
    explained = [
        cell
        for variant in numbers.programs.references
        if (cell := numbers.programs.by_place.get((variant, problem.id))) is not None
        and cell.id in cells
        and cell.id != best.id
    ]
    fastest = sorted(
        [cell for cell in explained if cell.variant.id != baseline],
        key=lambda cell: numbers.duration(cell).median,
    )
    return [*(cell for cell in explained if cell.variant.id == baseline), *fastest[:1]]


def _ladder_pairs(findings: Findings, cells: Mapping[str, CellWhy]) -> Iterator[PairWhy]:
    """The last version against the baseline, then each step, at the problem that was explained."""
    problem = next(
        (
            problem
            for problem in findings.programs.problems
            if any(
                (cell := findings.programs.at(rung.variant, problem)) and cell.id in cells
                for rung in findings.ladder
            )
        ),
        None,
    )
    if problem is None:
        return
    yield from _against_baseline(findings, cells, problem)
    for rung in findings.ladder:
        cell = findings.programs.at(rung.variant, problem)
        before = findings.programs.at(rung.before, problem)
        if cell and before and cell.id in cells and before.id in cells:
            yield pair_why(findings, cells, cell, before)


def _against_baseline(
    findings: Findings, cells: Mapping[str, CellWhy], problem: Problem
) -> Iterator[PairWhy]:
    best = _best_at(findings.ranking, cells, problem)
    baseline = findings.programs.at(findings.programs.baseline, problem)
    if best and baseline and baseline.id in cells and best.id != baseline.id:
        yield pair_why(findings, cells, best, baseline)


# ---- idle time of the device ---------------------------------------------------------------------

BUSIER = 0.05
"""Share of the time by which a device must be busier, for that to tell why."""


@dataclass(frozen=True)
class IdleDifference:
    """A unit (a launch, or a step in it) of the best and of the baseline, by their timelines."""

    cell: Cell
    against: Cell
    unit: Phase
    baseline_unit: Phase


def idle_difference(findings: Findings) -> IdleDifference | None:
    """The difference at the problem that takes longest.

    None without both timelines, and where the best keeps the device busier by less than BUSIER.
    """
    programs, leader = findings.programs, findings.ranking.leader
    problem = findings.ranking.largest_problem
    cell = programs.at(leader.variant if leader else None, problem)
    against = programs.at(programs.baseline, problem)
    if cell is None or against is None:
        return None
    unit, baseline_unit = _unit(findings, cell), _unit(findings, against)
    if unit is None or baseline_unit is None or unit.busy_share - baseline_unit.busy_share < BUSIER:
        return None
    return IdleDifference(cell, against, unit, baseline_unit)


def _unit(findings: Findings, cell: Cell) -> Phase | None:
    """The whole unit of a cell's timeline; None without one, or without a busy share."""
    timeline = findings.timelines.by_cell.get(cell.id)
    unit = timeline.whole_unit if timeline else None
    return unit if unit is not None and math.isfinite(unit.busy_share) else None
