"""Sessions of a workload in Python: a process of the runner makes many visits."""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.collect.registry import COLLECTORS, may_overlap, shares_process
from profiler.model import SessionKind, SessionPlan, Visit
from profiler.parse import runner_journal
from profiler.run_folder.folder import JOURNAL_FILE, AttemptResult
from profiler.run_folder.load.loaded import Loaded
from profiler.run_folder.load.outcomes import CellFailure
from profiler.runner import protocol
from profiler.sessions.attempt import (
    SessionTemplate,
    hand_visits,
    has_started,
    leave,
    reserved_attempt,
    run_attempt,
    start_waiting,
)
from profiler.sessions.execution import Meanwhile
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.attempt_writer import AttemptWriter
from profiler.sessions.process import SessionResult
from profiler.sessions.progress import VisitProgress
from profiler.sessions.recovery import MAX_VISITS_PER_SESSION, Recovery, chunk
from profiler.sessions.templates import nsys_capture
from profiler.sessions.waiting import Waiting, WaitingRoom
from profiler.sessions.watchdog import Record

MAX_TIMELINE_VISITS = 300
"""Visits of a session: what a killed nsys recorded is lost, and a report holds every CUDA call."""


@dataclass(frozen=True)
class Work:
    """Missing visits of a session, and the sessions whose processes may wait meanwhile."""

    session: SessionPlan
    missing: Sequence[Visit]
    expected: Sequence[SessionPlan]
    earlier: Sequence[Loaded]
    """Attempts of the run before this session."""
    has_samples: bool
    """Whether the tool of the session has shown in this run that it works."""


@dataclass
class RunnerSessions:
    """Makes visits of sessions in order, while processes of later sessions wait."""

    writer: AttemptWriter
    say: Callable[[str], None]
    meanwhile: Meanwhile
    room: WaitingRoom[SessionPlan] = field(init=False)
    standing: tuple[str, Waiting] | None = None
    """Collector and process of the session before, where it can go on with another session."""

    def __post_init__(self) -> None:
        self.room = WaitingRoom(self._start_waiting, self.say)

    @property
    def book(self) -> AttemptBook:
        """Results that the attempts of the run have."""
        return self.writer.book

    def close(self) -> None:
        """End the processes whose sessions do not come."""
        if self.standing is not None:  # reading and drawing need not wait for its end
            _, standing = self.standing
            threading.Thread(target=leave, args=(standing,), name="ends the runner").start()
        self.room.__exit__()

    def run(self, work: Work, progress: VisitProgress) -> None:
        """Make the missing visits of a session, in one process or several."""
        _RunnerSession(self, work, progress).run()

    def take(self, session: SessionPlan) -> Waiting | None:
        """The waiting process of a session, or one that goes on with it; it may measure already."""
        before, self.standing = self.standing, None
        if before is not None:
            collector, standing = before
            if shares_process(session) and collector == session.collector and standing.lives:
                folder = self.book.run.reserve_attempt(session.name)
                return Waiting(session.name, folder, standing.process, standing.orders)
            leave(standing)
        return self.room.take(session.name)

    def started(self, following: Sequence[SessionPlan]) -> None:
        """Have processes wait for the following sessions, once a session has started."""
        self.room.expect(following)
        self.meanwhile.start()

    def start_now(self, session: SessionPlan) -> Waiting | None:
        """Start a process that can go on with later sessions; None where it cannot wait."""
        try:
            return self._start_waiting(session)
        except OSError:  # a file system without locks, or what the session will say
            return None

    def _start_waiting(self, session: SessionPlan) -> Waiting:
        """Start the process of a session that comes later."""
        template = self.writer.templates.session(session)
        with reserved_attempt(self.book.run, session.name) as orders:
            return start_waiting(template, orders)


@dataclass
class _RunnerSession:
    """Makes the missing visits of one session.

    After its last launch a session takes seconds until its results are there: ncu writes its
    report. The visits that follow are mostly known before that: the rest of the same session, or a
    session of counters, without the cells that have failed meanwhile. Where they turn out to be
    others, what was measured counts, and another process makes what is left.
    """

    row: RunnerSessions
    work: Work
    progress: VisitProgress
    _template: SessionTemplate = field(init=False)
    _handed_visits: set[Visit] = field(default_factory=set)
    """Visits that were handed to a process."""
    _failed: set[str] = field(default_factory=set)
    """Ids of cells that are not visited any more."""
    _checked: set[str] = field(default_factory=set)
    """Ids of cells that the session compared with the reference."""
    _roofs: set[str] = field(default_factory=set)
    """Practical roofs that the session measured, or could not."""

    def __post_init__(self) -> None:
        session = self.work.session
        # Newly compiled code was not checked by an earlier attempt.
        checked = frozenset() if session.recompiles else self._checked_before
        self._template = self.writer.templates.session(session, checked)

    @property
    def book(self) -> AttemptBook:
        """Results that the attempts of the run have."""
        return self.row.book

    @property
    def writer(self) -> AttemptWriter:
        """Writes the attempts of the session."""
        return self.row.writer

    def run(self) -> None:
        """Make visits, one process after another, until each has results or its cell failed."""
        session, has_samples = self.work.session, self.work.has_samples
        for visits in self._batches():
            recovery = Recovery(
                session=session.name,
                problem_of=self.book.plan.problem_of,
                collector=self._template.collector,
                missing=tuple(visits),
                has_samples=has_samples,
            )
            while recovery.missing:
                part = chunk(recovery.missing, recovery.problem_of, _most_visits(session))
                folder, result = self._attempt(part)
                failures = recovery.learn(folder, result, self.book.measured_visits(folder))
                self._finish(folder, result, failures)
                self.progress.settle(recovery.failures)
            has_samples = has_samples or bool(recovery.measured)

    def _batches(self) -> Sequence[Sequence[Visit]]:
        """Groups of visits that one process may make together."""
        recorded = COLLECTORS[self.work.session.collector].report_file is not None
        capture = nsys_capture(self.book.execution)
        if recorded and capture not in (protocol.CAPTURE_PROGRAM, protocol.CAPTURE_VISITS):
            # The recording ends with the first range of a name.
            return [(visit,) for visit in self.work.missing]
        env_of, by_block = self.book.plan.env_of, self.work.session.recompiles
        batches: dict[object, list[Visit]] = {}
        for visit in self.work.missing:
            key = (visit.block if by_block else 0, tuple(sorted(env_of[visit.cell].items())))
            batches.setdefault(key, []).append(visit)
        return [*batches.values()]

    def _attempt(self, visits: Sequence[Visit]) -> tuple[Path, SessionResult]:
        """Have a process make the visits, or finish the visits that one has begun already."""
        waiting = self.row.take(self.work.session)
        begun_visits = None if waiting is None else waiting.visits
        folder, result = self._run(visits if begun_visits is None else begun_visits, waiting)
        if waiting is not None and not has_started(folder):
            self.row.room.discard(waiting)
            return self._run(visits)
        return folder, result

    def _run(
        self, visits: Sequence[Visit], waiting: Waiting | None = None
    ) -> tuple[Path, SessionResult]:
        """Have one process make its visits; returns its folder and how it ended."""
        book, writer, session = self.book, self.writer, self.work.session
        template = replace(
            self._template,
            practical_roofs=book.roofs(session, book.attempts()),
            announced_cells=frozenset() if self._handed_visits else self._problems(),
            compiler_caches=self._compiled(visits),
            variables={**self._template.variables, **self._env(visits)},
        )
        goes_on = shares_process(session)
        process = self.row.start_now(session) if goes_on and waiting is None else waiting
        folder = writer.begin(session, writer.record(session, visits), process)
        set_first = ("env", *(f"{name}={text}" for name, text in self._env(visits).items()))
        argv = (*(set_first if len(set_first) > 1 else ()), *self._template.command(folder).argv)
        book.run.write_command(folder, shlex.join(argv))
        self._handed_visits.update(visits)
        same_session = (
            (session,) if self._remaining_visits() and may_overlap(session) and not goes_on else ()
        )
        following = [*same_session, *self.work.expected]

        def on_record(record: Record) -> None:
            self.progress.record(record)
            self._note(record)
            if not (goes_on and record.get("event") == protocol.SESSION_FINISHED):
                self._let_next_begin(record)

        began = time.monotonic() if waiting is None else waiting.began
        with writer.clocks(folder, waiting):
            result = run_attempt(
                template,
                visits,
                folder,
                on_record,
                waiting=process,
                stays=goes_on and process is not None,
                on_start=lambda: self.row.started(following),
                on_look=self.progress.look,
            )
        if process is not None and result.standing_process is not None:
            self.row.standing = session.collector, process
        book.execution.seconds.session(
            folder.name, began, runner_journal.read_journal(folder / JOURNAL_FILE)
        )
        writer.keep_files(session, folder, result)
        return folder, result

    def _note(self, record: Record) -> None:
        """Update failed cells, checked cells and roofs by a record of the journal."""
        event = record.get("event")
        if event == protocol.FAILED:
            self._failed.add(str(record["cell"]))
        elif event == protocol.FINISHED and record.get("phase") == protocol.CHECK:
            self._checked.add(str(record["cell"]))
        elif event == protocol.ROOF_STARTED:
            self._roofs.add(str(record["roof"]))

    def _let_next_begin(self, record: Record) -> None:
        """After the last launch, have the process that comes next make its foreseen visits."""
        is_over = record.get("event") == protocol.SESSION_FINISHED
        remaining = self._remaining_visits() if is_over else ()
        session = self.work.session
        waiting = self.row.room.observe(
            record, repeated_session=session.name if remaining else None
        )
        if waiting is None:
            return
        is_another = waiting.session != session.name
        if is_another:
            upcoming = (later for later in self.work.expected if later.visits)
            session = next(later for later in upcoming if later.name == waiting.session)
            remaining = self.book.missing_visits(session, self.work.earlier)
        problem_of = self.book.plan.problem_of
        visits = chunk(self._without_failed(remaining), problem_of, _most_visits(session))
        if not visits:
            return
        template = self.writer.templates.session(session, self._checked_before | self._checked)
        needed_roofs = self.book.roofs(session, self.work.earlier)
        announced = one_of_each_problem(remaining, problem_of) if is_another else frozenset[str]()
        template = replace(
            template,
            practical_roofs=tuple(roof for roof in needed_roofs if roof not in self._roofs),
            announced_cells=announced,
        )
        with self.writer.begun_early(waiting, visits):
            hand_visits(template, visits, waiting)

    @property
    def _checked_before(self) -> set[str]:
        """Cells that an attempt before this session checked, on new inputs, too."""
        return {cell for attempt in self.work.earlier for cell in attempt.settled_cells()}

    def _without_failed(self, visits: Iterable[Visit]) -> tuple[Visit, ...]:
        """Visits of cells that have not failed."""
        return tuple(visit for visit in visits if visit.cell not in self._failed)

    def _env(self, visits: Sequence[Visit]) -> Mapping[str, str]:
        """Environment variables of the process that makes the visits."""
        return self.book.plan.env_of[visits[0].cell]

    def _compiled(self, visits: Sequence[Visit]) -> Path | None:
        """Folder for the compiler caches of the visits.

        Of a block its own where each compiles anew; of an environment its own, because compilers
        read variables, too.
        """
        folder, session, env = self._template.compiler_caches, self.work.session, self._env(visits)
        if folder is not None and session.recompiles:
            folder /= f"{session.name}.{visits[0].block}"
        if folder is not None and env:
            text = json.dumps(dict(env), sort_keys=True)
            folder /= f"environment-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return folder

    def _problems(self) -> Set[str]:
        """One cell of each visited problem; empty where a recording would show their launches."""
        if self.work.session.kind in {SessionKind.TIMELINE, SessionKind.IN_KERNEL}:
            return frozenset()
        return one_of_each_problem(self.work.missing, self.book.plan.problem_of)

    def _remaining_visits(self) -> tuple[Visit, ...]:
        """Visits that no process was given, of cells that have not failed."""
        return self._without_failed(v for v in self.work.missing if v not in self._handed_visits)

    def _finish(
        self, folder: Path, result: SessionResult, failures: Mapping[str, CellFailure]
    ) -> None:
        """Write how an attempt ended, and the cells that fail by its end (ids)."""
        failed = {cell: (fault.outcome.value, fault.cause) for cell, fault in failures.items()}
        self._failed.update(failed)
        self.writer.finish(folder, AttemptResult(result.cause.value, result.seconds, failed))
        self.writer.check_kernels(self.book.run.attempt(folder))
        self.writer.announce(folder)
        if failures and result.failing_cell is not None:
            cell = result.failing_cell.cell
            self.progress.failed(cell, f"{failures[cell].outcome}: {failures[cell].cause}")


def one_of_each_problem(visits: Iterable[Visit], problem_of: Mapping[str, str]) -> Set[str]:
    """Ids of visited cells, one of each problem."""
    return frozenset({problem_of[visit.cell]: visit.cell for visit in visits}.values())


def _most_visits(session: SessionPlan) -> int:
    return MAX_TIMELINE_VISITS if session.kind is SessionKind.TIMELINE else MAX_VISITS_PER_SESSION
