"""Seconds of visits and of the set-up of problems, by journals; and what the rest will take."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from profiler.runner import protocol
from profiler.sessions.watchdog import Record


@dataclass
class VisitCosts:
    """Seconds that visits took by cell, and what came before the first visit of each problem."""

    visits: dict[str, list[float]] = field(default_factory=dict)
    set_ups: dict[str, list[float]] = field(default_factory=dict)

    def add(self, other: VisitCosts) -> None:
        """Take the costs of another session as well."""
        for mine, theirs in ((self.visits, other.visits), (self.set_ups, other.set_ups)):
            for name, seconds in theirs.items():
                mine.setdefault(name, []).extend(seconds)


class CostReader:
    """Collects the costs of one session from the records of its journal, as they come."""

    def __init__(self, problem_of: Mapping[str, str]) -> None:
        self.costs = VisitCosts()
        self._problem_of = problem_of
        """Cell id → problem id."""
        self._since: float | None = None
        """When the last visit ended, or the session began."""
        self._problem: str | None = None
        """The problem of that visit."""

    def saw(self, record: Record) -> None:
        """Take one record."""
        at = record.get("time")
        if not isinstance(at, int | float):
            return
        if record.get("event") == protocol.SESSION_STARTED:
            self._since, self._problem = at, None
        elif _is_visit(record):
            self._visit(str(record["cell"]), at, ended=record["event"] == protocol.FINISHED)

    def _visit(self, cell: str, at: float, *, ended: bool) -> None:
        problem = self._problem_of.get(cell)
        if problem is None or self._since is None:
            return
        if problem != self._problem:  # its inputs, checks and warm-up, and what the last one left
            self.costs.set_ups.setdefault(problem, []).append(at - self._since)
            self._since, self._problem = at, problem
        if ended:
            self.costs.visits.setdefault(cell, []).append(at - self._since)
            self._since = at


def _is_visit(record: Record) -> bool:
    begun_or_ended = record.get("event") in (protocol.STARTED, protocol.FINISHED)
    return begun_or_ended and record.get("phase") == protocol.MEASURE and "cell" in record


def read_costs(records: Iterable[Record], problem_of: Mapping[str, str]) -> VisitCosts:
    """Costs of one session by its journal."""
    reader = CostReader(problem_of)
    for record in records:
        reader.saw(record)
    return reader.costs


@dataclass(frozen=True)
class Rest:
    """Forecasts what is left of a session: by earlier costs of its cells, where there are some.

    Those are scaled by what the visits so far took in comparison. Cells without any take as long as
    the visits so far.
    """

    problem_of: Mapping[str, str]
    earlier: VisitCosts

    def seconds(self, remaining: Mapping[str, int], now: VisitCosts) -> float | None:
        """Seconds for the `remaining` visits by cell; None where nothing is known yet."""
        left = {cell: visits for cell, visits in remaining.items() if visits > 0}
        visit_s = self._expected(left, self.earlier.visits, now.visits)
        problems = {self.problem_of[cell] for cell in left} - now.set_ups.keys()
        set_up_s = self._expected(problems, self.earlier.set_ups, _after_the_first(now.set_ups))
        if visit_s is None or set_up_s is None:
            return None
        visits = sum(left[cell] * seconds for cell, seconds in visit_s.items())
        return visits + sum(set_up_s.values())

    @staticmethod
    def _expected(
        names: Iterable[str],
        earlier: Mapping[str, list[float]],
        now: Mapping[str, list[float]],
    ) -> dict[str, float] | None:
        """Seconds by name; None where there is a name and neither has anything."""
        names = tuple(names)
        scale = _scale(earlier, now)
        seconds = [*_all(now)] or [*_all(earlier)]
        if not seconds:
            return None if names else {}
        before = {name: statistics.median(earlier[name]) for name in names if name in earlier}
        typical = statistics.fmean(seconds)  # because sums are forecast
        return {name: before[name] * scale if name in before else typical for name in names}


def _scale(earlier: Mapping[str, list[float]], now: Mapping[str, list[float]]) -> float:
    """How many times as long as earlier it takes now; 1 where nothing has taken both.

    By medians: the first visit of a session can take half a second where the others take 15 ms.
    """
    ratios = [
        statistics.median(now[name]) / before
        for name in now.keys() & earlier.keys()
        if (before := statistics.median(earlier[name])) > 0
    ]
    return statistics.median(ratios) if ratios else 1.0


def _after_the_first(set_ups: Mapping[str, list[float]]) -> Mapping[str, list[float]]:
    """Set-ups without the first, where there are others: it loads and compiles for all."""
    names = list(set_ups)
    return {name: set_ups[name] for name in names[1:] or names}


def _all(costs: Mapping[str, list[float]]) -> Iterator[float]:
    for seconds in costs.values():
        yield from seconds


def duration_words(seconds: float) -> str:
    """`9 s`, `4 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
