"""Making the visits of a session that no earlier attempt has made."""

from __future__ import annotations

import operator
import shlex
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Self

import pandas as pd

from profiler.analyse.clocks import MAX_REPEATS
from profiler.collect import Command
from profiler.collect.kind import Need, Records
from profiler.collect.ncu import Ncu
from profiler.collect.nsys import Nsys
from profiler.collect.registry import COLLECTORS, needed
from profiler.errors import UsageError
from profiler.machine.clock_sampler import ClockSampler
from profiler.machine.gpu_processes import GpuProcesses
from profiler.machine.requirements import Machine
from profiler.model import (
    BuildResult,
    Cell,
    OrderedParts,
    Outcome,
    Plan,
    SessionKind,
    SessionPlan,
    Visit,
)
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.planning.space import Space
from profiler.planning.spec import CommandWorkload, LoadedSpec
from profiler.run_folder.folder import (
    CSV_FILE,
    JOURNAL_FILE,
    Attempt,
    AttemptRecord,
    AttemptResult,
    RunFolder,
    compress,
    compress_reports,
    finish_attempt,
)
from profiler.run_folder.load.aliases import find_aliases
from profiler.run_folder.load.attempts import AttemptReader, Loaded
from profiler.run_folder.load.outcomes import Results, failures, gather
from profiler.run_folder.load.practical_roofs import missing_roofs
from profiler.run_folder.load.throttling import throttled_again
from profiler.run_folder.seconds import Seconds
from profiler.runner import protocol
from profiler.sessions.attempt import (
    hand_visits,
    has_started,
    recover,
    run_attempt,
    start_waiting,
)
from profiler.sessions.explain_files import keep_pages
from profiler.sessions.forecasts.forecast import VisitForecast, newest_run, rest_of
from profiler.sessions.forecasts.past import costs_of_run, costs_of_sessions, past_of_run
from profiler.sessions.forecasts.rest import Rest
from profiler.sessions.forecasts.session_costs import SessionCosts
from profiler.sessions.kernel_checks import check_kernels
from profiler.sessions.overlap.handing_on import Begun, SeenSoFar
from profiler.sessions.overlap.program_turns import ProgramTurn, Turns, turns_of
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.overlap.templates import Templates
from profiler.sessions.overlap.waiting import Waiting, WaitingRoom, clear_abandoned, places
from profiler.sessions.process import Cause, SessionResult
from profiler.sessions.program import (
    Program,
    ended_before_its_turn,
    run_check,
    run_visit,
    start_waiting_visit,
)
from profiler.sessions.progress import ProgressReporter, VisitProgress
from profiler.sessions.recovery import MAX_VISITS_PER_SESSION, Ended, chunk, run_visits
from profiler.sessions.watchdog import Record


@dataclass(frozen=True)
class _Work:
    """Missing visits of a session, and the sessions whose processes may wait meanwhile."""

    session: SessionPlan
    missing: Sequence[Visit]
    expected: Sequence[SessionPlan]
    earlier: Sequence[Loaded]
    """Attempts of the run before this session."""
    seen: SeenSoFar = field(default_factory=SeenSoFar)


@dataclass
class Measurement:
    """Makes the visits of one session after another, into one run folder."""

    loaded: LoadedSpec
    plan: Plan
    machine: Machine
    run: RunFolder
    builds: Sequence[BuildResult]
    keys: Mapping[str, str]
    """Cell id → key of today."""
    lock_file: Path
    """Lock file that is held while anything of a session lives."""
    reporter: ProgressReporter
    space: Space
    """The workload's, live: asked about the kernels of each attempt when it is first read."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """Files that earlier sessions opened, as RunRecord.opened has them of today."""
    earlier: Set[Path] = frozenset()
    """Folders of the attempts that earlier executions made."""
    seconds: SecondsRecorder = field(default_factory=SecondsRecorder)
    """Where the seconds of this execution go."""
    took: Seconds = field(default_factory=Seconds)
    """The same of earlier executions."""
    meanwhile: Callable[[], None] | None = None
    """What is done once, beside the start of the first session, in a thread of its own."""
    stamped: Mapping[str, str] = field(default_factory=dict)
    """Libraries with stamps inside their kernels, by variant id: what in-kernel sessions launch."""
    on_attempt: Callable[[Path], None] | None = None
    """Called with the folder of each attempt when all of its files are written."""
    reader: AttemptReader = field(default_factory=AttemptReader)
    _gathered: tuple[Sequence[Loaded], Results] | None = None
    """Results so far, and the attempts that they are of."""
    _templates: Templates = field(init=False)
    _waiting_room: WaitingRoom[SessionPlan] = field(init=False)
    _program_room: WaitingRoom[ProgramTurn] = field(init=False)
    _begun: Begun | None = None
    """The next session, which makes visits while the one before still ends."""
    _packing: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "packing"))
    """Compresses reports of sessions beside those that follow."""
    _gpu_processes: dict[Path, dict[str, int | None]] = field(default_factory=dict)
    """Folder of an attempt → AttemptResult.gpu_processes."""
    _processes: GpuProcesses | None = None
    """Those of the newest attempt."""

    def __post_init__(self) -> None:
        libraries = {build.variant: build.library for build in self.builds}
        self._templates = Templates(
            loaded=self.loaded,
            plan=self.plan,
            machine=self.machine,
            folder=self.run.path,
            libraries=libraries,
            stamped=self.stamped,
        )
        self._waiting_room = WaitingRoom(self._start_waiting, self.reporter.say)
        self._program_room = WaitingRoom(
            self._start_program,
            self.reporter.say,
            places=min(_MOST_WAITING_PROGRAMS, places()),
            import_is_safe=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes that wait for sessions which do not come, and finish what is packed."""
        self._take_begun(None)
        self._waiting_room.__exit__()
        self._program_room.__exit__()
        self._packing.shutdown()

    def adopt(self, waiting: Waiting) -> None:
        """Make a session in a process that waits already."""
        self._waiting_room.adopt(waiting)

    def save_what_was_left(self) -> None:
        """Recover results of tools that were killed together with an earlier profiler."""
        clear_abandoned(self.run.path / "raw")
        for attempt in self.run.attempts():
            if attempt.record.collector not in COLLECTORS:  # damaged, or of a newer version
                continue
            if attempt.result is None and attempt.record.kind == SessionKind.TIMELINE:
                self._save_timeline(attempt)
                continue
            log = attempt.folder / CSV_FILE
            if attempt.result is None and log.exists():
                recover(
                    self._templates.tool(attempt.record.collector),
                    attempt.folder,
                )
                compress(log)
            if attempt.result is None and attempt.record.kind == SessionKind.EXPLAIN:
                keep_pages(self._templates.ncu(), attempt.folder)

    def check_kernels_of_what_was_left(self) -> None:
        """Check the kernels of attempts whose profiler was stopped before it did."""
        for attempt in self.run.attempts():
            if attempt.record.visit is None:
                self._check_kernels(attempt)

    def _check_kernels(self, attempt: Attempt) -> None:
        """Check the kernels of an attempt by the space, and write the result."""
        check = check_kernels(self._load(attempt), self.plan, self.space)
        if check != attempt.kernel_check:
            self.run.write_kernel_check(attempt.folder, check)

    def _save_timeline(self, attempt: Attempt) -> None:
        """Clean what a session left, if this machine still has its tool."""
        collector = attempt.record.collector
        if needed([collector], Need.NSYS) and self.machine.nsys is None:
            return
        if attempt.record.settings == self._templates.timelines.settings(collector):
            self._templates.timelines.keep(collector, attempt.folder, ended_well=False)

    def samples(self) -> pd.DataFrame:
        """Samples so far of cells that did not fail."""
        results = self._results()
        failed = {cell for cell, status in results.statuses.items() if status.outcome.failed}
        return results.samples[~results.samples["cell"].isin(failed)]

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the plan; of an external command its parts, as far as they were seen."""
        if not isinstance(self.loaded.experiment.workload, CommandWorkload):
            return self.plan.cells
        return self._results().cells

    def _results(self) -> Results:
        """Results so far: gathered again only where an attempt has come, or its end."""
        attempts = self._attempts()
        if self._gathered is None or not _are_same(self._gathered[0], attempts):
            results = gather(self.plan, self.builds, attempts, self.machine.environment)
            self._gathered = attempts, results
        return self._gathered[1]

    def launches(self) -> dict[str, int]:
        """Most launches that ncu profiled in a visit of an external command, by planned cell."""
        launches: dict[str, int] = {}
        for loaded in self._attempts():
            visit, counted = loaded.attempt.record.visit, loaded.attempt.record.counted
            if visit is not None and not counted:
                launches[visit["cell"]] = max(launches.get(visit["cell"], 0), loaded.launches)
        return launches

    def _attempts(self) -> list[Loaded]:
        """Every attempt of the run so far; each is read once."""
        return [self._load(attempt) for attempt in self.run.attempts()]

    def missing(self, session: SessionPlan) -> tuple[Visit, ...]:
        """Visits of a session that no attempt has made."""
        return self._missing(session, self._attempts(), frozenset())

    def measure(
        self, session: SessionPlan, title: str = "", upcoming: Sequence[SessionPlan] = ()
    ) -> None:
        """Make the missing visits of a session; `title` is its name on the console.

        Blocks in which the GPU was throttled are missing as well, as long as they may be repeated.
        `upcoming`: the sessions that follow, as far as they are known; without visits where these
        are not.
        """
        title = title or session.name
        for round_ in range(1 + MAX_REPEATS):
            earlier = self._attempts()
            throttled = throttled_again(self.plan, session.name, earlier)
            missing = self._missing(session, earlier, throttled)
            repeats = not throttled.isdisjoint(missing)
            if round_ and not repeats:
                return
            if missing:
                suffix = " (repeating throttled blocks)" if repeats else ""
                expected = self._expected(session, upcoming, earlier)
                work = _Work(session, missing, expected, earlier)
                self._make(work, f"{title}{suffix}")
            else:
                self.reporter.say(f"{title}: nothing is missing.")

    def _make(self, work: _Work, title: str) -> None:
        session, missing, earlier = work.session, work.missing, work.earlier
        cells = {cell.id: cell for cell in self.plan.cells}
        counts = Counter(visit.cell for visit in missing)
        self.reporter.say(f"{title}: {len(missing)} visits of {len(counts)} cells")
        progress = VisitProgress(
            self.reporter,
            title,
            cells,
            dict(counts),
            rest=self._rest(session, earlier),
            durations_ns=_durations(earlier),
        )
        with progress:
            workload = self.loaded.experiment.workload
            has_samples = any(
                len(attempt.samples) for attempt in earlier if _tells(attempt, session)
            )
            if isinstance(workload, CommandWorkload):
                self._run_programs(workload, work, progress, has_samples)
            else:
                checked = {cell for attempt in earlier for cell in attempt.checked()}
                job = self._templates.job(session, workload, checked)
                self._run_runner(job, work, progress, has_samples)

    def _rest(self, session: SessionPlan, earlier: Sequence[Loaded]) -> Rest | None:
        """Forecasts a session by those of this run, and by the newest other one on such a GPU."""
        if isinstance(self.loaded.experiment.workload, CommandWorkload):
            return None
        collect = self.loaded.experiment.collect
        problem_of = {cell.id: cell.problem.id for cell in self.plan.cells}
        journals = ((loaded.attempt.record, loaded.records) for loaded in earlier)
        here = past_of_run(costs_of_sessions(journals, problem_of), session, collect)
        elsewhere = past_of_run(self._costs_elsewhere, session, collect)
        past = (*elsewhere.sessions, *here.sessions)
        return rest_of(session, self.plan.cells, collect, past, here.checked)

    @cached_property
    def _costs_elsewhere(self) -> list[tuple[AttemptRecord, SessionCosts]]:
        """Costs of the sessions of the newest other run on such a GPU; none where there is none."""
        out, gpu = self.run.path.parent.parent, self.machine.environment.gpu
        run = newest_run(out, self.plan.experiment, gpu, besides=self.run.path)
        problem_of = {cell.id: cell.problem.id for cell in self.plan.cells}
        return costs_of_run(run, problem_of) if run is not None else []

    def _expected(
        self, session: SessionPlan, upcoming: Sequence[SessionPlan], earlier: Sequence[Loaded]
    ) -> list[SessionPlan]:
        """Sessions whose processes may wait while one measures, in the order of their turns.

        Only where ncu measures, and for ncu: it times a kernel alone on the GPU, while to a timer
        the start of another process is a disturbance.
        """
        if not _overlaps(session):
            return []
        following = takewhile(_overlaps, upcoming)
        return [
            later
            for later in following
            if not later.visits or self._missing(later, earlier, frozenset())
        ]

    def _missing(
        self, session: SessionPlan, earlier: Sequence[Loaded], throttled: Set[Visit]
    ) -> tuple[Visit, ...]:
        """Visits still to make, including a repeat of those that were `throttled`."""
        measured: set[Visit] = set()
        for loaded in earlier:
            if loaded.attempt.record.session == session.name:
                measured |= loaded.visits()
        measured -= throttled
        skipped = {build.variant for build in self.builds if not build.ok}
        limit = self.loaded.experiment.collect.time_limit_s
        if session.kind is SessionKind.IN_KERNEL:
            skipped |= {v.id for v in self.plan.variants if v.id not in self.stamped}
        failed = failures(self.plan, earlier, kind=session.kind)
        gone = {cell for cell, failure in failed.items() if failure.stands(limit)}
        gone |= set(find_aliases(self.plan.cells, self.builds))
        variant_of = {cell.id: cell.variant.id for cell in self.plan.cells}
        return tuple(
            visit
            for visit in session.visits
            if visit not in measured
            and visit.cell not in gone
            and variant_of[visit.cell] not in skipped
        )

    def _load(self, attempt: Attempt) -> Loaded:
        """Read an attempt, once."""
        capability = self.machine.environment.compute_capability
        settings = self._templates.timelines.all_settings()
        # What this execution measured counts until its end, whatever was edited meanwhile.
        opened = self.opened if attempt.folder in self.earlier else {}
        return self.reader.load(attempt, self.keys, capability, settings, opened)

    # ---- a workload in Python: one process makes many visits ----

    def _run_runner(
        self, job: protocol.Job, work: _Work, progress: VisitProgress, has_samples: bool
    ) -> None:
        session, missing = work.session, work.missing
        template = self._templates.session(session, job, self.lock_file)
        room = self._waiting_room
        handed: set[Visit] = set()

        def attempt(visits: Sequence[Visit]) -> tuple[Path, SessionResult]:
            begun = self._take_begun(session.name)
            waiting = begun.waiting if begun is not None else room.take(session.name)
            folder, result = run(visits if begun is None else begun.visits, waiting, begun)
            if waiting is not None and not has_started(folder):
                room.discard(waiting)
                return run(visits, None)
            return folder, result

        def run(
            visits: Sequence[Visit], waiting: Waiting | None, begun: Begun | None = None
        ) -> tuple[Path, SessionResult]:
            record = self._attempt_record(session, visits)
            with_roofs = replace(
                template, job=replace(job, practical_roofs=self._roofs(session, self._attempts()))
            )
            folder = self._new_attempt(session, record, waiting)
            self.run.write_command(folder, shlex.join(template.command(folder).argv))
            handed.update(visits)
            rest = tuple(visit for visit in missing if visit not in handed)
            again = session.name if rest else None
            following = [session, *work.expected] if again and _overlaps(session) else work.expected

            def on_record(record: Record) -> None:
                progress.record(record)
                work.seen.record(record)
                comes_next = room.saw(record, again=again)
                if comes_next is not None:
                    self._begin(comes_next, work, rest)

            began = time.monotonic() if waiting is None else waiting.began
            with begun.sampling if begun is not None else self._clocks(folder, waiting):
                result = run_attempt(
                    with_roofs,
                    visits,
                    folder,
                    on_record,
                    waiting=waiting,
                    on_start=lambda: self._session_started(following),
                )
            journal = protocol.read_journal(folder / JOURNAL_FILE)
            self.seconds.session(folder.name, began, journal)
            self._keep_files(session, folder, result)
            return folder, result

        def ended(end: Ended) -> None:
            result = self._attempt_result(end)
            work.seen.blame(result.failed)
            finish_attempt(end.folder, result)
            self._packing.submit(compress_reports, end.folder)
            self._check_kernels(self.run.attempt(end.folder))
            self._written(end.folder)
            if end.blamed is not None:
                progress.failed(end.blamed.cell, f"{end.blamed.outcome}: {end.blamed.cause}")

        for visits in self._batches(session, missing):
            recovered = run_visits(
                visits,
                session=session.name,
                problem_of={cell.id: cell.problem.id for cell in self.plan.cells},
                collector=template.collector,
                attempt=attempt,
                measured=self._measured,
                ended=ended,
                has_samples=has_samples,
                limit=_most_visits(session),
            )
            has_samples = has_samples or bool(recovered.measured)

    def _begin(self, waiting: Waiting, work: _Work, rest: Sequence[Visit]) -> None:
        """Have the next process make the visits that are foreseen of it.

        `rest`: what is left of the session that ends.
        """
        upcoming = [session for session in work.expected if session.visits]
        if waiting.session == work.session.name:
            session = work.session
        else:
            session = next(later for later in upcoming if later.name == waiting.session)
            rest = self._missing(session, work.earlier, frozenset())
        problem_of = {cell.id: cell.problem.id for cell in self.plan.cells}
        visits = chunk(work.seen.wanted(rest), problem_of, _most_visits(session))
        workload = self.loaded.experiment.workload
        if not visits or isinstance(workload, CommandWorkload):
            return
        checked = {cell for attempt in work.earlier for cell in attempt.checked()}
        job = replace(
            self._templates.job(session, workload, checked | work.seen.checked),
            practical_roofs=work.seen.roofs_left(self._roofs(session, work.earlier)),
        )
        with ExitStack() as sampling:
            sampling.enter_context(self._clocks(waiting.folder, waiting))
            hand_visits(self._templates.session(session, job, self.lock_file), visits, waiting)
            self._waiting_room.release(waiting)
            self._begun = Begun(waiting, visits, sampling.pop_all())

    def _take_begun(self, session: str | None) -> Begun | None:
        """The process that has begun with a session of this name; one of another is ended."""
        begun, self._begun = self._begun, None
        if begun is None or begun.waiting.session == session:
            return begun
        begun.end()
        return None

    def _written(self, folder: Path) -> None:
        """Hand on the folder of an attempt that is complete."""
        if self.on_attempt is not None:
            self.on_attempt(folder)

    def _session_started(self, expected: Sequence[SessionPlan]) -> None:
        self._waiting_room.expect(expected)
        self._do_meanwhile()

    def _do_meanwhile(self) -> None:
        if self.meanwhile is not None:
            threading.Thread(target=self.meanwhile, name="meanwhile", daemon=True).start()
            self.meanwhile = None

    def _start_waiting(self, session: SessionPlan) -> Waiting:
        """Start the process of a session that comes later."""
        workload = self.loaded.experiment.workload
        if isinstance(workload, CommandWorkload):
            raise TypeError("the session of an external command does not wait")
        job = self._templates.job(session, workload)
        template = self._templates.session(session, job, self.lock_file)
        folder = self.run.reserve_attempt(session.name)
        try:
            return start_waiting(template, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _batches(self, session: SessionPlan, missing: Sequence[Visit]) -> Sequence[Sequence[Visit]]:
        """Visits that a process may make together."""
        recorded = COLLECTORS[session.collector].report_file is not None
        if recorded and self._templates.timelines.one_visit_a_process:
            return [(visit,) for visit in missing]
        return [missing]

    def _new_attempt(
        self, session: SessionPlan, record: AttemptRecord, waiting: Waiting | None = None
    ) -> Path:
        if waiting is not None:
            self.run.begin_attempt(waiting.folder, record)
            return waiting.folder
        folder = self.run.new_attempt(record)
        if session.kind is SessionKind.TIMELINE:
            self._templates.timelines.prepare(folder)
        return folder

    def _keep_files(self, session: SessionPlan, folder: Path, result: SessionResult) -> None:
        """Keep what a later reader needs of the tool's own files."""
        if session.kind is SessionKind.TIMELINE:
            ended_well = result.cause is Cause.FINISHED
            self._templates.timelines.keep(session.collector, folder, ended_well=ended_well)
        if session.kind is SessionKind.EXPLAIN:
            with self.seconds.step("keeps pages"):
                keep_pages(self._templates.ncu(), folder)

    @contextmanager
    def _clocks(self, folder: Path, waiting: Waiting | None = None) -> Iterator[None]:
        """Sample the GPU's clocks into the folder of an attempt while it runs; see who uses it.

        A process that waited may have opened the GPU already, so that the first look has no meaning
        any more: the one before the first session of the row stands for it. The first session has
        not: its gates open inside.
        """
        processes = GpuProcesses()
        if waiting is not None and self._processes is not None:
            processes = self._processes.of_next_session()
        self._processes = processes
        try:
            with ClockSampler(folder, self.machine.environment.gpu_uuid, processes=processes):
                yield
        finally:
            compress(folder / CLOCKS_FILE)
            self._gpu_processes[folder] = processes.others()

    def _measured(self, folder: Path) -> Set[Visit]:
        return self._load(self.run.attempt(folder)).visits()

    def _roofs(self, session: SessionPlan, earlier: Sequence[Loaded]) -> tuple[str, ...]:
        """Practical roofs that a session is to measure: those that no earlier attempt has.

        None where nothing is explained: they are part of the why, and take some seconds.
        """
        if not self.loaded.experiment.collect.explain:
            return ()
        return missing_roofs(session.metrics, earlier)

    def _attempt_record(self, session: SessionPlan, visits: Sequence[Visit]) -> AttemptRecord:
        recorded = session.kind is SessionKind.TIMELINE
        return AttemptRecord(
            settings=self._templates.timelines.settings(session.collector) if recorded else {},
            session=session.name,
            collector=session.collector,
            kind=session.kind.value,
            metrics=session.metrics,
            time_limit_s=self.loaded.experiment.collect.time_limit_s,
            keys={cell: self.keys[cell] for cell in dict.fromkeys(v.cell for v in visits)},
        )

    def _attempt_result(self, end: Ended) -> AttemptResult:
        failed: dict[str, tuple[str, str]] = {}
        if end.blamed is not None:
            outcome_and_cause = (end.blamed.outcome.value, end.blamed.cause)
            failed = dict.fromkeys(self._hit_by(end), outcome_and_cause)
        return AttemptResult(
            cause=end.result.cause.value,
            seconds=end.result.seconds,
            failed=failed,
            gpu_processes=self._gpu_processes[end.folder],
        )

    def _hit_by(self, end: Ended) -> tuple[str, ...]:
        """The failing cell, and its siblings where the step was one of their whole problem."""
        failing_cell = end.result.failing_cell
        if failing_cell is None or failing_cell.phase not in protocol.PROBLEM_PHASES:
            return (end.blamed.cell,) if end.blamed is not None else ()
        problem_of = {cell.id: cell.problem.id for cell in self.plan.cells}
        problem = problem_of[failing_cell.cell]
        return tuple(cell for cell, other in problem_of.items() if other == problem)

    # ---- an external command: one process makes one visit ----

    def _run_programs(
        self,
        workload: CommandWorkload,
        work: _Work,
        progress: VisitProgress,
        has_samples: bool,
    ) -> None:
        later = (
            (session, self._missing(session, work.earlier, frozenset()))
            for session in work.expected
        )
        turns = turns_of([(work.session, work.missing), *later])
        if self._begun is None:  # its tool starts while the checks run
            self._program_room.expect(turns.ahead())
        visited = {visit.cell for visit in work.missing}
        checked = [cell for cell in self.plan.cells if cell.id in visited]
        failed = self._run_checks(self._program(work.session), checked)
        for cell, (outcome, cause) in failed.items():
            turns.failed.add(cell)
            progress.failed(cell, f"{outcome}: {cause}")
        forecast = VisitForecast(workload, self.reporter.say, len(work.missing))
        for turn in turns.of_session(work.session):
            end, failure, loaded = self._make_turn(turn, turns, has_samples=has_samples)
            has_samples = has_samples or bool(loaded.visits())
            if failure is None:
                turns.measured.add(turn.visit.cell)
                progress.visited(turn.visit.cell)
                forecast.visited(end.seconds, loaded.launches)
            else:
                turns.failed.add(turn.visit.cell)
                progress.failed(turn.visit.cell, f"{failure[0]}: {failure[1]}")

    def _make_turn(
        self, turn: ProgramTurn, turns: Turns, *, has_samples: bool
    ) -> tuple[SessionResult, tuple[Outcome, str] | None, Loaded]:
        """Make one visit, while the processes of those that follow wait.

        How its process ended, outcome and cause where it went wrong, and its results.
        """
        program, session = self._program(turn.session), turn.session
        begun = self._take_begun(turn.name)
        if begun is None:
            self._program_room.expect((turn, *turns.ahead()))
        waiting = begun.waiting if begun is not None else self._program_room.take(turn.name)
        folder, end = self._run_turn(program, turn, turns, waiting, begun)
        if waiting is not None and ended_before_its_turn(folder, end):
            self._program_room.discard(waiting)
            folder, end = self._run_turn(program, turn, turns, None, None)
        self._keep_files(session, folder, end)
        loaded = self._load(self.run.attempt(folder))
        fault, measured = loaded.part_fault, bool(loaded.visits())
        failure = program.failure(
            folder, end, measured=measured or bool(fault), has_samples=has_samples
        ) or ((Outcome.PARTS_DIFFER, fault) if fault else None)
        result = _command_result([turn.visit.cell], end, failure)
        finish_attempt(folder, replace(result, gpu_processes=self._gpu_processes[folder]))
        self._written(folder)
        self._packing.submit(compress_reports, folder)
        return end, failure, loaded

    def _run_turn(
        self,
        program: Program,
        turn: ProgramTurn,
        turns: Turns,
        waiting: Waiting | None,
        begun: Begun | None,
    ) -> tuple[Path, SessionResult]:
        """Run the process of a visit; its folder, and how it ended."""
        record = self._program_record(program, turn)
        folder = self._new_attempt(turn.session, record, waiting)
        command = self._program_command(program, turn, record, folder)
        self.run.write_command(folder, shlex.join(command.argv))
        began = time.monotonic() if waiting is None else waiting.began
        ends: list[Record] = []

        def on_start() -> None:
            self._program_room.expect(turns.ahead())
            self._do_meanwhile()

        def on_end() -> None:
            ends.append({"event": protocol.SESSION_FINISHED, "monotonic": time.monotonic()})
            if turns.may_go_on(turn):
                self._let_next_begin(turns, ends[-1])

        with begun.sampling if begun is not None else self._clocks(folder, waiting):
            end = run_visit(
                program, command, folder, waiting=waiting, on_start=on_start, on_end=on_end
            )
        journal = protocol.read_journal(folder / JOURNAL_FILE)
        self.seconds.session(folder.name, began, [*journal, *ends])
        return folder, end

    def _let_next_begin(self, turns: Turns, record: Record) -> None:
        """Let the next program go, and start the tool of the one after it.

        `record`: of the end of the program before, whose tool still writes.
        """
        waiting = self._program_room.saw(record)
        if waiting is None:
            return
        with ExitStack() as sampling:
            sampling.enter_context(self._clocks(waiting.folder, waiting))
            waiting.open(*protocol.GATES)
            self._program_room.release(waiting)
            self._begun = Begun(waiting, (), sampling.pop_all())
        self._program_room.expect(turns.ahead()[1:])

    def _start_program(self, turn: ProgramTurn) -> Waiting:
        """Start the process of a visit before its turn."""
        program = self._program(turn.session)
        if not program.can_wait:
            raise UsageError(f"{turn.session.collector} starts a program more than once")
        folder = self.run.reserve_attempt(turn.session.name)
        try:
            record = self._program_record(program, turn)
            command = self._program_command(program, turn, record, folder, held=True)
            return start_waiting_visit(program, turn.name, command, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _program(self, session: SessionPlan) -> Program:
        """The external command as a session measures it."""
        workload = self.loaded.experiment.workload
        if not isinstance(workload, CommandWorkload):
            raise TypeError("the workload is no external command")
        return Program(
            workload,
            base=self.loaded.base,
            tool=self._program_tool(session),
            metrics=self._templates.metrics(session),
            limits=self._templates.limits(),
            lock_file=self.lock_file,
            variables=self.machine.variables,
        )

    def _program_command(
        self,
        program: Program,
        turn: ProgramTurn,
        record: AttemptRecord,
        folder: Path,
        *,
        held: bool = False,
    ) -> Command:
        """The command of a visit; `held`: of a program that waits for its turn."""
        cell = next(cell for cell in self.plan.cells if cell.id == turn.visit.cell)
        return program.command(cell, folder, record.parts, counted=record.counted, held=held)

    def _program_record(self, program: Program, turn: ProgramTurn) -> AttemptRecord:
        """Record of a visit; the first of a cell counts the launches of its parts."""
        session, visit = turn.session, turn.visit
        asked = program.workload.parts
        parts = asked.reading() if asked is not None else None
        if parts is not None and session.kind is SessionKind.EXPLAIN:
            parts = replace(parts, take=1)  # one launch tells why
        first = session.name == self.plan.sessions[0].name and visit.block == visit.arm == 0
        record = self._attempt_record(session, [visit])
        counts = first and isinstance(parts, OrderedParts)
        return replace(record, visit=asdict(visit), parts=parts, counted=counts)

    def _run_checks(
        self, program: Program, cells: Sequence[Cell]
    ) -> dict[str, tuple[Outcome, str]]:
        """Run the check of each cell that none has passed; outcome and cause of those that fail.

        Cells whose checks are the same command share one.
        """
        passed = {cell for attempt in self._attempts() for cell in attempt.checked()}
        commands: dict[str, tuple[Command, dict[str, None]]] = {}
        for cell in cells:
            command = None if cell.id in passed else program.check_command(cell)
            if command is not None:
                _, checked = commands.setdefault(shlex.join(command.argv), (command, {}))
                checked[cell.id] = None
        if commands:
            self._take_begun(None)  # a check uses the GPU, too
            number = len(commands)
            self.reporter.say(f"check: {number} command{'' if number == 1 else 's'}")
        failed: dict[str, tuple[Outcome, str]] = {}
        for line, (command, checked) in commands.items():
            record = AttemptRecord(
                session=SessionKind.CHECK.value,
                collector=SessionKind.CHECK.value,
                kind=SessionKind.CHECK.value,
                metrics=(),
                keys={cell: self.keys[cell] for cell in checked},
                time_limit_s=self.loaded.experiment.collect.time_limit_s,
            )
            folder = self.run.new_attempt(record)
            self.run.write_command(folder, line)
            end, failure = run_check(program, command, folder)
            finish_attempt(folder, _command_result(checked, end, failure))
            self._written(folder)
            failed |= dict.fromkeys(checked, failure) if failure is not None else {}
        return failed

    def _program_tool(self, session: SessionPlan) -> Ncu | Nsys:
        tool = self._templates.collector(session)
        if not isinstance(tool, Ncu | Nsys):  # the spec's own check refuses any other
            raise TypeError(f"{session.collector} cannot measure an external command")
        return tool


MAX_TIMELINE_VISITS = 300
"""Of a session: what a killed nsys recorded is lost, and one report holds every call of CUDA."""


_MOST_WAITING_PROGRAMS = 1
"""With two the programs of eight visits took 12.0 s, with one 11.0 (H200)."""

_TIMED = (SessionKind.TIMING, SessionKind.FINAL)


def _durations(earlier: Sequence[Loaded]) -> dict[str, float]:
    """Median duration by cell id over the samples so far, in nanoseconds."""
    frames = [
        loaded.samples
        for loaded in earlier
        if loaded.attempt.record.kind in _TIMED and "duration_ns" in loaded.samples
    ]
    if not frames:
        return {}
    medians = pd.concat(frames).groupby("cell")["duration_ns"].median().dropna()
    return {str(cell): float(duration) for cell, duration in medians.items()}


def _are_same(earlier: Sequence[Loaded], now: Sequence[Loaded]) -> bool:
    return len(earlier) == len(now) and all(map(operator.is_, earlier, now))


def _most_visits(session: SessionPlan) -> int:
    return MAX_TIMELINE_VISITS if session.kind is SessionKind.TIMELINE else MAX_VISITS_PER_SESSION


def _overlaps(session: SessionPlan) -> bool:
    """Whether starts of sessions may overlap with this one, and its start with others."""
    return COLLECTORS[session.collector].records is Records.COUNTERS


def _tells(loaded: Loaded, session: SessionPlan) -> bool:
    """Whether samples of an attempt show that the tool of a session works."""
    return session.kind is not SessionKind.TIMELINE or (
        loaded.attempt.record.session == session.name
    )


def _command_result(
    cells: Iterable[str], end: SessionResult, failure: tuple[Outcome, str] | None
) -> AttemptResult:
    blame = None if failure is None else (failure[0].value, failure[1])
    failed = {} if blame is None else dict.fromkeys(cells, blame)
    return AttemptResult(cause=end.cause.value, seconds=end.seconds, failed=failed)
