"""Seconds of a session's visits and of its problems' set-ups: by its journal, else typical ones."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from profiler.collect.registry import COLLECTORS
from profiler.metrics.passes import ncu_launch_seconds, runs_of_kernel
from profiler.model import SessionKind, SessionPlan
from profiler.planning.spec import Collect
from profiler.runner import protocol
from profiler.sessions.watchdog import Record

_FLOPS_PER_S, _BYTES_PER_S = 3e14, 2.5e12
"""Rates of good kernels on an H200: attention and a copy."""
_LAUNCHED_S = 0.02
"""Seconds of a visit on an H200 beside what ncu takes of a kernel that takes no time itself: the
kernel, checks and inputs. 5,936 timing visits of attention took 230 s, 16 ms of each ncu's."""
_CALLED_S = 5e-3
"""Seconds of a visit without a tool around the runner, beside what its collector takes: 4 to 6 ms
in eight recordings of libraries on an H200."""
_ONCE_S = 1.0
"""Most that a tool takes once with a first visit: ncu 0.5 to 0.7 s on an H200, CUPTI up to 0.5."""
_TIMELINE_S = 0.2
"""Seconds of a visit of some ten launches, its share of export and cleaning included: a guess."""


class TypicalVisit(NamedTuple):
    """Typical duration of a visit on an H200: its overhead, and a number of launches."""

    overhead_s: float
    """Seconds of a visit whose kernel takes no time."""
    launches: float
    """Number of launches whose duration adds to the overhead."""


def typical_visit(session: SessionPlan, collect: Collect) -> TypicalVisit:
    """Typical visit of a session."""
    tool = COLLECTORS[session.collector]
    if session.kind is SessionKind.TIMELINE:
        return TypicalVisit(_TIMELINE_S, collect.timeline.launches)
    if not tool.in_journal:
        launch_s = ncu_launch_seconds(session.metrics)
        return TypicalVisit(_LAUNCHED_S + launch_s, runs_of_kernel(session.metrics))
    visit_s = min(tool.visit_s, collect.sustained_s)
    launches = collect.repeats if "repeats" in tool.settings else tool.launches
    return TypicalVisit(_CALLED_S + visit_s, launches)


@dataclass
class ProblemCosts:
    """Seconds of one problem in a session."""

    is_first: bool = False
    """Whether it was the first of a process, which loads and compiles for all."""
    set_up_s: float = 0.0
    """Seconds beside visits: inputs, cells prepared, checks before and after the visits."""
    cells: set[str] = field(default_factory=set)
    """Cells that were set up."""
    first_visit_s: float = 0.0
    """Seconds of its first visit in a process, in which its tool may make room once."""
    later_visits: int = 0
    later_visits_s: float = 0.0


@dataclass
class SessionCosts:
    """Seconds of a session, running or finished."""

    problem_of: Mapping[str, str] = field(default_factory=dict)
    """Cell id → problem id."""
    problems: dict[str, ProblemCosts] = field(default_factory=dict)
    """Costs of the problems that the session has begun, by problem id."""
    outside_problems_s: float = 0.0
    """Seconds of no cell: of launches for practical roofs, and of the end."""
    launch_s: dict[str, float] = field(default_factory=dict)
    """Seconds of a launch at a problem, by its declared FLOPs and bytes."""

    @property
    def visit_s(self) -> dict[str, float]:
        """Mean seconds of a visit by problem, without first visits where there are others."""
        later_visits_s = {
            problem: costs.later_visits_s / costs.later_visits
            for problem, costs in self.problems.items()
            if costs.later_visits
        }
        first_visits_s = {
            problem: costs.first_visit_s
            for problem, costs in self.problems.items()
            if costs.first_visit_s
        }
        return later_visits_s or first_visits_s

    def visits_s(self, visits: Mapping[str, int], typical: TypicalVisit) -> float:
        """Seconds of so many visits by cell.

        Of a problem without visits, by the overhead of the others, and its declared work.
        """
        visit_s = self.visit_s
        problems = {self.problem_of[cell] for cell in visits}
        launches_s = {
            problem: typical.launches * self.launch_s.get(problem, 0.0)
            for problem in {*visit_s, *problems}
        }
        overheads_s = [seconds - launches_s[problem] for problem, seconds in visit_s.items()]
        overhead_s = statistics.median(overheads_s) if overheads_s else typical.overhead_s
        for problem in problems - visit_s.keys():
            costs = self.problems.get(problem, ProblemCosts())
            least_s = max(costs.first_visit_s - _ONCE_S, 0.0)
            visit_s[problem] = max(overhead_s + launches_s[problem], least_s)
        return sum(count * visit_s[self.problem_of[cell]] for cell, count in visits.items())

    def set_ups_s(self, cells: Iterable[str]) -> float:
        """Seconds to set up cells, by others at the problem, else by those at other problems.

        0 where the session began none but the first problem of a process.
        """
        later = [costs for costs in self.problems.values() if not costs.is_first]
        cell_count = sum(len(costs.cells) for costs in later)
        typical_s = sum(costs.set_up_s for costs in later) / max(cell_count, 1)
        cell_s = {
            problem: costs.set_up_s / len(costs.cells) for problem, costs in self.problems.items()
        }
        return sum(cell_s.get(self.problem_of[cell], typical_s) for cell in cells)

    def rest_s(self, visits: Mapping[str, int], typical: TypicalVisit) -> float:
        """Seconds until the session has made so many more visits by cell."""
        to_set_up = [
            cell
            for cell, count in visits.items()
            if count and self.problem_of[cell] not in self.problems
        ]
        return self.visits_s(visits, typical) + self.set_ups_s(to_set_up)


class CostReader:
    """Collects the costs of one session from the records of its journal, as they come."""

    def __init__(self, problem_of: Mapping[str, str]) -> None:
        self.costs = SessionCosts(problem_of)
        self._recorded: float | None = None
        """Time of the last record; None before the first."""
        self._visit_began = 0.0
        self._is_first = True
        """Whether this process has begun no problem yet."""
        self._visited: set[str] = set()
        """Problems that this process has visited."""

    def observe(self, record: Record) -> None:
        """Add the time since the record before to the costs."""
        at = record.get("time")
        if not isinstance(at, int | float):
            return
        if record.get("event") == protocol.SESSION_STARTED:
            self._is_first, self._visited, self._recorded = True, set(), at
        since = at if self._recorded is None else min(self._recorded, at)  # clocks may be set back
        self._recorded = at
        if record.get("cell") is None:
            self.costs.outside_problems_s += at - since
        problem = self.costs.problem_of.get(str(record.get("cell")))
        if problem is None or record.get("phase") is None:
            return
        if record["phase"] == protocol.DECLARE:
            self._declared(record, problem)
        else:
            self._add_time(record, problem, since, at)

    def _declared(self, record: Record, problem: str) -> None:
        if record.get("event") == protocol.FINISHED:
            flops, bytes_ = (_amount(record.get(name)) for name in ("flops", "bytes"))
            self.costs.launch_s[problem] = flops / _FLOPS_PER_S + bytes_ / _BYTES_PER_S

    def _add_time(self, record: Record, problem: str, since: float, at: float) -> None:
        costs = self.costs.problems.setdefault(problem, ProblemCosts())
        costs.is_first |= self._is_first
        self._is_first = False
        costs.cells.add(str(record["cell"]))
        if record["phase"] == protocol.MEASURE:
            self._visit(record, problem, since, at)
        elif record["phase"] != protocol.COUNT:
            costs.set_up_s += at - since
        elif costs.later_visits:  # a further pass of counters of the newest visit
            costs.later_visits_s += at - since
        else:
            costs.first_visit_s += at - since

    def _visit(self, record: Record, problem: str, since: float, at: float) -> None:
        if record.get("event") != protocol.FINISHED:
            self._visit_began = since
            return
        costs, seconds = self.costs.problems[problem], max(at - self._visit_began, 0.0)
        if problem in self._visited:
            costs.later_visits += 1
            costs.later_visits_s += seconds
        else:
            costs.first_visit_s = seconds
            self._visited.add(problem)


def _amount(value: object) -> float:
    """An amount of a record as a number of at least 0; 0 where it is not finite or no number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(float(value), 0.0)


def read_costs(records: Iterable[Record], problem_of: Mapping[str, str]) -> SessionCosts:
    """Costs of one session, from its journal."""
    reader = CostReader(problem_of)
    for record in records:
        reader.observe(record)
    return reader.costs
