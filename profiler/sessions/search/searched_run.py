"""Measuring an experiment with a search: searches with the timer, then measures what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from profiler.errors import Interrupted
from profiler.planning.plan import judged_plan
from profiler.run_folder.folder import RunFolder, create_run, newest_run
from profiler.run_folder.seconds import SEARCHES
from profiler.search.live.journal import Terms
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.measure import MeasureRequest, begin, gpu_held, measure_in
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.background_builds import BackgroundBuilds
from profiler.sessions.search.bench import STAGE, standing_bench
from profiler.sessions.search.loop import Lookahead, SearchLoop
from profiler.sessions.search.search import Search, run_of_search, terms_of


def measure_searched(request: MeasureRequest, reporter: ProgressReporter) -> RunFolder:
    """Search, then build and measure the finalists with all that is not searched.

    Returns the run folder, which holds everything also when this raises.
    """
    plan = request.plan.search
    if plan is None:
        raise ValueError("the plan has no search")
    experiment = request.loaded.experiment
    fixed = replace(request, plan=judged_plan(experiment, request.plan, ()))
    builds = build_all(fixed, reporter)
    keys = keys_of(fixed, builds)
    terms = terms_of(request, plan, keys)
    with gpu_held(request.machine, request.seconds, reporter.say) as lock:
        run = _run_folder(request, terms, reporter)
        begin(run, fixed, builds, keys)
        search = Search(request, plan, builds, terms, reporter)
        with request.seconds.stage(STAGE), request.seconds.step(SEARCHES):
            finalists = _search(search, run, lock.session_file)
        judged = replace(request, plan=judged_plan(experiment, request.plan, finalists))
        judged_builds = build_all(judged, reporter)
        measure_in(
            run,
            judged,
            builds=judged_builds,
            keys=keys_of(judged, judged_builds),
            lock_file=lock.session_file,
            reporter=reporter,
        )
    return run


# ---- which run -----------------------------------------------------------------------------------


def _run_folder(request: MeasureRequest, terms: Terms, reporter: ProgressReporter) -> RunFolder:
    """The newest run, where its search has the same terms; else a new one."""
    name = request.loaded.experiment.name
    newest = None if request.fresh else newest_run(request.out, name, reporter.warn)
    run = run_of_search(newest and newest[0], terms)
    if run is not None:
        reporter.say(f"Resuming {run.path} (--fresh starts a new run).")
        return run
    return create_run(request.out, name, request.created)


# ---- the search ----------------------------------------------------------------------------------


def _search(search: Search, run: RunFolder, lock_file: Path) -> tuple[str, ...]:
    """Ids of the finalists; raises Interrupted on Ctrl-C."""
    live = search.opened(run)
    builds = BackgroundBuilds(search.build)
    bench = standing_bench(
        search.request,
        run,
        lock_file,
        baseline=search.baseline,
        on_runner_end=live.note_runner_end,
    )
    try:
        with bench:
            loop = SearchLoop(
                search=live,
                plan=search.plan,
                variants=search.variants,
                subject=search.subject,
                bench=bench,
                builds=builds,
                lookahead=Lookahead(search.jobs, needs_builds=search.needs_builds),
                report=lambda evaluated: search.report(live, evaluated),
            )
            finalists = loop.run()
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted; what the search measured is kept.",
            remedy="Run the same command again: it goes on with the next proposal.",
        ) from None
    finally:
        builds.close()
    search.report_end(len(finalists))
    return finalists
