"""Measures the visits that no earlier attempt has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from profiler.collect.registry import is_judged
from profiler.errors import UsageError
from profiler.machine.locks import gpu_lock
from profiler.machine.requirements import Machine
from profiler.model import BuildResult, Plan, SessionPlan
from profiler.planning.session_plans import timeline_session
from profiler.run_folder.folder import RunFolder, RunRecord
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.redact import public_environment
from profiler.run_folder.runs import create_run, next_number, resumable
from profiler.run_folder.seconds import WAITS_FOR_GPU
from profiler.sessions.agenda import (
    Explanation,
    Foresight,
    SessionPart,
    Step,
    final_session,
    later_session,
    steps,
    timeline_cells,
)
from profiler.sessions.builds.plan_builds import build_all_stamped, build_range_profiler
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.early import EarlyStart
from profiler.sessions.execution import Budget, Execution, SecondsRecorder
from profiler.sessions.explaining import Explaining
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.attempt_writer import AttemptWriter
from profiler.sessions.measuring.measurement import Measurement, Upcoming
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.recorded_sources import recorded_sources
from profiler.sessions.sources import (
    edited_files,
    hash_text,
    library_versions,
    opened_now,
    variables_now,
)
from profiler.sessions.templates import NSYS, Templates, timeline_settings

LOCK_TIMEOUT_S = 3600.0
"""Longest wait in seconds for another run on the same GPU: a long sweep takes most of an hour."""
_SHORT_WAIT_S = 0.05
"""Longest seconds of taking a free lock, which count as no wait."""


@dataclass(frozen=True)
class MeasureRequest(Execution):
    """A plan to measure, the machine, and the folder of its runs."""

    timeline: bool = False
    """Whether the finalists get a timeline by nsys, whatever the experiment's collectors."""
    explain: Sequence[str] | None = None
    """Texts of `--explain`; None: the cells that the answer is about are explained."""
    meanwhile: Callable[[], None] | None = None
    """Work that a thread does once, beside the start of the first session."""
    early: EarlyStart | None = None
    """The early process of the first session, if any."""
    budget: Budget | None = None
    """Time budget; None: everything is measured."""
    on_attempt: Callable[[Path], None] | None = None
    """Called with the folder of each attempt when all of its files are written."""
    reader: AttemptReader = field(default_factory=AttemptReader)
    """Reads the attempts of the run, here and for its report."""


def measure(
    request: MeasureRequest, builds: Sequence[BuildResult], reporter: ProgressReporter
) -> RunFolder:
    """Measure a built plan; returns the run folder, which is complete also when this raises."""
    keys = keys_of(request, builds)
    with gpu_held(request.machine, request.seconds, reporter.say) as lock_file:
        # Only here, because the lock's earlier holder may have measured the missing visits.
        run = _run_folder(request, keys, reporter)
        measure_in(
            run,
            request,
            builds=builds,
            keys=keys,
            lock_file=lock_file,
            reporter=reporter,
        )
    return run


@contextmanager
def gpu_held(
    machine: Machine, seconds: SecondsRecorder, say: Callable[[str], None]
) -> Iterator[Path]:
    """Hold the lock on a machine's GPU; the wait for it is recorded as a step."""
    uuid = machine.environment.gpu_uuid
    with ExitStack() as lock_stack:
        with seconds.step(WAITS_FOR_GPU, from_s=_SHORT_WAIT_S):
            lock_file = lock_stack.enter_context(
                gpu_lock(uuid, timeout_s=LOCK_TIMEOUT_S, on_wait=say)
            )
        yield lock_file


def measure_in(  # noqa: PLR0913 - all but the first two by keyword
    run: RunFolder,
    request: MeasureRequest,
    *,
    builds: Sequence[BuildResult],
    keys: Mapping[str, str],
    lock_file: Path,
    reporter: ProgressReporter,
    stamped: Mapping[str, str] | None = None,
) -> None:
    """Measure the missing visits of a plan in a run folder, while the lock on the GPU is held.

    `stamped`: libraries with stamps by variant id; None: they are built.
    """
    record = begin(run, request, builds, keys)
    _report_edited_files(run, record, reporter)
    book = AttemptBook(
        request,
        run=run,
        builds=builds,
        keys=keys,
        reader=request.reader,
        opened=record.opened,
        stamped=build_all_stamped(request, builds, reporter) if stamped is None else stamped,
    )
    templates = Templates(
        request,
        run.path,
        libraries={build.variant: build.library for build in builds},
        stamped=book.stamped,
        range_profiler=build_range_profiler(request),
        lock_file=lock_file,
    )
    writer = AttemptWriter(book, templates, request.on_attempt)
    measurement = Measurement(writer, reporter, run.seconds(), request.meanwhile)
    with _deletion_as_error(run), measurement:
        if request.early is not None and request.early.run == run:
            measurement.adopt(request.early.take())
        measurement.recover_attempts()
        explaining = Explaining(request, request.explain, measurement)
        makes = _Steps(request, measurement, explaining)
        agenda = steps(request.plan, explains=explaining.is_wanted)
        for place, step in enumerate(agenda, start=1):
            if makes.has_time_for(step):
                with _recording_progress(measurement, record):
                    makes.make(step, agenda[place:])
        explaining.report_unexplained(reporter)
        if request.timeline:
            with _recording_progress(measurement, record):
                makes.timeline()


def decide_steps(request: MeasureRequest, measurement: Measurement) -> None:
    """Take all steps of a plan except those that explain cells.

    For a measurement that makes nothing: it learns whether a visit is missing.
    """
    makes = _Steps(request, measurement, Explaining(request, request.explain, measurement))
    agenda = steps(request.plan)
    for place, step in enumerate(agenda, start=1):
        makes.make(step, agenda[place:])
    if request.timeline:
        makes.timeline()


def begin(
    run: RunFolder,
    request: MeasureRequest,
    builds: Sequence[BuildResult],
    keys: Mapping[str, str],
) -> RunRecord:
    """Write the files that describe a run, before it is measured; returns the run's record."""
    run.note_machine(request.machine.environment, request.plan.seed, request.loaded.base)
    run.write_spec(request.loaded.text)
    run.write_plan(request.plan)
    run.write_builds(builds)
    sources, texts = recorded_sources(
        request.loaded.experiment, request.loaded.base, request.plan.cells
    )
    run.write_sources(texts)
    record = replace(_record(request, run, keys), sources=sources)
    run.write_record(record)
    return record


@contextmanager
def _deletion_as_error(run: RunFolder) -> Iterator[None]:
    """Raise UsageError where the body fails because its run folder is gone."""
    try:
        yield
    except (UsageError, OSError) as error:
        attempts = run.path / "raw"
        gone = attempts if run.exists() else run.path
        is_deleted = isinstance(error, UsageError | FileNotFoundError) and str(attempts) in str(
            error
        )
        if gone.exists() or (gone == attempts and not is_deleted):
            raise
        raise UsageError(
            f"{gone} was deleted while it was measured.",
            remedy="Run the same command again: it begins a new run.",
        ) from error


@contextmanager
def _recording_progress(measurement: Measurement, record: RunRecord) -> Iterator[None]:
    """After the body, record the seconds of stages and the opened files, also where it raises."""
    try:
        yield
    finally:
        book = measurement.book
        if book.run.exists():  # a run that was deleted meanwhile is not half recreated
            opened, seconds = {**record.opened, **book.opened_meanwhile()}, book.execution.seconds
            book.run.write_record(replace(with_stages(record, seconds), opened=opened))
            book.run.write_seconds(measurement.earlier_executions, seconds.spans)


def _report_edited_files(run: RunFolder, record: RunRecord, reporter: ProgressReporter) -> None:
    """Print the edited files that make earlier sessions count no more."""
    attempts = run.attempts()
    parted = {name for attempt in attempts for name in attempt.record.parted}
    whole_files = {name: digest for name, digest in record.opened.items() if name not in parted}
    edited = edited_files(attempts, whole_files)
    if edited:
        reporter.say(
            f"Edited since they were read: {', '.join(sorted(edited))}. "
            "What was measured with them does not count."
        )


@dataclass(frozen=True, eq=False)
class _Steps:
    """Makes the steps of a run, one after the other."""

    request: MeasureRequest
    measurement: Measurement
    explaining: Explaining

    def make(self, step: Step, following: Sequence[Step]) -> None:
        """Measure the missing visits of a step; processes of `following` steps may wait."""
        match step:
            case SessionPart("first look", session):
                title = _look_title(self.request.plan, session, 0)
                with self._stage(session.name):
                    self.measurement.measure(session, title, self._upcoming(following))
            case SessionPart("later looks", session):
                with self._stage(session.name):
                    self._later_looks(session, following)
            case SessionPart("confirmation", session):
                self._confirmation(session, following)
            case Explanation(is_repeated):
                self.explaining.measure(self._upcoming(following), is_repeated=is_repeated)

    def has_time_for(self, step: Step) -> bool:
        """Whether a step begins: the budget is not spent, or it is the first look.

        Later looks and the confirmation ask for it only where visits of them are missing.
        """
        match step:
            case SessionPart("first look", session) if not is_judged(self.request.plan, session):
                return not self._is_left_out(session, session.name)
            case Explanation():
                return self._budget_allows("explanation")
            case _:
                return True

    def _budget_allows(self, step: str) -> bool:
        budget = self.request.budget
        return budget is None or budget.allows(step)

    def _is_left_out(self, session: SessionPlan, step: str) -> bool:
        """Whether visits of a session are missing for which the budget leaves no time."""
        book = self.measurement.book
        missing = book.missing_visits(session, book.attempts())
        return bool(missing) and not self._budget_allows(step)

    def timeline(self) -> None:
        """Record timelines of possible winners, unless the experiment records every cell."""
        plan, experiment = self.request.plan, self.request.loaded.experiment
        if any(session.collector == NSYS for session in plan.sessions):
            return
        cells = timeline_cells(plan, self.measurement.book.samples(), delta=self._delta)
        session = timeline_session(experiment, NSYS, cells)
        with self._stage(session.name):
            self.measurement.measure(session, f"{session.name}, timeline of the finalists")

    def _later_looks(self, session: SessionPlan, following: Sequence[Step]) -> None:
        """Measure the cells whose question the first look of a timing session leaves open."""
        plan = self.request.plan
        for look in range(1, len(plan.looks)):
            samples = self.measurement.book.samples()
            later = later_session(plan, session, samples, look, delta=self._delta)
            if later.visits:
                if self._is_left_out(later, "later looks"):
                    return
                upcoming = partial(self._after_look, session, look, following)
                self.measurement.measure(later, _look_title(plan, session, look), upcoming)

    def _confirmation(self, session: SessionPlan, following: Sequence[Step]) -> None:
        """Measure the possible winners again."""
        samples = self.measurement.book.samples()
        final = final_session(self.request.plan, session, samples, delta=self._delta)
        with self._stage(final.name):
            if final.visits and not self._is_left_out(final, "confirmation"):
                self.measurement.measure(final, upcoming=self._upcoming(following))

    def _upcoming(self, following: Sequence[Step]) -> Upcoming:
        """Function that foresees the sessions that follow."""
        return lambda: self._foresight(following).following(following)

    def _after_look(
        self, session: SessionPlan, look: int, following: Sequence[Step]
    ) -> Iterable[SessionPlan]:
        return self._foresight(following).after_look(session, look, following)

    def _foresight(self, following: Sequence[Step]) -> Foresight:
        samples = self.measurement.book.samples()
        explained = self.explaining.foreseen(samples) if Explanation() in following else None
        return Foresight(self.request.plan, samples, explained, self._delta)

    def _stage(self, name: str) -> AbstractContextManager[None]:
        return self.measurement.book.execution.seconds.stage(name)

    @property
    def _delta(self) -> float:
        return self.request.loaded.experiment.margin_pct / 100


def _look_title(plan: Plan, session: SessionPlan, look: int) -> str:
    if not is_judged(plan, session) or len(plan.looks) < 2:
        return session.name
    return f"{session.name}, look {look + 1} of {len(plan.looks)}"


def _run_folder(
    request: MeasureRequest, keys: Mapping[str, str], reporter: ProgressReporter
) -> RunFolder:
    name = request.loaded.experiment.name
    on_outdated = partial(report_outdated_run, reporter, keys.keys())
    resumed = (
        None
        if request.fresh
        else resumable(request.out, name, keys, warn=reporter.warn, on_outdated=on_outdated)
    )
    early = request.early
    if early is not None and early.begins and resumed is None:
        return early.run
    # Another process may have begun the run to resume while we waited or built.
    if early is not None and early.run != resumed:
        early.leave()
    return resumed_or_new(request, resumed, reporter)


def resumed_or_new(
    request: MeasureRequest, earlier: RunFolder | None, reporter: ProgressReporter
) -> RunFolder:
    """The earlier run to resume, else a new run."""
    if earlier is None:
        return create_run(request.out, request.loaded.experiment.name, request.created)
    reporter.say(f"Resuming {earlier.path} (--fresh starts a new run).")
    return earlier


def report_outdated_run(
    reporter: ProgressReporter, cells: Set[str], run: RunFolder, record: RunRecord
) -> None:
    """Print how many cells (ids) of this run an earlier run has whose results count no more."""
    if count := len(record.keys.keys() & cells):
        reporter.say(
            f"A new run: {run.path} has {count} of these cells, but measured with other settings, "
            "sources or builds, or on another machine."
        )


def _record(request: MeasureRequest, run: RunFolder, keys: Mapping[str, str]) -> RunRecord:
    experiment, base = request.loaded.experiment, request.loaded.base
    earlier = run.record() if run.exists() else None
    today = timeline_settings(request)  # the earlier ones stay where this run makes none
    if request.machine.nsys is None:
        del today[NSYS]
    return RunRecord(
        experiment=experiment.name,
        created=earlier.created if earlier else request.created,
        seed=request.plan.seed,
        environment=public_environment(request.machine.environment, request.plan.seed),
        keys={**(earlier.keys if earlier else {}), **keys},
        stages=earlier.stages if earlier else {},
        spec_path=request.loaded.shown_path,
        overrides=request.loaded.flags,
        timelines={**(earlier.timelines if earlier else {}), **today},
        number=earlier.number if earlier else next_number(request.out, experiment.name),
        opened=opened_now(request.loaded, run.attempts()),
        variables=hash_text(repr(variables_now(experiment, base))),
        libraries=library_versions(experiment, base),
    )


def with_stages(record: RunRecord, seconds: SecondsRecorder) -> RunRecord:
    """Record with the seconds of this execution added to those of earlier executions."""
    names = dict.fromkeys([*record.stages, *seconds.stages])
    stages = {n: record.stages.get(n, 0.0) + seconds.stages.get(n, 0.0) for n in names}
    return replace(record, stages=stages)
