"""What the rest of a session will take: its visits, and the set-ups of its problems."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from profiler.model import Cell
from profiler.sessions.forecasts.session_costs import (
    DeclaredWork,
    PastSession,
    SessionCosts,
    SetUp,
    SetUpStage,
    TypicalVisit,
    launch_seconds,
    set_up_seconds,
)

_TELLING_S = 5e-4
"""A launch that takes as long tells how fast this GPU and its kernels are."""


class LaunchTimes:
    """Seconds of a launch by cell, from sessions with warm-ups of so many launches."""

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
        declared = {cell: self._declared(cell) for cell in self._seconds}
        ratios = [self._seconds[cell] / s for cell, s in declared.items() if s >= _TELLING_S]
        self.slowness = statistics.median(ratios) if ratios else 1.0
        """How many times as long as declared work suggests this GPU takes."""
        rests = (self._seconds[cell] - self.slowness * s for cell, s in declared.items())
        self._common_s = max(min(rests, default=0.0), 0.0)
        """Least of what launches take beyond their declared work."""

    def _declared(self, cell: str) -> float:
        return launch_seconds(self.work(self._problem_of[cell]))

    def work(self, problem: str) -> DeclaredWork:
        """FLOPs and bytes that are declared of a launch at a problem; 0 where none are."""
        return self._work.get(problem, DeclaredWork(0.0, 0.0))

    def of(self, cell: str) -> float:
        """Seconds of a launch of a cell; 0 where nothing tells."""
        if cell in self._seconds:
            return self._seconds[cell]
        return self._common_s + self.slowness * self._declared(cell)


_OF_FIRST = 0.08
"""What a later problem takes of the first of a process, which loads and compiles for all: 0.02 to
0.15 of it in recordings of softmax, attention and compiled operators on an H200."""
_LOADING_S = 2.0
"""Most that the first check of a process takes to load what later ones find loaded."""

Kind = tuple[SetUpStage, bool]
"""A stage, and whether its problem was prepared by an earlier session of the run."""


class SetUps:
    """Seconds of set-ups to come, by earlier sessions and by what this one took so far."""

    def __init__(self, launches: LaunchTimes) -> None:
        self._launches = launches
        self._earlier: dict[Kind, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Seconds per cell by problem, of problems that were not the first of a process."""
        self._first: dict[SetUpStage, list[float]] = defaultdict(list)
        """Seconds at the first problems of processes."""
        self._scale: dict[Kind, float] = {}
        """Share of what is expected that set-ups take now."""
        self._excess: dict[Kind, float] = {}
        """Seconds of a problem beyond what is expected: of compiling, or of a slow reference."""

    def add(self, session: SessionCosts, prepared: Set[str]) -> None:
        """Take a session that is over; `prepared`: problems that its run had prepared before."""
        for kind, problem, set_up in _set_ups(session, prepared):
            if set_up.is_first:
                self._first[kind[0]].append(set_up.seconds)
            else:
                self._earlier[kind][problem].append(set_up.seconds / len(set_up.cells))

    def follow(self, now: SessionCosts, prepared: Set[str]) -> None:
        """Take what the session that goes on took so far.

        What takes less than expected takes the same share of it at every problem; what takes more
        does so by as many seconds, because few cells may share what was shared by many.
        """
        took: dict[Kind, list[float]] = defaultdict(list)
        expected: dict[Kind, list[float]] = defaultdict(list)
        for kind, problem, set_up in _set_ups(now, prepared):
            expected_s = self._expected(kind, problem, len(set_up.cells))
            if not set_up.is_first:
                took[kind].append(set_up.seconds)
                expected[kind].append(expected_s)
            elif not self._earlier[kind]:
                self._excess[kind] = max(0.0, _lasting_seconds(kind[0], set_up) - expected_s)
        for kind, seconds in took.items():
            excess_s = sum(seconds) - sum(expected[kind])
            self._excess[kind] = max(0.0, excess_s / len(seconds))
            self._scale[kind] = 1.0 if excess_s >= 0 else sum(seconds) / sum(expected[kind])

    def seconds(self, kind: Kind, problem: str, cells: int, *, is_first: bool = False) -> float:
        """Seconds of a stage for the cells of a problem; `is_first`: the first of a process."""
        scale, excess_s = self._scale.get(kind, 1.0), self._excess.get(kind, 0.0)
        seconds = scale * self._expected(kind, problem, cells) + excess_s
        first = self._first[kind[0]] if is_first else []
        return max(seconds, statistics.median(first)) if first else seconds

    def _expected(self, kind: Kind, problem: str, cells: int) -> float:
        """Seconds of a stage by earlier ones at the same problem, else typical ones."""
        if earlier := self._earlier[kind].get(problem):
            return cells * statistics.median(earlier)
        typical_s = set_up_seconds(kind[0], self._launches.work(problem), cells)
        return typical_s * self._launches.slowness


def _set_ups(session: SessionCosts, prepared: Set[str]) -> Iterator[tuple[Kind, str, SetUp]]:
    for stage, by_problem in session.set_ups.items():
        for problem, set_up in by_problem.items():
            yield (stage, problem in prepared), problem, set_up


def _lasting_seconds(stage: SetUpStage, first: SetUp) -> float:
    """What a later problem would take, by the first of a process."""
    if stage is SetUpStage.PREPARE:
        return first.seconds * _OF_FIRST
    return first.seconds - _LOADING_S


_LEAST_OVERHEAD = 0.2
"""Share of a visit that is overhead at least, however long a launch seems to take."""


class Rest:
    """Forecasts what is left of a session.

    A visit takes an overhead, which grows with the number of kernels, and its launches their own
    time. Overheads go by the same cell in the most similar session, else by the variant at other
    problems, and follow what visits take now. Set-ups go by the same problem earlier, else by
    typical seconds, and follow those of now likewise.
    """

    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        cells: Iterable[Cell],
        *,
        visit: TypicalVisit,
        past: Sequence[PastSession] = (),
        checked: Set[str] = frozenset(),
        warmups: int = 0,
        rechecks: bool = True,
    ) -> None:
        cells = tuple(cells)
        self._variant_of = {cell.id: cell.variant.id for cell in cells}
        self._problem_of = {cell.id: cell.problem.id for cell in cells}
        self._visit = visit
        self._past = sorted(past, key=lambda session: session.likeness)
        self._checked = checked
        """Cells that this run has checked: they are not checked again."""
        self._warmups = warmups
        """Launches of a warm-up."""
        self._rechecks = rechecks
        self._overheads = self._earlier_overheads()

    @property
    def has_earlier(self) -> bool:
        """Whether an earlier session under the same tool has told what visits take."""
        return bool(self._overheads)

    def seconds(self, remaining: Mapping[str, int], now: SessionCosts) -> float:
        """Seconds until the last of the `remaining` visits by cell, in the order of problems.

        Typical ones where neither this session nor an earlier one has told.
        """
        if not any(remaining.values()):
            return 0.0
        launches = self._launch_times(now)
        return self._visits_s(remaining, now, launches) + self._set_ups_s(remaining, now, launches)

    def _launch_times(self, now: SessionCosts | None = None) -> LaunchTimes:
        sessions = [session.costs for session in self._past]
        return LaunchTimes([*sessions, now] if now else sessions, self._problem_of, self._warmups)

    # ---- visits ----

    def _earlier_overheads(self) -> dict[str, float]:
        """Overheads by cell, each of the most similar session under the tool that has it."""
        launches = self._launch_times()
        overheads: dict[str, float] = {}
        for session in self._past:
            if session.same_tool:
                overheads |= self._overheads_of(session.costs, session.visit, launches)
        return overheads

    def _overheads_of(
        self, costs: SessionCosts, visit: TypicalVisit, launches: LaunchTimes
    ) -> dict[str, float]:
        """Overheads by cell: how many times the typical one of the session."""
        return {
            cell: _overhead(statistics.median(seconds), visit, launches.of(cell))
            for cell, seconds in costs.typical_visits.items()
            if cell in self._problem_of
        }

    def _visits_s(
        self, remaining: Mapping[str, int], now: SessionCosts, launches: LaunchTimes
    ) -> float:
        seen = now.typical_visits
        new = [cell for cell, visits in remaining.items() if visits and cell not in seen]
        overheads = self._expected_overheads(new, now, launches)
        visit_s = {
            cell: overheads[cell] * self._visit.overhead_s
            + self._visit.launches * launches.of(cell)
            for cell in new
        } | {cell: statistics.median(seconds) for cell, seconds in seen.items()}
        return sum(visits * visit_s[cell] for cell, visits in remaining.items() if visits)

    def _expected_overheads(
        self, cells: Iterable[str], now: SessionCosts, launches: LaunchTimes
    ) -> dict[str, float]:
        """Overheads of cells that this session has not visited yet."""
        seen, earlier = self._overheads_of(now, self._visit, launches), self._overheads
        both = [cell for cell in seen.keys() & earlier.keys() if earlier[cell] > 0]
        ratios = [seen[cell] / earlier[cell] for cell in both]
        ratio = statistics.median(ratios) if ratios else 1.0
        known = {cell: ratio * overhead for cell, overhead in earlier.items()}
        new = {cell: seen[cell] for cell in seen.keys() - earlier.keys()}
        by_variant = self._means_by_variant(known) | self._means_by_variant(new)
        typical = statistics.fmean(by_variant.values()) if by_variant else 1.0
        return {
            cell: known.get(cell, by_variant.get(self._variant_of[cell], typical)) for cell in cells
        }

    def _means_by_variant(self, overheads: Mapping[str, float]) -> dict[str, float]:
        by_variant: dict[str, list[float]] = defaultdict(list)
        for cell, overhead in overheads.items():
            by_variant[self._variant_of[cell]].append(overhead)
        return {variant: statistics.fmean(values) for variant, values in by_variant.items()}

    # ---- set-ups ----

    def _set_ups_s(
        self, remaining: Mapping[str, int], now: SessionCosts, launches: LaunchTimes
    ) -> float:
        prepared = self._problems(self._checked)
        set_ups = SetUps(launches)
        for session in self._past:
            set_ups.add(session.costs, self._problems(session.checked_before))
        set_ups.follow(now, prepared)
        first = None if now.made else self._problem_of[next(iter(remaining))]
        return sum(
            set_ups.seconds((stage, problem in prepared), problem, cells, is_first=problem == first)
            for stage, problem, cells in self._stages_left(remaining, now)
        )

    def _problems(self, cells: Iterable[str]) -> set[str]:
        return {self._problem_of[cell] for cell in cells}

    def _stages_left(
        self, remaining: Mapping[str, int], now: SessionCosts
    ) -> Iterator[tuple[SetUpStage, str, int]]:
        """Stages that come before the last visit, each with its problem and number of cells."""
        checks = now.set_ups[SetUpStage.CHECK].items()
        unchecked = {problem: len(check.cells) for problem, check in checks}
        new: dict[str, list[str]] = defaultdict(list)
        for cell, visits in remaining.items():
            if visits and self._problem_of[cell] not in now.set_ups[SetUpStage.PREPARE]:
                new[self._problem_of[cell]].append(cell)
        for problem, cells in new.items():
            yield SetUpStage.PREPARE, problem, len(cells)
            if count := sum(cell not in self._checked for cell in cells):
                yield SetUpStage.CHECK, problem, count
                unchecked[problem] = count
        last = self._problem_of[tuple(remaining)[-1]]
        for problem, count in unchecked.items() if self._rechecks else ():
            if problem != last and problem not in now.set_ups[SetUpStage.RECHECK]:
                yield SetUpStage.RECHECK, problem, count


def _overhead(seconds: float, visit: TypicalVisit, launch_s: float) -> float:
    """Overhead of a visit that took so long, in typical overheads of its session."""
    overhead_s = max(seconds - visit.launches * launch_s, _LEAST_OVERHEAD * seconds)
    return overhead_s / visit.overhead_s
