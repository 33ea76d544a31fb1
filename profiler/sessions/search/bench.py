"""The bench of a search: a standing runner, started again where a proposal ended it.

The runner carries out orders until it is closed or ends by itself; it keeps the baseline.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from profiler.collect import Collector, Tools
from profiler.collect.registry import COLLECTORS
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.model import BuildResult, Cell, Outcome, Plan
from profiler.parse import runner_journal
from profiler.run_folder.folder import JOURNAL_FILE, SEARCH_JOURNAL_FILE, RunFolder
from profiler.runner import protocol
from profiler.runner.orders import ORDERS_FILE, SEARCH, SearchOrder
from profiler.runner.protocol import JobCell, JobVisit, MeasureSettings
from profiler.sessions.attempt import SessionTemplate, hand_visits, leave, start_waiting
from profiler.sessions.execution import Execution
from profiler.sessions.process import SessionResult, run_session, stopped_on_leaving
from profiler.sessions.recovery import fault_of_end, fault_of_no_cell, may_be_innocent
from profiler.sessions.templates import job_cell, runner_job
from profiler.sessions.waiting import Orders
from profiler.sessions.watchdog import JournalTail, Limits, Record

_POLL_S = 0.004


class RunnerEndedError(Exception):
    """The process ended before its order was done."""

    def __init__(self, folder: Path, result: SessionResult) -> None:
        super().__init__(f"the runner ended: {result.cause}")
        self.folder = folder
        self.result = result


class StandingRunner:
    """A runner process behind its guard, and the file of its orders."""

    def __init__(self, session: SessionTemplate, folder: Path) -> None:
        """Start the process; its files go to `folder`."""
        self.folder = folder
        self._session = session
        self._tail = JournalTail(folder / JOURNAL_FILE)
        folder.mkdir(parents=True)
        self._waiting = start_waiting(session, Orders(folder.absolute() / ORDERS_FILE))
        self._closing = ExitStack()
        self._closing.callback(self._waiting.orders.let_go)
        self._closing.enter_context(
            stopped_on_leaving(self._waiting.process, session.limits.grace_s)
        )
        hand_visits(session, (), self._waiting, stays=True)

    def end(self) -> None:
        """End the process, also during an order."""
        self._closing.close()

    def carry_out(self, order: SearchOrder) -> tuple[Record, ...]:
        """Records of the journal that are written while the process carries out an order.

        Raises RunnerEndedError where the process ends before, or is silent for too long.
        """
        self._waiting.orders.give(SEARCH, order)
        records: list[Record] = []
        result = run_session(
            self._session.command(self.folder),
            folder=self.folder,
            limits=self._session.limits,
            journal=self.folder / JOURNAL_FILE,
            on_record=records.append,
            process=self._waiting.process,
            poll_s=_POLL_S,
            stays=True,
            until=protocol.ORDER_FINISHED,
            tail=self._tail,
        )
        if not any(record.get("event") == protocol.ORDER_FINISHED for record in records):
            raise RunnerEndedError(self.folder, result)
        return tuple(records)

    def finish(self) -> None:
        """Let the process leave by itself, within a time limit."""
        leave(self._waiting)


PILOT_LAUNCHES = 3
"""Launches of the baseline that show how long one takes."""
VISIT_S = 0.05
"""Seconds of a visit of the baseline, by which its launches are chosen: PILOT_LAUNCHES at least,
the setting `repeats` at most. 20 launches of attention at a length of 16384 take half a second."""
MOST_TRIES = 2
"""Consecutive processes that may end without a cell to blame before the machine is blamed."""


@dataclass(frozen=True)
class Subject:
    """A variant to measure: its cells at the problems of the search, and its library."""

    variant: str
    cells: Sequence[Cell]
    library: str | None

    def has(self, cell: str) -> bool:
        """Whether a cell id belongs to the subject."""
        return any(cell == own_cell.id for own_cell in self.cells)


Block = Mapping[str, tuple[float, float]]
"""Nanoseconds in one block of a subject, and of the baseline beside it, by problem id."""


class SubjectFailedError(Exception):
    """A subject failed, which is its result."""

    def __init__(self, outcome: Outcome, cause: str) -> None:
        super().__init__(cause)
        self.outcome = outcome
        self.cause = cause


@dataclass
class Bench:
    """Measures blocks of subjects beside the baseline, in one process as long as possible."""

    start: Callable[[], StandingRunner]
    collector: Collector
    baseline: Subject
    repeats: int
    """Most launches of a visit."""
    on_runner_end: Callable[[str], None] = lambda _: None
    """Called with the cause where a runner ended early."""
    _runner: StandingRunner | None = None
    _runner_cells: set[str] = field(default_factory=set)
    """Ids of the cells in the runner."""
    _repeats: dict[str, int] = field(default_factory=dict)
    """Number of launches of a visit, by problem."""
    _blocks: Iterator[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the runner; without an error it leaves by itself."""
        if self._runner is not None and kind is None:
            self._runner.finish()
        self._drop_runner()

    def block(self, subject: Subject, *, check: bool) -> Block:
        """Times of one block of a subject.

        Raises SubjectFailedError where the subject fails, also where the runner ends by it; raises
        EnvironmentUnusable, UsageError and Interrupted where no subject could be measured.
        """
        tries = itertools.count(1)
        while True:
            try:
                return self._try_block(subject, check=check)
            except RunnerEndedError as end:
                self._blame(end, subject, is_last=next(tries) == MOST_TRIES)  # which raises

    def forget(self, subject: Subject) -> None:
        """Free the runner's memory of a subject, where the runner is alive."""
        cells = tuple(cell.id for cell in subject.cells if cell.id in self._runner_cells)
        if self._runner is None or not cells:
            return
        self._runner_cells.difference_update(cells)
        try:
            self._runner.carry_out(SearchOrder(forget=cells))
        except RunnerEndedError as end:
            self._blame(end, subject, is_last=False)

    # ---- orders ----

    def _try_block(self, subject: Subject, *, check: bool) -> Block:
        runner = self._ready_runner()
        order = SearchOrder(
            cells=self._new_cells(subject, check=check),
            visits=tuple(_block_visits(self.baseline, subject, next(self._blocks))),
            repeats=dict(self._repeats),
        )
        records = runner.carry_out(order)
        _require_success(records, self.baseline)
        if failure := _failure(records, subject):
            raise failure
        baseline_ns = _median_times(records, self.baseline)
        return {
            problem: (time_ns, baseline_ns[problem])
            for problem, time_ns in _median_times(records, subject).items()
        }

    def _new_cells(self, subject: Subject, *, check: bool) -> tuple[JobCell, ...]:
        new_cells = [cell for cell in subject.cells if cell.id not in self._runner_cells]
        self._runner_cells.update(cell.id for cell in new_cells)
        libraries = {subject.variant: subject.library}
        return tuple(job_cell(cell, libraries, check=check, recheck=False) for cell in new_cells)

    def _ready_runner(self) -> StandingRunner:
        """The runner; a new runner measures the baseline first."""
        if self._runner is None:
            self._runner = self.start()
            order = SearchOrder(
                cells=self._new_cells(self.baseline, check=True),
                visits=tuple(JobVisit(cell.id, next(self._blocks)) for cell in self.baseline.cells),
                repeats={
                    cell.problem.id: min(PILOT_LAUNCHES, self.repeats)
                    for cell in self.baseline.cells
                },
            )
            records = self._runner.carry_out(order)
            _require_success(records, self.baseline)
            for problem, time_ns in _median_times(records, self.baseline).items():
                fitting = int(VISIT_S * 1e9 / max(time_ns, 1.0))
                self._repeats[problem] = min(self.repeats, max(fitting, PILOT_LAUNCHES))
        return self._runner

    def _drop_runner(self) -> None:
        if self._runner is not None:
            self._runner.end()
        self._runner = None
        self._runner_cells.clear()

    # ---- the end of a runner ----

    def _blame(self, end: RunnerEndedError, subject: Subject, *, is_last: bool) -> None:
        """Raise the error that the end of the runner is blamed on, unless it may be retried."""
        self._drop_runner()
        records = tuple(runner_journal.read_journal(end.folder / JOURNAL_FILE))
        error = fault_of_no_cell(self.collector, end.folder, end.result, records)
        if error is not None:
            raise error
        _require_success(records, self.baseline)
        outcome, cause = fault_of_end(self.collector, end.folder, end.result)
        self.on_runner_end(cause)
        if failure := _failure(records, subject):
            raise failure
        failing = end.result.failing_cell
        is_fault = is_last or not may_be_innocent(end.result, self.collector)
        if failing is not None and subject.has(failing.cell) and is_fault:
            raise SubjectFailedError(outcome, f"{cause}, in {failing.phase}")
        if is_last or (failing is not None and self.baseline.has(failing.cell) and is_fault):
            place = f" in {failing.phase} of {failing.cell}" if failing is not None else ""
            raise EnvironmentUnusable(
                f"The runner of the search ended{place}: {cause}",
                remedy=f"See the whole output in {end.folder}.",
            )


def _block_visits(baseline: Subject, subject: Subject, number: int) -> Iterator[JobVisit]:
    """Visits of a block: the baseline and the subject at each problem, in alternating order."""
    baseline_cells = {cell.problem.id: cell.id for cell in baseline.cells}
    for place, cell in enumerate(subject.cells):
        pair = (baseline_cells[cell.problem.id], cell.id)
        yield from (
            JobVisit(id_, number) for id_ in (pair if (number + place) % 2 == 0 else pair[::-1])
        )


def _median_times(records: Sequence[Record], subject: Subject) -> dict[str, float]:
    """Median duration in nanoseconds by problem id, of the measured problems."""
    problems = {cell.id: cell.problem.id for cell in subject.cells}
    return {
        problems[record["cell"]]: statistics.median(record["durations_ns"])
        for record in runner_journal.measurement_records(records)
        if record["cell"] in problems
    }


def _failure(records: Sequence[Record], subject: Subject) -> SubjectFailedError | None:
    """The first failure of a subject in the records of a journal; None without one.

    Raises EnvironmentUnusable where the host is to blame.
    """
    for record in records:
        if record.get("event") == protocol.FAILED and subject.has(str(record["cell"])):
            outcome, cause = Outcome(record["outcome"]), str(record.get("cause", ""))
            if record.get("of_host"):  # not the subject's failure; it is proposed only once
                raise EnvironmentUnusable(
                    f"The host did not let {subject.variant} run: {cause}",
                    remedy="Make room (disk, open files, memory) and run the same command again.",
                )
            return SubjectFailedError(outcome, cause)
    return None


def _require_success(records: Sequence[Record], baseline: Subject) -> None:
    """Raise UsageError where the baseline failed: every value is divided by its time."""
    failure = _failure(records, baseline)
    if failure is not None:
        raise UsageError(
            f"The baseline {baseline.variant} failed: {failure.outcome}: {failure.cause}",
            remedy="Name another baseline, or problems that it can do.",
        )


TIMER = "timer"
"""Collector of a search: its results are known at once."""
STAGE = "search"


def subject_of(
    plan: Plan, problems: Sequence[str], builds: Iterable[BuildResult], variant: str
) -> Subject:
    """A variant (id) of a plan at the problems of a search, with its library among the builds."""
    cells = [c for c in plan.cells if c.variant.id == variant and c.problem.id in problems]
    library = next((build.library for build in builds if build.variant == variant), None)
    return Subject(variant, cells, library)


def standing_bench(
    execution: Execution,
    run: RunFolder,
    lock_file: Path,
    *,
    baseline: Subject,
) -> Bench:
    """Bench whose runners have their files in a run folder, while the lock on the GPU is held."""
    collect, collector = execution.loaded.experiment.collect, COLLECTORS[TIMER].create(Tools())
    job = runner_job(execution, run.path, session=STAGE, collector=TIMER)
    folder = (run.path.resolve() / SEARCH_JOURNAL_FILE).parent
    session = SessionTemplate(
        job=replace(
            job,
            settings=MeasureSettings(warmups=collect.warmups, repeats=collect.repeats),
            process=replace(job.process, searches=True),
        ),
        collector=collector,
        metrics=(),
        limits=Limits(step_s=collect.time_limit_s),
        lock_file=lock_file,
        compiler_caches=folder / "compiled",
        variables=execution.machine.variables,
    )
    return Bench(
        start=lambda: StandingRunner(session, _new_runner_folder(folder)),
        collector=collector,
        baseline=baseline,
        repeats=collect.repeats,
    )


def _new_runner_folder(folder: Path) -> Path:
    number = 1 + len(list(folder.glob("runner.*")))
    return folder / f"runner.{number:03d}"
