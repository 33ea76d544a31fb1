"""What the set-ups of problems will take: by the same problem earlier, else by typical seconds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Set

from profiler.sessions.forecasts.launch_times import LaunchTimes
from profiler.sessions.forecasts.session_costs import SessionCosts, SetUp, Stage
from profiler.sessions.forecasts.typical import set_up_seconds

_OF_FIRST = 0.1
"""What a later problem takes of the first of a process, which loads and compiles for all: 0.02 to
0.15 of it in recordings of softmax, attention and compiled operators on an H200."""
_OF_FIRST_AGAIN = 0.02
"""What a later problem takes of the first where an earlier session of the run compiled it."""
_LOADING_S = 2.0
"""Most that the first check of a process takes to load what later ones find loaded."""

Kind = tuple[Stage, bool]
"""A stage, and whether its problem was prepared by an earlier session of the run."""


class SetUps:
    """Seconds of set-ups to come, by earlier sessions and by what this one took so far."""

    def __init__(self, launches: LaunchTimes) -> None:
        self._launches = launches
        self._earlier: dict[Kind, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Seconds per cell by problem, of problems that were not the first of a process."""
        self._first: dict[Stage, list[float]] = defaultdict(list)
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
                self._excess[kind] = max(0.0, _lasting_seconds(kind, set_up) - expected_s)
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


def _lasting_seconds(kind: Kind, first: SetUp) -> float:
    """What a later problem would take, by the first of a process."""
    stage, again = kind
    if stage is Stage.PREPARE:
        return first.seconds * (_OF_FIRST_AGAIN if again else _OF_FIRST)
    return first.seconds - _LOADING_S
