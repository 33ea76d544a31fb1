"""Forecast of the rest of a session: seconds of its visits and of its problems' set-ups."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from profiler.model import Cell
from profiler.sessions.forecasts.session_costs import (
    DeclaredWork,
    PastSession,
    SessionCosts,
    TypicalVisit,
    launch_seconds,
    set_up_seconds,
)

_TELLING_S = 5e-4
"""Least seconds of a launch that shows the speed of this GPU and its kernels."""


class LaunchTimes:
    """Seconds of a launch by cell, from sessions with `warmups` launches in a warm-up."""

    def __init__(
        self, sessions: Iterable[SessionCosts], problem_of: Mapping[str, str], warmups: int
    ) -> None:
        self._problem_of = problem_of
        self._work: dict[str, DeclaredWork] = {}
        self._seconds: dict[str, float] = {}
        """Seconds of the shortest warm-ups, by cell."""
        for session in sessions:
            self._work.update(session.work)
            for cell, seconds in session.warm_ups.items() if warmups else ():
                self._seconds[cell] = min(seconds / warmups, self._seconds.get(cell, seconds))
        declared_s = {cell: self._declared(cell) for cell in self._seconds}
        ratios = [self._seconds[cell] / s for cell, s in declared_s.items() if s >= _TELLING_S]
        self.slowness = statistics.median(ratios) if ratios else 1.0
        """Median ratio of a launch's duration on this GPU to the duration by its declared work."""
        excesses_s = (self._seconds[cell] - self.slowness * s for cell, s in declared_s.items())
        self._common_s = max(min(excesses_s, default=0.0), 0.0)
        """Least seconds that a launch takes beyond its declared work."""

    def _declared(self, cell: str) -> float:
        return launch_seconds(self.work(self._problem_of[cell]))

    def work(self, problem: str) -> DeclaredWork:
        """Declared FLOPs and bytes of a launch at a problem; 0 where none are declared."""
        return self._work.get(problem, DeclaredWork(0.0, 0.0))

    def seconds_of(self, cell: str) -> float:
        """Seconds of a launch of a cell; 0 where neither a warm-up nor declared work is known."""
        if cell in self._seconds:
            return self._seconds[cell]
        return self._common_s + self.slowness * self._declared(cell)


_OF_FIRST = 0.08
"""What a later problem takes of the first of a process, which loads and compiles for all: 0.02 to
0.15 of it in recordings of softmax, attention and compiled operators on an H200."""
_LOADING_S = 2.0
"""Most seconds of one-time loading in the first checks of a process."""
_LEAST_OVERHEAD = 0.02
"""Share of a visit that is overhead at least, however long a launch seems to take: of a kernel of
25 ms CUPTI's is 0.025."""


class RestForecast:
    """Forecasts the rest of a session.

    A visit takes an overhead, which grows with the number of kernels, and its launches their own
    time. Overheads go by the same cell in the most similar session, else by the variant at other
    problems, and follow what visits take now. What a problem takes beside its visits (its inputs,
    its cells prepared and checked) goes by the same problem earlier, else by typical seconds, and
    follows the problems of now likewise.
    """

    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        cells: Iterable[Cell],
        *,
        visit: TypicalVisit,
        past_sessions: Sequence[PastSession] = (),
        checked: Set[str] = frozenset(),
        warmups: int = 0,
        rechecks: bool = True,
    ) -> None:
        cells = tuple(cells)
        self._variant_of = {cell.id: cell.variant.id for cell in cells}
        self._problem_of = {cell.id: cell.problem.id for cell in cells}
        self._visit = visit
        self._past = sorted(past_sessions, key=lambda session: session.likeness)
        self._checked = checked
        """Cells that this run has checked: they are not checked again."""
        self._warmups = warmups
        """Launches of a warm-up."""
        self._checks = 1 + rechecks
        """How many times a cell is compared with its reference."""
        self._overheads = self._earlier_overheads()
        self._first_set_ups: list[float] = []
        """Seconds of earlier problems that were the first of a process."""
        self._set_ups: dict[tuple[str, bool], list[float]] = defaultdict(list)
        """Seconds per cell of later problems, by problem and whether cells were checked there."""
        for session in self._past:
            for problem, set_up in session.costs.set_ups.items():
                if set_up.is_first:
                    self._first_set_ups.append(set_up.seconds)
                else:
                    earlier = self._set_ups[problem, bool(set_up.checked)]
                    earlier.append(set_up.seconds / len(set_up.cells))

    @property
    def has_earlier(self) -> bool:
        """Whether an earlier session under the same tool has overheads of visits."""
        return bool(self._overheads)

    def seconds(self, remaining: Mapping[str, int], current_costs: SessionCosts) -> float:
        """Seconds of the `remaining` visits by cell, in the order of problems.

        By typical visits where neither this session nor an earlier one has some.
        """
        if not any(remaining.values()):
            return 0.0
        launches = self._launch_times(current_costs)
        return self._visits_s(remaining, current_costs, launches) + self._set_ups_s(
            remaining, current_costs, launches
        )

    def _launch_times(self, current_costs: SessionCosts | None = None) -> LaunchTimes:
        sessions = [session.costs for session in self._past]
        return LaunchTimes(
            [*sessions, current_costs] if current_costs else sessions,
            self._problem_of,
            self._warmups,
        )

    # ---- visits ----

    def _earlier_overheads(self) -> dict[str, float]:
        """Overheads by cell, each from the most similar session under the tool with that cell."""
        launches = self._launch_times()
        overheads: dict[str, float] = {}
        for session in self._past:
            if session.same_tool:
                overheads |= self._overheads_of(session.costs, session.visit, launches)
        return overheads

    def _overheads_of(
        self, costs: SessionCosts, visit: TypicalVisit, launches: LaunchTimes
    ) -> dict[str, float]:
        """Overheads by cell, as multiples of the session's typical overhead."""
        return {
            cell: _overhead(statistics.median(seconds), visit, launches.seconds_of(cell))
            for cell, seconds in costs.typical_visits.items()
            if cell in self._problem_of
        }

    def _visits_s(
        self, remaining: Mapping[str, int], current_costs: SessionCosts, launches: LaunchTimes
    ) -> float:
        seconds_by_cell = current_costs.typical_visits
        unvisited = [
            cell for cell, visits in remaining.items() if visits and cell not in seconds_by_cell
        ]
        overheads = self._expected_overheads(unvisited, current_costs, launches)
        visit_s = {
            cell: overheads[cell] * self._visit.overhead_s
            + self._visit.launches * launches.seconds_of(cell)
            for cell in unvisited
        } | {cell: statistics.median(seconds) for cell, seconds in seconds_by_cell.items()}
        return sum(visits * visit_s[cell] for cell, visits in remaining.items() if visits)

    def _expected_overheads(
        self, cells: Iterable[str], current_costs: SessionCosts, launches: LaunchTimes
    ) -> dict[str, float]:
        """Expected overheads by cell, for cells that this session has not visited yet."""
        current_overheads, earlier_overheads = (
            self._overheads_of(current_costs, self._visit, launches),
            self._overheads,
        )
        ratios = [
            current_overheads[cell] / earlier_overheads[cell]
            for cell in current_overheads
            if earlier_overheads.get(cell)
        ]
        ratio = statistics.median(ratios) if ratios else 1.0
        known_overheads = {
            cell: ratio * overhead for cell, overhead in earlier_overheads.items()
        } | current_overheads
        by_variant: dict[str, list[float]] = defaultdict(list)
        for cell, overhead in known_overheads.items():
            by_variant[self._variant_of[cell]].append(overhead)
        means = {variant: statistics.fmean(values) for variant, values in by_variant.items()}
        typical = statistics.fmean(means.values()) if means else 1.0
        return {
            cell: known_overheads.get(cell, means.get(self._variant_of[cell], typical))
            for cell in cells
        }

    # ---- what problems take beside their visits ----

    def _set_ups_s(
        self, remaining: Mapping[str, int], current_costs: SessionCosts, launches: LaunchTimes
    ) -> float:
        """Seconds of set-ups of the problems that this session has not reached yet."""
        to_come: dict[str, list[str]] = defaultdict(list)
        for cell, visits in remaining.items():
            if visits and self._problem_of[cell] not in current_costs.set_ups:
                to_come[self._problem_of[cell]].append(cell)
        share, excess_s = self._deviation_from_expected(current_costs, launches)
        seconds = {
            problem: share * self._expected_set_up(problem, len(cells), unchecked, launches)
            + excess_s
            for problem, cells in to_come.items()
            for unchecked in [sum(cell not in self._checked for cell in cells)]
        }
        if seconds and not current_costs.visit_count and self._first_set_ups:
            first = next(iter(seconds))
            seconds[first] = max(seconds[first], statistics.median(self._first_set_ups))
        return sum(seconds.values())

    def _deviation_from_expected(
        self, current_costs: SessionCosts, launches: LaunchTimes
    ) -> tuple[float, float]:
        """Ratio of this session's set-ups to the expected ones, at most 1, and excess seconds each.

        Shorter set-ups are shorter by the same ratio at every problem; longer ones are longer by
        as many seconds, because few cells may share a cost that many cells shared before.
        """
        pairs: list[tuple[float, float]] = []
        excess_s = 0.0
        for problem, set_up in current_costs.set_ups.items():
            counts = len(set_up.cells), len(set_up.checked)
            expected_s = self._expected_set_up(problem, *counts, launches)
            if not set_up.is_first:
                pairs.append((set_up.seconds, expected_s))
            elif all(checks != bool(set_up.checked) for _, checks in self._set_ups):
                lasting_s = _OF_FIRST * (set_up.seconds - set_up.checks_s)
                lasting_s += max(0.0, set_up.checks_s - _LOADING_S)
                excess_s = max(0.0, lasting_s - expected_s)
        if not pairs:
            return 1.0, excess_s
        excess_s = max(0.0, statistics.median(took_s - expected_s for took_s, expected_s in pairs))
        # The newest problem goes on: it may be checked once more.
        took_s, expected_s = (sum(column) for column in zip((0.0, 0.0), *pairs[:-1], strict=True))
        return min(1.0, took_s / expected_s) if expected_s else 1.0, excess_s

    def _expected_set_up(
        self, problem: str, cells: int, unchecked: int, launches: LaunchTimes
    ) -> float:
        """Seconds of a set-up of so many cells: by earlier ones at the problem, else typical."""
        if earlier := self._set_ups.get((problem, unchecked > 0)):
            return cells * statistics.median(earlier)
        work = launches.work(problem)
        return launches.slowness * set_up_seconds(work, cells, unchecked * self._checks)


def _overhead(seconds: float, visit: TypicalVisit, launch_s: float) -> float:
    """Overhead of a visit, as a multiple of the typical overhead of its session."""
    overhead_s = max(seconds - visit.launches * launch_s, _LEAST_OVERHEAD * seconds)
    return overhead_s / visit.overhead_s
