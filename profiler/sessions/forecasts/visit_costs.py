"""Seconds of visits and of the set-up of problems, by journals; and what the rest will take."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from profiler.runner import protocol
from profiler.sessions.watchdog import Record

_CHECKS = (protocol.REFERENCE, protocol.CHECK, protocol.RELAUNCH, protocol.RECHECK)


@dataclass
class VisitCosts:
    """Seconds that visits took by cell, and what came before the first visit of each problem."""

    visits: dict[str, list[float]] = field(default_factory=dict)
    set_ups: dict[str, list[float]] = field(default_factory=dict)
    checks: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each of these set-ups in which programs were compared with their reference."""

    def without_checks(self) -> VisitCosts:
        """The costs of a session that compares nothing, because this one has."""
        set_ups = {
            name: [set_up - check for set_up, check in zip(seconds, self.checks[name], strict=True)]
            for name, seconds in self.set_ups.items()
        }
        return VisitCosts(
            self.visits, set_ups, {name: [0.0] * len(s) for name, s in set_ups.items()}
        )

    def add(self, other: VisitCosts) -> None:
        """Take the costs of another session as well."""
        for mine, theirs in (
            (self.visits, other.visits),
            (self.set_ups, other.set_ups),
            (self.checks, other.checks),
        ):
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
        self._recorded: float | None = None
        """Time of the last record."""
        self._checked_s = 0.0
        """Seconds of checks since the last visit."""

    def saw(self, record: Record) -> None:
        """Take one record."""
        at = record.get("time")
        if not isinstance(at, int | float):
            return
        if record.get("event") == protocol.SESSION_STARTED:
            self._since, self._problem = at, None
        elif _is_check(record) and self._recorded is not None:
            self._checked_s += at - self._recorded
        elif _is_visit(record):
            self._visit(str(record["cell"]), at, ended=record["event"] == protocol.FINISHED)
        self._recorded = at

    def _visit(self, cell: str, at: float, *, ended: bool) -> None:
        problem = self._problem_of.get(cell)
        if problem is None or self._since is None:
            return
        if problem != self._problem:  # its inputs, checks and warm-up, and what the last one left
            self.costs.set_ups.setdefault(problem, []).append(at - self._since)
            self.costs.checks.setdefault(problem, []).append(self._checked_s)
            self._checked_s = 0.0
            self._since, self._problem = at, problem
        if ended:
            self.costs.visits.setdefault(cell, []).append(at - self._since)
            self._since = at


def _is_visit(record: Record) -> bool:
    begun_or_ended = record.get("event") in (protocol.STARTED, protocol.FINISHED)
    return begun_or_ended and record.get("phase") == protocol.MEASURE and "cell" in record


def _is_check(record: Record) -> bool:
    return record.get("event") == protocol.FINISHED and record.get("phase") in _CHECKS


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
        visits = _after_the_first_visit(now.visits)
        visit_s = _expected(left, self.earlier.visits, visits, _mean(_all(visits)))
        problems = {self.problem_of[cell] for cell in left} - now.set_ups.keys()
        set_ups = _after_the_first(now.set_ups)
        earlier = self.earlier.set_ups
        set_up_s = _expected(problems, earlier, set_ups, _later_set_up(now.set_ups))
        if visit_s is None or set_up_s is None:
            return None
        return sum(left[cell] * seconds for cell, seconds in visit_s.items()) + sum(
            set_up_s.values()
        )


def _expected(
    names: Iterable[str],
    earlier: Mapping[str, list[float]],
    now: Mapping[str, list[float]],
    typical: float | None,
) -> dict[str, float] | None:
    """Seconds by name, `typical` without earlier ones; None where there is a name and nothing else.

    `now` says how many times as long as earlier it takes.
    """
    names = tuple(names)
    scale = _scale(earlier, now)
    if typical is None:
        typical = _mean(_all(earlier))
    if typical is None:
        return None if names else {}
    before = {name: statistics.median(earlier[name]) for name in names if name in earlier}
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


def _mean(seconds: Iterable[float]) -> float | None:
    """Mean, because sums are forecast; None of nothing."""
    values = list(seconds)
    return statistics.fmean(values) if values else None


_LATER_SET_UP = 0.1
"""Set-up of a later problem, by that of the first, which loads and compiles for all: 0.02 to 0.15
of it in recordings of softmax, attention and compiled operators on an H200."""


def _after_the_first(set_ups: Mapping[str, list[float]]) -> Mapping[str, list[float]]:
    """Set-ups without the first, where there are others."""
    names = list(set_ups)
    return {name: set_ups[name] for name in names[1:] or names}


def _later_set_up(set_ups: Mapping[str, list[float]]) -> float | None:
    """What the set-up of a problem to come takes, by those so far."""
    typical = _mean(_all(_after_the_first(set_ups)))
    return typical if typical is None or len(set_ups) > 1 else _LATER_SET_UP * typical


def _after_the_first_visit(visits: Mapping[str, list[float]]) -> Mapping[str, list[float]]:
    """Visits without the first of all, where there are others: the tool takes a second for it."""
    if sum(map(len, visits.values())) < 2:
        return visits
    first = next(iter(visits))
    later = {**visits, first: visits[first][1:]}
    return {cell: seconds for cell, seconds in later.items() if seconds}


def _all(costs: Mapping[str, list[float]]) -> Iterator[float]:
    for seconds in costs.values():
        yield from seconds


def duration_words(seconds: float) -> str:
    """`9 s`, `4 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
