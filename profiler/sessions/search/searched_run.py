"""Measuring an experiment with a search: searches with the timer, then measures what it found."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from profiler.collect.kind import Tools
from profiler.collect.registry import COLLECTORS
from profiler.errors import EnvironmentUnusable, Interrupted
from profiler.kernels.build import watched_files
from profiler.machine.gpu_lock import gpu_lock
from profiler.model import BuildResult, Cell, Outcome, SearchPlan, Variant
from profiler.planning.plan import judged_plan
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import (
    SEARCH_JOURNAL_FILE,
    RunFolder,
    create_run,
    newest_run,
)
from profiler.search.history import History
from profiler.search.live.journal import SearchJournal, read_search
from profiler.search.live.records import Evaluated, Terms
from profiler.search.live.state import LiveSearch
from profiler.search.registry import make_strategy
from profiler.search.space import SearchSpace
from profiler.sessions.attempt import Session
from profiler.sessions.measure import (
    LOCK_TIMEOUT_S,
    MeasureRequest,
    Stopwatch,
    begin,
    build_all,
    build_plan,
    keys_of,
    measure_in,
)
from profiler.sessions.overlap.templates import runner_job
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.background_builds import BackgroundBuilds
from profiler.sessions.search.bench import Bench, Subject
from profiler.sessions.search.loop import Lookahead, SearchLoop
from profiler.sessions.search.standing_runner import StandingRunner
from profiler.sessions.watchdog import Limits

TIMER = "timer"
"""Collector that a search measures with: its results are known at once."""
STAGE = "search"
_CORES_LEFT = 2
"""For the runner and for this process, while the others compile."""


@dataclass(frozen=True, eq=False)
class _Search:
    """A search of an experiment, and what it is done with."""

    request: MeasureRequest
    plan: SearchPlan
    builds: Sequence[BuildResult]
    """Builds of the baseline and of all others that are not searched."""
    terms: Terms
    reporter: ProgressReporter
    lock_file: Path

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The configurations, by id."""
        searched = set(self.plan.variants)
        return {v.id: v for v in self.request.plan.variants if v.id in searched}


def measure_searched(
    request: MeasureRequest, reporter: ProgressReporter, watch: Stopwatch
) -> RunFolder:
    """Search, then build and measure the finalists with all that is not searched.

    Returns the run folder, which holds everything also when this raises.
    """
    plan = request.plan.search
    if plan is None:
        raise ValueError("the plan has no search")
    _require_strategy(request, plan)
    experiment = request.loaded.experiment
    fixed = replace(request, plan=judged_plan(experiment, request.plan, ()))
    builds = build_all(fixed, reporter, watch)
    keys = keys_of(fixed, builds)
    terms = _terms(request, plan, keys)
    with gpu_lock(
        request.machine.environment.gpu_uuid, timeout_s=LOCK_TIMEOUT_S, on_wait=reporter.say
    ) as lock:
        run = _run_folder(request, terms, reporter)
        begin(run, fixed, builds, keys)
        search = _Search(request, plan, builds, terms, reporter, lock.session_file)
        with watch.stage(STAGE), request.seconds.step("searches"):
            finalists = _search(search, run)
        judged = replace(request, plan=judged_plan(experiment, request.plan, finalists))
        judged_builds = build_all(judged, reporter, watch)
        measure_in(
            run,
            judged,
            builds=judged_builds,
            keys=keys_of(judged, judged_builds),
            lock_file=lock.session_file,
            reporter=reporter,
            watch=watch,
        )
    return run


def _require_strategy(request: MeasureRequest, plan: SearchPlan) -> None:
    """Raise EnvironmentUnusable where the strategy lacks a library, before anything is built."""
    first = next(v for v in request.plan.variants if v.id == plan.variants[0])
    history = History(SearchSpace.of_configurations([first.params]))
    try:
        make_strategy(plan.strategy, history, plan.seed)
    except EnvironmentUnusable as error:
        error.remedy = (
            "Install it with: pip install 'kernel-profiler[search]'; or search without it: "
            "--set search.strategy=local."
        )
        raise


# ---- which run -----------------------------------------------------------------------------------


def _run_folder(request: MeasureRequest, terms: Terms, reporter: ProgressReporter) -> RunFolder:
    """The newest run, where its search has the same terms; else a new one."""
    name = request.loaded.experiment.name
    newest = None if request.fresh else newest_run(request.out, name, reporter.warn)
    record = None if newest is None else read_search(newest[0].path / SEARCH_JOURNAL_FILE)
    if newest is not None and record is not None and record.terms == terms:
        reporter.say(f"Resuming {newest[0].path} (--fresh starts a new run).")
        return newest[0]
    return create_run(request.out, name, request.created)


def _terms(request: MeasureRequest, plan: SearchPlan, keys: Mapping[str, str]) -> Terms:
    searched = set(plan.variants)
    params = [dict(v.params) for v in request.plan.variants if v.id in searched]
    space = SearchSpace.of_configurations(params)
    document = {
        "baseline": {
            cell.id: keys[cell.id]
            for cell in request.plan.cells
            if cell.variant.id == request.plan.baseline and cell.problem.id in plan.problems
        },
        "configurations": params,
        "problems": [dict(p.params) for p in request.plan.problems if p.id in plan.problems],
        "search": [plan.strategy, plan.seed, plan.objective],
        "sources": _sources_hash(request),
        "build": request.loaded.experiment.build.model_dump(mode="json"),
    }
    text = json.dumps(document, sort_keys=True, default=str)
    return Terms(
        key=hashlib.sha256(text.encode()).hexdigest()[:32],
        strategy=plan.strategy,
        seed=plan.seed,
        objective=plan.objective,
        baseline=str(request.plan.baseline),
        problems=plan.problems,
        parameters={parameter.name: parameter.values for parameter in space.parameters},
        configurations=len(space),
        left_out=plan.left_out,
    )


def _sources_hash(request: MeasureRequest) -> str:
    """Hash of the CUDA sources of all configurations, and of the headers that may be in them."""
    recipes = (request.space.recipe(variant.params) for variant in request.plan.variants)
    # Configurations differ in their definitions: few recipes have other files.
    inputs = {(recipe.sources, recipe.included): recipe for recipe in recipes if recipe is not None}
    files = {file for recipe in inputs.values() for file in watched_files(recipe) if file.is_file()}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


# ---- the search ----------------------------------------------------------------------------------


def _search(search: _Search, run: RunFolder) -> tuple[str, ...]:
    """Ids of the finalists; raises Interrupted on Ctrl-C."""
    variants = search.variants
    journal = SearchJournal(run.path / SEARCH_JOURNAL_FILE)
    live = LiveSearch(search.terms, {id_: v.params for id_, v in variants.items()}, journal)
    if live.diverged:
        search.reporter.warn(
            "The strategy proposes something else than it did in this run's journal (another "
            "version of its library): it goes on with what was measured."
        )
    search.reporter.say(_opening_line(search, live))
    jobs = max(1, len(os.sched_getaffinity(0)) - _CORES_LEFT)
    builds = BackgroundBuilds(lambda batch: _build(search, batch, jobs))
    try:
        with _bench(search, run, live) as bench:
            loop = SearchLoop(
                search=live,
                plan=search.plan,
                variants=variants,
                subject=lambda variant, build: _subject(search, variant, build),
                bench=bench,
                builds=builds,
                lookahead=Lookahead(jobs, needs_builds=_needs_builds(search)),
                report=lambda count, evaluated: _report(search, live, count, evaluated),
            )
            finalists = loop.run()
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted; what the search measured is kept.",
            remedy="Run the same command again: it goes on with the next proposal.",
        ) from None
    finally:
        builds.close()
    search.reporter.say(f"search: {len(finalists)} finalists are measured next.")
    return finalists


def _build(search: _Search, batch: Sequence[Variant], jobs: int) -> tuple[BuildResult, ...]:
    request, experiment = search.request, search.request.loaded.experiment
    return build_plan(
        experiment,
        batch,
        request.space,
        arch=request.machine.architecture(experiment.build.arch),
        build_root=request.build_root,
        jobs=jobs,
        on_wait=search.reporter.say,
    )


def _needs_builds(search: _Search) -> bool:
    variants = search.variants.values()
    return any(search.request.space.recipe(variant.params) is not None for variant in variants)


def _subject(search: _Search, variant: Variant, build: BuildResult | None) -> Subject:
    problems = set(search.plan.problems)
    cells: list[Cell] = [
        cell
        for cell in search.request.plan.cells
        if cell.variant.id == variant.id and cell.problem.id in problems
    ]
    return Subject(variant.id, cells, None if build is None else build.library)


def _bench(search: _Search, run: RunFolder, live: LiveSearch) -> Bench:
    request = search.request
    build_of = {build.variant: build for build in search.builds}
    baseline = next(v for v in request.plan.variants if v.id == request.plan.baseline)
    collector = COLLECTORS[TIMER].create(Tools())
    workload = request.loaded.experiment.workload
    if isinstance(workload, CommandWorkload):
        raise TypeError("an external command cannot be searched")
    job = runner_job(request.loaded, workload, request.machine, run, session=STAGE, collector=TIMER)
    folder = (run.path.resolve() / SEARCH_JOURNAL_FILE).parent
    session = Session(
        job=replace(job, repeats=request.loaded.experiment.collect.repeats),
        collector=collector,
        metrics=(),
        limits=Limits(step_s=request.loaded.experiment.collect.time_limit_s),
        lock_file=search.lock_file,
        compiled=folder / "compiled",
        variables=request.machine.variables,
    )
    return Bench(
        start=lambda: StandingRunner(session, _new_runner_folder(folder)),
        collector=collector,
        baseline=_subject(search, baseline, build_of.get(baseline.id)),
        repeats=session.job.repeats,
        on_runner_end=live.note_runner_end,
    )


def _new_runner_folder(folder: Path) -> Path:
    number = 1 + len(list(folder.glob("runner.*")))
    return folder / f"runner.{number:03d}"


# ---- what the console says -----------------------------------------------------------------------


def _opening_line(search: _Search, live: LiveSearch) -> str:
    plan = search.plan
    done = len(live.record.evaluations)
    budget = f"{plan.evaluations} evaluations" if plan.evaluations else f"{plan.seconds:g} s"
    earlier = f", {done} of them made already" if done else ""
    return (
        f"search: {plan.strategy}, {budget} of {len(plan.variants)} configurations at "
        f"{len(plan.problems)} problems{earlier}"
    )


def _report(search: _Search, live: LiveSearch, count: str, evaluated: Evaluated) -> None:
    name = search.variants[evaluated.variant].name
    if evaluated.outcome is not Outcome.MEASURED:
        cause = evaluated.cause.splitlines()[0] if evaluated.cause else ""
        search.reporter.say(f"[{count}] {name}  FAILED {evaluated.outcome}: {cause}")
        return
    estimate = live.estimate_of(evaluated.variant)
    best = live.best()
    behind = ", stopped early" if evaluated.stopped_early else ""
    best_words = "" if best is None else f", best {best.ratio:.3f}"
    search.reporter.say(f"[{count}] {name}  {estimate.ratio:.3f} x baseline{behind}{best_words}")
