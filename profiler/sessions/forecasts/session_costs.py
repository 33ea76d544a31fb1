"""Seconds of visits and set-ups: measured ones of sessions, by their journals, and typical ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from profiler.collect.registry import COLLECTORS
from profiler.metrics.passes import is_replayed, ncu_launch_seconds, runs_of_kernel
from profiler.model import SessionKind, SessionPlan
from profiler.parse import runner_journal
from profiler.planning.spec import Collect
from profiler.run_folder.folder import AttemptRecord, RunFolder
from profiler.runner import protocol
from profiler.sessions.watchdog import Record

_CHECKS = (protocol.REFERENCE, protocol.CHECK, protocol.RELAUNCH, protocol.RECHECK)
_SET_UP = (
    *(protocol.INPUTS, protocol.PREPARE, protocol.DESCRIBE, protocol.WARMUP),
    *_CHECKS,
)
"""Phases of a problem beside its visits."""
_WITH_WORK = (protocol.DECLARE, protocol.DESCRIBE)
_ROOFS = (protocol.ROOF_STARTED, protocol.ROOF_FINISHED, protocol.ROOF_FAILED)
_ONCE_S = 1.0
"""Most that a tool takes once in a process, with its first launch: ncu 0.5 to 0.7 s on an H200."""


@dataclass
class SetUp:
    """Seconds of a problem's cells beside their visits: before the visits, and after them."""

    is_first: bool
    """Whether the problem was the first of a process, which loads and compiles for all."""
    seconds: float = 0.0
    cells: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    """Cells that were compared with their reference."""
    checks_s: float = 0.0
    """Seconds of these comparisons, part of `seconds`."""


@dataclass(frozen=True)
class DeclaredWork:
    """Declared FLOPs and bytes of one launch at a problem; 0 where nothing is declared."""

    flops: float
    bytes: float


@dataclass
class SessionCosts:
    """Seconds of a session, running or finished."""

    began: float = 0.0
    """When its newest process began, in seconds since the epoch."""
    visits: dict[str, list[float]] = field(default_factory=dict)
    """By cell."""
    first_visits: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the first visit of each problem in a process: its tool may take up to a second, or
    make room, for others 2 to 20 ms."""
    set_ups: dict[str, SetUp] = field(default_factory=dict)
    """Set-ups by problem, in their order."""
    warm_ups: dict[str, float] = field(default_factory=dict)
    """By cell, all warm-up launches together."""
    work: dict[str, DeclaredWork] = field(default_factory=dict)
    """By problem."""
    roofs_s: float = 0.0
    """Seconds of launches for practical roofs, before the first problem."""

    @property
    def typical_visits(self) -> Mapping[str, Sequence[float]]:
        """Seconds of visits by cell; without later visits, first ones less `_ONCE_S` of the tool.

        A first visit shorter than that says nothing of later visits.
        """
        return self.visits or {
            cell: [seconds - _ONCE_S for seconds in first_seconds]
            for cell, first_seconds in self.first_visits.items()
            if min(first_seconds) > _ONCE_S
        }

    @property
    def visit_count(self) -> int:
        """Number of visits."""
        return sum(map(len, self.visits.values())) + sum(map(len, self.first_visits.values()))

    @property
    def seconds(self) -> float:
        """Seconds of all visits and set-ups."""
        visits = (*self.visits.values(), *self.first_visits.values())
        return sum(map(sum, visits)) + sum(set_up.seconds for set_up in self.set_ups.values())

    @property
    def checked_cells(self) -> set[str]:
        """Cells that were compared with their reference."""
        return {cell for set_up in self.set_ups.values() for cell in set_up.checked}


class CostReader:
    """Collects the costs of one session from the records of its journal, as they come."""

    def __init__(self, problem_of: Mapping[str, str]) -> None:
        self.costs = SessionCosts()
        self._problem_of = problem_of
        """Cell id → problem id."""
        self._recorded: float | None = None
        """Time of the last record; None before the first of a process."""
        self._visit_began = 0.0
        self._visited: set[str] = set()
        """Problems that this process has visited."""
        self._first_problem: str | None = None
        """The first problem of this process."""

    def observe(self, record: Record) -> None:
        """Add the time since the record before to the costs."""
        at = record.get("time")
        if not isinstance(at, int | float):
            return
        since, self._recorded = self._recorded, at
        if record.get("event") == protocol.SESSION_STARTED:
            self.costs.began = at
            self._visited, self._first_problem = set(), None
        elif since is not None:
            since = min(since, at)  # the clock may have been set back
            if record.get("event") in _ROOFS:
                self.costs.roofs_s += at - since
            self._add_time(record, since, at)

    def _add_time(self, record: Record, since: float, at: float) -> None:
        cell, phase = record.get("cell"), record.get("phase")
        ended = record.get("event") == protocol.FINISHED
        problem = self._problem_of.get(str(cell))
        if problem is None or phase is None:
            return
        cell = str(cell)
        self._first_problem = self._first_problem or problem
        if phase == protocol.MEASURE:
            self._visit(cell, problem, since, at, ended=ended)
        elif phase == protocol.COUNT:
            self._further_pass(cell, at - since)
        elif phase in _SET_UP:
            self._set_up(phase, problem, cell, at - since)
        if phase == protocol.WARMUP and ended:
            self.costs.warm_ups[cell] = at - since + _amount(record.get(protocol.SPARED_S))
        if phase in _WITH_WORK and ended:
            flops, bytes_ = (_amount(record.get(name)) for name in ("flops", "bytes"))
            self.costs.work[problem] = DeclaredWork(flops, bytes_)

    def _visit(self, cell: str, problem: str, since: float, at: float, *, ended: bool) -> None:
        if not ended:
            self._visit_began = since
            return
        visits = self.costs.visits if problem in self._visited else self.costs.first_visits
        visits.setdefault(cell, []).append(max(at - self._visit_began, 0.0))
        self._visited.add(problem)

    def _further_pass(self, cell: str, seconds: float) -> None:
        """Add seconds of a further pass of counters to those of the newest visit of a cell."""
        for visits in (self.costs.visits, self.costs.first_visits):
            if cell in visits:
                visits[cell][-1] += seconds
                return

    def _set_up(self, phase: str, problem: str, cell: str, seconds: float) -> None:
        new_set_up = SetUp(is_first=problem == self._first_problem)
        set_up = self.costs.set_ups.setdefault(problem, new_set_up)
        set_up.seconds += seconds
        set_up.cells.add(cell)
        if phase in _CHECKS:
            set_up.checked.add(cell)
            set_up.checks_s += seconds


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


_FLOPS_PER_S, _BYTES_PER_S = 3e14, 2.5e12
"""Rates of good kernels: attention and a copy."""

_PREPARED_S, _CHECKED_S = 2e-3, 1e-2
"""Seconds to prepare a cell where nothing is compiled, and to check it, beside a launch."""
_COMPARED_BYTES_PER_S = 5e10
"""Rate of comparing a result with the reference, by the least traffic of a launch."""
_REFERENCE_FLOPS_PER_S = 2e13
"""Rate of a reference in higher precision."""


_PASS_S, _PASSES = 3.6e-3, 2
"""Seconds of a pass of counters by CUPTI beside its launch, with caches emptied before it, and how
many passes counters take that do not fit in one: a sweep of attention on an H200."""


@dataclass(frozen=True)
class TypicalVisit:
    """Typical duration of a visit: its overhead, and a number of launches."""

    overhead_s: float
    """Seconds of a visit whose kernel takes no time."""
    launches: float
    """Number of launches whose duration adds to the overhead."""


def typical_visit(
    collector: str, kind: str, metrics: Sequence[str], collect: Collect
) -> TypicalVisit:
    """Typical visit in a session of a kind under a collector."""
    tool = COLLECTORS[collector]
    if kind in (SessionKind.COUNTERS, SessionKind.EXPLAIN):
        if not tool.in_journal:
            return TypicalVisit(ncu_launch_seconds(metrics), runs_of_kernel(metrics))
        passes = _PASSES if is_replayed(metrics, None) else 1
        return TypicalVisit(passes * _PASS_S, passes)
    launches = tool.launches
    if "repeats" in tool.settings:
        launches = collect.repeats
    elif "timeline" in tool.settings:
        launches = collect.timeline.launches
    elif "sustained_s" in tool.settings:
        return TypicalVisit(min(tool.visit_s, collect.sustained_s), 0)
    return TypicalVisit(tool.visit_s, launches)


def launch_seconds(work: DeclaredWork) -> float:
    """Seconds of a launch with declared work, by typical rates."""
    return work.flops / _FLOPS_PER_S + work.bytes / _BYTES_PER_S


def set_up_seconds(work: DeclaredWork, cells: int, checks: int) -> float:
    """Seconds of a set-up at a problem whose launches declare `work`.

    `checks`: comparisons of its cells with a reference, which is made once for all of them.
    """
    launch_s = launch_seconds(work)
    check_s = _CHECKED_S + launch_s + work.bytes / _COMPARED_BYTES_PER_S
    reference_s = work.flops / _REFERENCE_FLOPS_PER_S if checks else 0.0
    return cells * (_PREPARED_S + launch_s) + checks * check_s + reference_s


@dataclass(frozen=True)
class PastSession:
    """A finished session, by which later sessions are forecast."""

    costs: SessionCosts
    visit: TypicalVisit
    same_tool: bool
    """Whether both sessions have the same tool, and both explain or neither does."""
    likeness: int
    """1 for the same metrics, and 1 for the same name of the session."""


def past_of_run(
    sessions: Iterable[tuple[AttemptRecord, SessionCosts]], session: SessionPlan, collect: Collect
) -> tuple[list[PastSession], frozenset[str]]:
    """Sessions of a run, oldest first, to forecast another session; ids of the cells they checked.

    `sessions`: with the records of their attempts.
    """
    past_sessions: list[PastSession] = []
    checked: frozenset[str] = frozenset()
    explains = session.kind is SessionKind.EXPLAIN
    for record, costs in sessions:
        visit = typical_visit(record.collector, record.kind, record.metrics, collect)
        # Launches that are replayed dozens of times tell nothing of others.
        alike = (record.kind == SessionKind.EXPLAIN) == explains
        same_tool = alike and record.collector == session.collector
        likeness = (record.metrics == session.metrics) + (record.session == session.name)
        past_sessions.append(PastSession(costs, visit, same_tool, likeness))
        if record.kind != SessionKind.IN_KERNEL:  # of another build
            checked |= costs.checked_cells
    return past_sessions, checked


def costs_of_run(
    run: RunFolder, problem_of: Mapping[str, str]
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of each session of a run, oldest first."""
    journals = (
        (attempt.record, runner_journal.read_journal(attempt.journal)) for attempt in run.attempts()
    )
    return costs_of_sessions(journals, problem_of)


def costs_of_sessions(
    journals: Iterable[tuple[AttemptRecord, Iterable[Record]]], problem_of: Mapping[str, str]
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of each session under a tool, by its journal, oldest first."""
    return oldest_first((record, read_costs(journal, problem_of)) for record, journal in journals)


def oldest_first(
    costs: Iterable[tuple[AttemptRecord, SessionCosts]],
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of the sessions under a tool, in the order of their starts."""
    # The check of an external command is under none.
    of_tools = (item for item in costs if item[0].collector in COLLECTORS)
    return sorted(of_tools, key=lambda item: item[1].began)
