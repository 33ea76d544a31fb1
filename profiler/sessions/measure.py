"""The live stage: build what is missing, and measure the visits that no earlier attempt has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernels.recipe import Recipe
from profiler.analyse.judge import is_judged
from profiler.machine.gpu_lock import gpu_lock
from profiler.machine.requirements import Machine
from profiler.model import BuildResult, Plan, SessionPlan, Variant
from profiler.planning.plan import timeline_session
from profiler.planning.space import Space
from profiler.planning.spec import Experiment, LoadedSpec
from profiler.run_folder.folder import RunFolder, RunRecord, create_run, resumable
from profiler.sessions.build import build_variants
from profiler.sessions.cell_keys import cell_keys
from profiler.sessions.launch_params import launch_params
from profiler.sessions.looks import (
    final_session,
    has_final,
    later_session,
    timeline_cells,
)
from profiler.sessions.measurement import Measurement
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.timeline_tools import NSYS, TimelineTools

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
    timeline: bool = False
    """Whether the finalists get a timeline by nsys, whatever the experiment's collectors."""


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
        variants,
        recipes,
        arch=arch,
        build_root=build_root,
        on_progress=on_progress,
        launch_params=launch_params(variants, space.recipe),
    )


def _recipe(experiment: Experiment, variant: Variant, space: Space) -> Recipe | None:
    recipe = space.recipe(variant.params)
    if recipe is None:
        return None
    return replace(recipe, flags=(*recipe.flags, *experiment.build.flags))


def measure(live: Live, reporter: ProgressReporter, watch: Stopwatch) -> RunFolder:
    """Build and measure; returns the run folder, which holds everything also when this raises."""
    experiment = live.loaded.experiment
    with watch.stage("build"):
        builds = build_plan(
            experiment,
            live.plan.variants,
            live.space,
            arch=live.machine.architecture(experiment.build.arch),
            build_root=live.out / ".build",
            on_progress=lambda done, total: reporter.detail(f"build: step {done} of {total}"),
        )
    if any(build.command or not build.ok for build in builds):
        reporter.say(_build_line(builds))
    keys = _keys(live, builds)
    with gpu_lock(
        live.machine.environment.gpu_uuid, timeout_s=_LOCK_TIMEOUT_S, on_wait=reporter.say
    ) as lock:
        # Only here, because whoever held the lock may have measured what is missing.
        run = _run_folder(live, keys, reporter)
        run.write_spec(live.loaded.text)
        run.write_plan(live.plan)
        run.write_builds(builds)
        record = _record(live, run, keys)
        run.write_record(record)
        measurement = Measurement(
            loaded=live.loaded,
            plan=live.plan,
            machine=live.machine,
            run=run,
            builds=builds,
            keys=keys,
            lock_file=lock.session_file,
            reporter=reporter,
            space=live.space,
        )
        measurement.save_what_was_left()
        measurement.check_kernels_of_what_was_left()
        for session in live.plan.sessions:
            with _stages_recorded(run, record, watch):
                _measure_session(live, measurement, session, watch)
        if live.timeline:
            with _stages_recorded(run, record, watch):
                _measure_timeline(live, measurement, watch)
    return run


@contextmanager
def _stages_recorded(run: RunFolder, record: RunRecord, watch: Stopwatch) -> Iterator[None]:
    """Write down how long the stages took so far, whatever ends the body."""
    try:
        yield
    finally:
        run.write_record(_with_stages(record, watch))


def _measure_timeline(live: Live, measurement: Measurement, watch: Stopwatch) -> None:
    """Timelines of those that may be the best; none twice where the experiment has them all."""
    if any(session.collector == NSYS for session in live.plan.sessions):
        return
    experiment = live.loaded.experiment
    delta = experiment.margin_pct / 100
    cells = timeline_cells(live.plan, measurement.samples(), delta=delta)
    session = timeline_session(experiment, NSYS, cells)
    with watch.stage(session.name):
        measurement.measure(session, f"{session.name}, timeline of the finalists")


def _measure_session(
    live: Live, measurement: Measurement, session: SessionPlan, watch: Stopwatch
) -> None:
    """A session; where it is one of timing, the looks and the final that follow from it."""
    with watch.stage(session.name):
        measurement.measure(session, _look_title(live.plan, session, 0))
        if not is_judged(live.plan, session):
            return
        delta = live.loaded.experiment.margin_pct / 100
        for look in range(1, len(live.plan.looks)):
            samples = measurement.samples()
            later = later_session(live.plan, session, samples, look, delta=delta)
            if later.visits:
                measurement.measure(later, _look_title(live.plan, session, look))
    if has_final(live.plan):
        final = final_session(live.plan, session, measurement.samples(), delta=delta)
        with watch.stage(final.name):
            if final.visits:
                measurement.measure(final)


def _look_title(plan: Plan, session: SessionPlan, look: int) -> str:
    if not is_judged(plan, session) or len(plan.looks) < 2:
        return session.name
    return f"{session.name}, look {look + 1} of {len(plan.looks)}"


def _keys(live: Live, builds: Sequence[BuildResult]) -> dict[str, str]:
    experiment = live.loaded.experiment
    return cell_keys(
        live.plan.cells,
        experiment=experiment,
        builds={build.variant: build for build in builds},
        environment=live.machine.environment,
        base=live.loaded.base,
    )


def _run_folder(live: Live, keys: Mapping[str, str], reporter: ProgressReporter) -> RunFolder:
    name = live.loaded.experiment.name
    resumed = None if live.fresh else resumable(live.out, name, keys)
    if resumed is not None:
        reporter.say(f"Going on with {resumed.path} (--fresh starts anew).")
        return resumed
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
        spec_path=live.loaded.shown_path,
        overrides=live.loaded.flags,
        timelines=_timeline_settings(live, earlier),
    )


def _timeline_settings(live: Live, earlier: RunRecord | None) -> dict[str, Mapping[str, Any]]:
    """How timelines are made today; as before for those that today's run does not make."""
    today = TimelineTools(live.loaded.experiment, live.machine).all_settings()
    if live.machine.nsys is None:
        del today[NSYS]
    return {**(earlier.timelines if earlier else {}), **today}


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
