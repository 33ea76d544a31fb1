"""The live stage: build what is missing, and measure the visits that no earlier attempt has."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernels.recipe import Recipe
from profiler.collect import Collector
from profiler.collect.ncu import Ncu
from profiler.collect.timer import Timer
from profiler.execute.build import build_variants
from profiler.execute.command import Program, run_visit
from profiler.execute.local import SessionResult
from profiler.execute.lock import GpuLock, gpu_lock
from profiler.execute.recovery import Ended, run_visits
from profiler.execute.session import Session, run_attempt, salvage
from profiler.execute.watchdog import Limits
from profiler.keys import cell_keys, hash_files, source_files
from profiler.machine import Machine
from profiler.metrics import ncu_names
from profiler.model import (
    BuildResult,
    Cell,
    Environment,
    Outcome,
    Plan,
    SessionPlan,
    Variant,
    Visit,
)
from profiler.progress import Narrator, VisitProgress
from profiler.results import Loaded, failures, load_attempt
from profiler.space import Space
from profiler.spec import CommandWorkload, Experiment, LoadedSpec, ModuleWorkload
from profiler.store import (
    Attempt,
    AttemptRecord,
    AttemptResult,
    RunFolder,
    RunRecord,
    create_run,
    finish_attempt,
    resumable,
)
from profiler.twins import twins
from runner import protocol

_LOCK_TIMEOUT_S = 3600.0
"""How long to wait for another run on the same GPU; a long sweep takes most of an hour."""


@dataclass
class Stopwatch:
    """Seconds per stage, in the order in which the stages began."""

    stages: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage, whatever ends it."""
        started = self.clock()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + self.clock() - started


@dataclass(frozen=True)
class Live:
    """What a live run works with."""

    loaded: LoadedSpec
    plan: Plan
    space: Space
    machine: Machine
    out: Path
    fresh: bool
    created: str
    """Local time, ISO 8601 with offset."""


def build_plan(  # noqa: PLR0913 - all but three by keyword
    experiment: Experiment,
    variants: Sequence[Variant],
    space: Space,
    *,
    arch: str,
    build_root: Path,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[BuildResult, ...]:
    """Build every variant of a plan for one architecture."""
    recipes = {variant.id: _recipe(experiment, variant, space) for variant in variants}
    return build_variants(
        variants, recipes, arch=arch, build_root=build_root, on_progress=on_progress
    )


def _recipe(experiment: Experiment, variant: Variant, space: Space) -> Recipe | None:
    recipe = space.recipe(variant.params)
    if recipe is None:
        return None
    return replace(recipe, flags=(*recipe.flags, *experiment.build.flags))


def variants_of(plan: Plan) -> tuple[Variant, ...]:
    """The distinct variants of a plan, in its order."""
    return tuple({cell.variant.id: cell.variant for cell in plan.cells}.values())


def measure(live: Live, narrator: Narrator, watch: Stopwatch) -> RunFolder:
    """Build and measure; returns the run folder, which holds everything also when this raises."""
    experiment = live.loaded.experiment
    with watch.stage("build"):
        builds = build_plan(
            experiment,
            variants_of(live.plan),
            live.space,
            arch=live.machine.architecture(experiment.build.arch),
            build_root=live.out / ".build",
            on_progress=lambda done, total: narrator.detail(f"build: step {done} of {total}"),
        )
    narrator.say(_build_line(builds))
    keys = _keys(live, builds)
    run = _run_folder(live, keys, narrator)
    run.write_spec(live.loaded.text)
    run.write_builds(builds)
    record = _record(live, run, keys)
    run.write_record(record)
    with gpu_lock(
        live.machine.environment.gpu_uuid, timeout_s=_LOCK_TIMEOUT_S, on_wait=narrator.say
    ) as lock:
        stage = _Stage(live, run, builds, keys, lock, narrator)
        stage.save_what_was_left()
        for session in live.plan.sessions:
            try:
                with watch.stage(session.name):
                    stage.measure(session)
            finally:
                run.write_record(_with_stages(record, watch))
    return run


def _keys(live: Live, builds: Sequence[BuildResult]) -> dict[str, str]:
    experiment = live.loaded.experiment
    return cell_keys(
        live.plan.cells,
        experiment=experiment,
        builds={build.variant: build for build in builds},
        environment=live.machine.environment,
        sources=hash_files(source_files(experiment, live.loaded.base)),
    )


def _run_folder(live: Live, keys: Mapping[str, str], narrator: Narrator) -> RunFolder:
    name = live.loaded.experiment.name
    found = None if live.fresh else resumable(live.out, name, keys)
    if found is not None:
        narrator.say(f"Going on with {found.path} (--fresh starts anew).")
        return found
    return create_run(live.out, name, live.created)


def _record(live: Live, run: RunFolder, keys: Mapping[str, str]) -> RunRecord:
    earlier = run.record() if run.exists() else None
    return RunRecord(
        experiment=live.loaded.experiment.name,
        created=earlier.created if earlier else live.created,
        seed=live.plan.seed,
        environment=live.machine.environment,
        keys={**(earlier.keys if earlier else {}), **keys},
        stages=earlier.stages if earlier else {},
        overrides=live.loaded.flags,
    )


def _with_stages(record: RunRecord, watch: Stopwatch) -> RunRecord:
    """Add the seconds of this execution to those of earlier ones."""
    names = dict.fromkeys([*record.stages, *watch.stages])
    seconds = {n: record.stages.get(n, 0.0) + watch.stages.get(n, 0.0) for n in names}
    return replace(record, stages=seconds)


def _build_line(builds: Sequence[BuildResult]) -> str:
    built = [build for build in builds if build.command]
    failed = sum(not build.ok for build in builds)
    cached = sum(build.cached for build in built)
    same = sum(build.duplicate_of is not None for build in builds)
    return (
        f"Built {len(built)} variants ({cached} from the cache, {failed} failed, "
        f"{same} with the machine code of another)."
    )


@dataclass
class _Stage:
    """Measures one session after another into one run folder."""

    live: Live
    run: RunFolder
    builds: Sequence[BuildResult]
    keys: Mapping[str, str]
    lock: GpuLock
    narrator: Narrator

    def save_what_was_left(self) -> None:
        """Get rows out of reports whose ncu was killed together with an earlier profiler."""
        for attempt in self.run.attempts():
            if attempt.result is None and attempt.csv() is not None:
                salvage(self._collector(attempt.record.collector), attempt.folder)

    def measure(self, session: SessionPlan) -> None:
        """Make the visits of a session that are missing."""
        missing, has_samples = self._missing(session)
        if not missing:
            self.narrator.say(f"{session.name}: nothing is missing.")
            return
        cells = {cell.id: cell for cell in self.live.plan.cells}
        counts = {visit.cell: 0 for visit in missing}
        for visit in missing:
            counts[visit.cell] += 1
        title = f"{session.name}: {len(missing)} visits of {len(counts)} cells"
        self.narrator.say(title)
        with VisitProgress(self.narrator, session.name, cells, counts) as progress:
            workload = self._experiment.workload
            if isinstance(workload, CommandWorkload):
                self._run_programs(workload, session, missing, progress, has_samples)
            else:
                self._run_runner(workload, session, missing, progress, has_samples)

    @property
    def _experiment(self) -> Experiment:
        return self.live.loaded.experiment

    @property
    def _environment(self) -> Environment:
        return self.live.machine.environment

    def _missing(self, session: SessionPlan) -> tuple[tuple[Visit, ...], bool]:
        """Visits still to make, and whether any session has measured anything yet."""
        loaded = [self._load(attempt) for attempt in self.run.attempts()]
        measured: set[Visit] = set()
        for each in loaded:
            if each.attempt.record.session == session.name:
                measured |= each.visits()
        skipped = {build.variant for build in self.builds if not build.ok}
        gone = set(failures(self.live.plan, loaded)) | set(twins(self.live.plan.cells, self.builds))
        variant_of = {cell.id: cell.variant.id for cell in self.live.plan.cells}
        missing = tuple(
            visit
            for visit in session.visits
            if visit not in measured
            and visit.cell not in gone
            and variant_of[visit.cell] not in skipped
        )
        return missing, any(len(each.samples) for each in loaded)

    def _load(self, attempt: Attempt) -> Loaded:
        return load_attempt(attempt, self.keys, self._environment.compute_capability)

    def _collector(self, name: str) -> Collector:
        return self._ncu() if name == "ncu" else Timer()

    def _ncu(self) -> Ncu:
        collect = self._experiment.collect
        return Ncu(
            self.live.machine.require_ncu(),
            cache_control=collect.cache_control,
            clock_control=collect.clock_control,
        )

    def _limits(self) -> Limits:
        return Limits(step_s=self._experiment.collect.time_limit_s)

    def _tool_metrics(self, session: SessionPlan) -> tuple[str, ...]:
        return ncu_names(session.metrics, self._environment.compute_capability)

    # ---- a workload in Python: one process makes many visits ----

    def _run_runner(
        self,
        workload: ModuleWorkload,
        session: SessionPlan,
        missing: Sequence[Visit],
        progress: VisitProgress,
        has_samples: bool,
    ) -> None:
        template = Session(
            job=self._job(session, workload),
            collector=self._collector(session.collector),
            metrics=self._tool_metrics(session),
            limits=self._limits(),
            hold=self.lock.session_file,
        )

        def attempt(visits: Sequence[Visit]) -> tuple[Path, SessionResult]:
            folder = self.run.new_attempt(self._attempt_record(session, visits))
            self.run.write_command(folder, shlex.join(template.command(folder).argv))
            return folder, run_attempt(template, visits, folder, progress.record)

        def ended(end: Ended) -> None:
            finish_attempt(end.folder, self._attempt_result(end))
            if end.blamed is not None:
                progress.failed(end.blamed.cell, f"{end.blamed.outcome}: {end.blamed.cause}")

        run_visits(
            missing,
            session=session.name,
            problem_of={cell.id: cell.problem.id for cell in self.live.plan.cells},
            collector=template.collector,
            attempt=attempt,
            measured=self._measured,
            ended=ended,
            has_samples=has_samples,
        )

    def _measured(self, folder: Path) -> Set[Visit]:
        return self._load(self.run.attempt(folder)).visits()

    def _job(self, session: SessionPlan, workload: ModuleWorkload) -> protocol.Job:
        collect = self._experiment.collect
        libraries = {build.variant: build.library for build in self.builds}
        return protocol.Job(
            session=session.name,
            workload=workload.target(self.live.loaded.base),
            collector=session.collector,
            device=self.live.machine.device,
            seed=collect.seed,
            journal="",
            cells=tuple(_job_cell(cell, libraries) for cell in self.live.plan.cells),
            visits=(),
            tolerances={
                dtype: protocol.Tolerance(bound.absolute, bound.relative)
                for dtype, bound in self._experiment.tolerance.items()
            },
            warmups=collect.warmups,
            repeats=collect.repeats if session.collector == "timer" else 1,
        )

    def _attempt_record(self, session: SessionPlan, visits: Sequence[Visit]) -> AttemptRecord:
        return AttemptRecord(
            session=session.name,
            collector=session.collector,
            kind=session.kind.value,
            metrics=session.metrics,
            keys={cell: self.keys[cell] for cell in dict.fromkeys(v.cell for v in visits)},
        )

    def _attempt_result(self, end: Ended) -> AttemptResult:
        failed: dict[str, tuple[str, str]] = {}
        if end.blamed is not None:
            words = (end.blamed.outcome.value, end.blamed.cause)
            failed = dict.fromkeys(self._hit_by(end), words)
        return AttemptResult(
            cause=end.result.cause.value, seconds=end.result.seconds, failed=failed
        )

    def _hit_by(self, end: Ended) -> tuple[str, ...]:
        """The culprit, and its siblings where the step was one of their whole problem."""
        culprit = end.result.culprit
        if culprit is None or culprit.phase not in protocol.PROBLEM_PHASES:
            return (end.blamed.cell,) if end.blamed is not None else ()
        problem_of = {cell.id: cell.problem.id for cell in self.live.plan.cells}
        problem = problem_of[culprit.cell]
        return tuple(cell for cell, other in problem_of.items() if other == problem)

    # ---- an external command: one process makes one visit ----

    def _run_programs(
        self,
        workload: CommandWorkload,
        session: SessionPlan,
        missing: Sequence[Visit],
        progress: VisitProgress,
        has_samples: bool,
    ) -> None:
        program = Program(
            workload,
            base=self.live.loaded.base,
            ncu=self._ncu(),
            metrics=self._tool_metrics(session),
            limits=self._limits(),
            hold=self.lock.session_file,
        )
        cells = {cell.id: cell for cell in self.live.plan.cells}
        failed: set[str] = set()
        for visit in missing:
            if visit.cell in failed:
                continue
            record = replace(
                self._attempt_record(session, [visit]),
                visit={"cell": visit.cell, "block": visit.block},
            )
            folder = self.run.new_attempt(record)
            command = program.command(cells[visit.cell], folder)
            self.run.write_command(folder, shlex.join(command.argv))
            end = run_visit(program, command, folder)
            measured = bool(self._measured(folder))
            failure = program.failure(folder, end, measured=measured, has_samples=has_samples)
            finish_attempt(folder, _command_result(visit.cell, end, failure))
            has_samples = has_samples or measured
            if failure is None:
                progress.visited(visit.cell)
            else:
                failed.add(visit.cell)
                progress.failed(visit.cell, f"{failure[0]}: {failure[1]}")


def _command_result(
    cell: str, end: SessionResult, failure: tuple[Outcome, str] | None
) -> AttemptResult:
    failed = {cell: (failure[0].value, failure[1])} if failure is not None else {}
    return AttemptResult(cause=end.cause.value, seconds=end.seconds, failed=failed)


def _job_cell(cell: Cell, libraries: Mapping[str, str | None]) -> protocol.JobCell:
    return protocol.JobCell(
        id=cell.id,
        variant=cell.variant.name,
        variant_params=cell.variant.params,
        problem=cell.problem.id,
        problem_params=cell.problem.params,
        library=libraries.get(cell.variant.id),
    )
