"""Making the visits of a session that no earlier attempt has made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Self

from profiler.analyse.clocks import MAX_REPEATS
from profiler.collect.registry import may_overlap, shares_process
from profiler.model import SessionKind, SessionPlan
from profiler.notices import counted
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.load.loaded import Loaded, median_durations
from profiler.run_folder.load.throttling import throttled_again
from profiler.run_folder.seconds import Executions
from profiler.sessions.execution import Meanwhile
from profiler.sessions.forecasts.session_costs import TypicalVisit, typical_visit
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.attempt_writer import AttemptWriter
from profiler.sessions.measuring.program_sessions import ProgramSessions
from profiler.sessions.measuring.runner_sessions import RunnerSessions, Work
from profiler.sessions.progress import ProgressReporter, VisitProgress
from profiler.sessions.waiting import Waiting

Upcoming = Callable[[], Iterable[SessionPlan]]


@dataclass
class Measurement:
    """Makes the visits of one session after another, into one run folder."""

    writer: AttemptWriter
    reporter: ProgressReporter
    earlier_executions: Executions = ()
    """Where the seconds of earlier executions went."""
    meanwhile: Callable[[], None] | None = None
    """Work that a thread does once, beside the start of the first session."""
    _sessions: RunnerSessions | ProgramSessions = field(init=False)

    def __post_init__(self) -> None:
        workload = self.book.execution.loaded.experiment.workload
        meanwhile = Meanwhile(self.meanwhile)
        if isinstance(workload, CommandWorkload):
            self._sessions = ProgramSessions(self.writer, workload, self.reporter, meanwhile)
        else:
            self._sessions = RunnerSessions(self.writer, self.reporter.say, meanwhile)

    @property
    def book(self) -> AttemptBook:
        """Results that the attempts of the run have."""
        return self.writer.book

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes whose sessions do not come, and wait for packing to finish."""
        self._sessions.close()
        self.writer.close()

    def adopt(self, waiting: Waiting | None) -> None:
        """Let a session use a runner process that waits already, if there is one."""
        if waiting is not None and isinstance(self._sessions, RunnerSessions):
            self._sessions.room.adopt(waiting)

    def recover_attempts(self) -> None:
        """Complete the attempts of a profiler that was killed, as far as it can be done."""
        self.writer.recover_attempts()
        self.writer.check_recovered_kernels()

    def measure(self, session: SessionPlan, title: str = "", upcoming: Upcoming = tuple) -> None:
        """Make the missing visits of a session; `title` is its name on the console.

        Blocks in which the GPU was throttled are missing as well, as long as they may be repeated.
        `upcoming` foresees the sessions that follow, as far as they are known; without visits where
        these are not. Nobody asks it where none of their processes could wait.
        """
        title = title or session.name
        for round_ in range(1 + MAX_REPEATS):
            earlier = self.book.attempts()
            throttled = throttled_again(self.book.plan, session.name, earlier)
            missing = self.book.missing_visits(session, earlier, throttled)
            repeats = not throttled.isdisjoint(missing)
            if round_ and not repeats:
                return
            if missing:
                suffix = " (repeating throttled blocks)" if repeats else ""
                expected = self._expected(session, upcoming, earlier)
                has_samples = any(
                    len(attempt.samples) for attempt in earlier if _tool_works(attempt, session)
                )
                work = Work(session, missing, expected, earlier, has_samples)
                self._make(work, f"{title}{suffix}")
            else:
                self.reporter.say(f"{title}: nothing is missing.")

    def _make(self, work: Work, title: str) -> None:
        session, missing, earlier = work.session, work.missing, work.earlier
        cells = {cell.id: cell for cell in self.book.plan.cells}
        remaining = Counter(visit.cell for visit in missing)
        visits = counted(len(missing), "visit")
        self.reporter.say(f"{title}: {visits} of {counted(len(remaining), 'cell')}")
        progress = VisitProgress(
            self.reporter,
            title,
            cells,
            dict(remaining),
            typical_visit=self._typical_visit(session),
            durations_ns=median_durations(earlier),
            visit_advice=_visit_advice(session),
        )
        with progress:
            self._sessions.run(work, progress)

    def _typical_visit(self, session: SessionPlan) -> TypicalVisit | None:
        """Typical visit, to forecast the rest of a session.

        None where processes take more time than visits: the rate of the visits tells of them.
        """
        experiment = self.book.execution.loaded.experiment
        if isinstance(experiment.workload, CommandWorkload) or session.starts_anew:
            return None
        return typical_visit(session, experiment.collect)

    def _expected(
        self, session: SessionPlan, upcoming: Upcoming, earlier: Sequence[Loaded]
    ) -> list[SessionPlan]:
        """Sessions whose processes may wait while `session` measures, in their order.

        Only where ncu measures, and for ncu: it times a kernel alone on the GPU, while to a timer
        the start of another process is a disturbance.
        """
        if not may_overlap(session):
            return []
        return [
            later
            for later in takewhile(may_overlap, upcoming())
            if not shares_process(later)
            if not later.visits or self.book.missing_visits(later, earlier)
        ]


def _visit_advice(session: SessionPlan) -> str:
    """Advice to shorten long visits under ncu, whose time grows with the kernels of a launch."""
    is_under_ncu = may_overlap(session) and not shares_process(session)
    if session.kind is not SessionKind.TIMING or not is_under_ncu:
        return ""
    return "; ncu takes milliseconds for each kernel of a launch, --fast a tenth of that"


def _tool_works(loaded: Loaded, session: SessionPlan) -> bool:
    """Whether samples of an attempt show that the tool of a session works."""
    return session.kind is not SessionKind.TIMELINE or (
        loaded.attempt.record.session == session.name
    )
