"""The story of a search on workers: its run, batches until its budget is spent, its finalists."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from distributed import Queue

from profiler.cluster.device import Device, device_of
from profiler.cluster.device_search import DeviceSearch
from profiler.cluster.giving import Link, give_and_take
from profiler.cluster.libraries import LibraryShelf
from profiler.model import Environment
from profiler.planning.plan import judged_plan
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder, create_run, runs
from profiler.run_folder.seconds import SEARCHES
from profiler.run_folder.workers import clear_drafts, live_environment, name_no_gpu_of_several
from profiler.search.live.journal import read_search
from profiler.search.live.records import Terms
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.measure import MeasureRequest, begin, keys_of
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.background_builds import BackgroundBuilds
from profiler.sessions.search.search import Search
from profiler.sessions.search.search_terms import terms_of
from profiler.sessions.search.standing_bench import STAGE
from profiler.sessions.stopwatch import Stopwatch


@dataclass(frozen=True)
class Searched:
    """Measurement that is left of a device, after its search where it has one."""

    request: MeasureRequest
    run: RunFolder | None = None
    """The run that has the search; None where there was none."""


def search_on_workers(
    link: Link,
    queue: Queue,
    requests: Mapping[Device, MeasureRequest],
    reporter: ProgressReporter,
    watches: Mapping[Device, Stopwatch],
) -> dict[Device, Searched]:
    """Search on the workers of each device at the same time, where the experiment is a search."""
    if all(request.plan.search is None for request in requests.values()):
        return {device: Searched(request) for device, request in requests.items()}
    with ExitStack() as stages:
        searches = [
            _search(link, device, request, reporter, watches[device])
            for device, request in requests.items()
        ]
        for search in searches:
            stages.callback(search.builds.close)
            stages.enter_context(watches[search.device].stage(STAGE))
            stages.enter_context(search.search.request.seconds.step(SEARCHES))
        give_and_take(queue, searches, reporter)
    return {search.device: _searched(search) for search in searches}


def _searched(search: DeviceSearch) -> Searched:
    request = search.search.request
    plan = judged_plan(request.loaded.experiment, request.plan, search.finalists)
    return Searched(replace(request, plan=plan), search.run)


def _search(
    link: Link,
    device: Device,
    request: MeasureRequest,
    reporter: ProgressReporter,
    watch: Stopwatch,
) -> DeviceSearch:
    """Build what is not searched, and find or begin the run of a search."""
    plan = request.plan.search
    if plan is None:
        raise ValueError("the plan has no search")
    fixed = replace(request, plan=judged_plan(request.loaded.experiment, request.plan, ()))
    fixed_builds = build_all(fixed, reporter, watch)
    environment = _of_any_gpu(request.machine.environment)
    of_any = replace(fixed, machine=replace(fixed.machine, environment=environment))
    terms = terms_of(request, plan, keys_of(of_any, fixed_builds))
    run = _run_folder(device, request, terms, reporter)
    clear_drafts(run)
    begin(run, fixed, fixed_builds, {})
    name_no_gpu_of_several(run)
    search = Search(request, plan, fixed_builds, terms, reporter)
    return DeviceSearch(
        link=link,
        device=device,
        run=run,
        search=search,
        live=search.opened(run),
        builds=BackgroundBuilds(search.build),
        shelf=LibraryShelf(link.client),
    )


def _of_any_gpu(environment: Environment) -> Environment:
    """The environment without what differs between the GPUs of one device and their hosts.

    Its results are ratios to the baseline on the same GPU, so that another one may go on.
    """
    if environment.gpu is None:
        return environment
    return replace(environment, gpu_uuid=None, cpu=None)


def _run_folder(
    device: Device, request: MeasureRequest, terms: Terms, reporter: ProgressReporter
) -> RunFolder:
    """The newest run of the device, where its search has the same terms; else a new one."""
    name = request.loaded.experiment.name
    for run in () if request.fresh else reversed(runs(request.out, name)):
        environment = live_environment(run)
        if environment is None or device_of(environment) != device:
            continue
        record = read_search(run.path / SEARCH_JOURNAL_FILE)
        if record is not None and record.terms == terms:
            reporter.say(f"Resuming {run.path} (--fresh starts a new run).")
            return run
        break
    return create_run(request.out, name, request.created)
