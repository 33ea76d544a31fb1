"""The story of a run on workers: which devices there are, what is built, who measures what."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client
from distributed.comm.core import CommClosedError

from profiler.cluster.arrivals import Arrivals
from profiler.cluster.device import Device, device_among, device_of, environment_from
from profiler.cluster.device_run import DeviceRun
from profiler.cluster.device_search import DeviceSearch
from profiler.cluster.giving import Link, scheduler_lost
from profiler.cluster.job import path_from_here
from profiler.cluster.libraries import Libraries
from profiler.cluster.on_worker import describe_machine, failure_from
from profiler.cluster.request import ClusterRequest
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.lock_files import take_lock
from profiler.machine.requirements import Machine
from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Environment, Plan, SearchPlan
from profiler.planning.plan import judged_plan
from profiler.planning.session_plans import NCU
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder, create_run, runs
from profiler.run_folder.seconds import SEARCHES
from profiler.run_folder.workers import (
    clear_drafts,
    live_environment,
    name_no_gpu_of_several,
    worker_environments,
)
from profiler.search.live.journal import read_search
from profiler.search.live.records import Terms
from profiler.sessions.builds.plan_builds import build_all, build_all_stamped
from profiler.sessions.measure import MeasureRequest, begin, keys_of, with_stages
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.background_builds import BackgroundBuilds
from profiler.sessions.search.search import Search
from profiler.sessions.search.search_terms import terms_of
from profiler.sessions.search.standing_bench import STAGE as SEARCH_STAGE
from profiler.sessions.stopwatch import Stopwatch

_FIRST_WORKER_S = 60.0
"""How long to wait for a first worker."""
_PAUSE_S = 0.02
"""Between two looks at what has come."""
_UNREADABLE = "deserialization of the task graph"
"""What Dask says where its scheduler lacks a module that a task names."""
SERIALISED = (
    "Two GPUs of one host gain nothing under ncu 2025, which profiles on one of them at a time "
    "(autotune: 314 s on two, 303 to 318 s on one). A second one is for what is not serialised: "
    "--timer or a search; or take GPUs of several hosts."
)
STAGE = "workers"


@dataclass(frozen=True)
class MeasuredDevice:
    """What the GPUs of one model with one driver measured."""

    run: RunFolder
    plan: Plan
    stages: dict[str, float]
    seconds: SecondsRecorder
    failures: tuple[ProfilerError, ...]
    """Errors of the problems that no worker could measure."""


def measure_on_workers(
    client: Client, request: ClusterRequest, reporter: ProgressReporter, *, local: bool
) -> tuple[MeasuredDevice, ...]:
    """Build, have the workers measure what is missing, and gather it in one run folder by device.

    The folders hold everything that came also when this raises: EnvironmentUnusable where there is
    no worker that can do it, or where the scheduler is lost.
    """
    link = Link(client, uuid.uuid4().hex, local)
    with _locked(request.out / request.loaded.experiment.name), _loss_named(client):
        devices = _devices(client, request, reporter)
        stories = [_Story(link, device, request, reporter) for device in devices]
        with ExitStack() as ending:
            steps = [ending.enter_context(closing(story.tell())) for story in stories]
            _go_through(steps, request.meanwhile)
        return tuple(story.measured() for story in stories)


def _go_through(steps: Sequence[Iterator[None]], meanwhile: Callable[[], None]) -> None:
    """Go on with all devices in turn; `meanwhile` is done once workers have something to do."""
    left = [step for step in steps if next(step, "ended") is None]
    threading.Thread(target=meanwhile, daemon=True).start()
    while left:
        time.sleep(_PAUSE_S)
        raise_if_signalled()
        left = [step for step in left if next(step, "ended") is None]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the right to write runs of an experiment that workers measure."""
    with ExitStack() as held:
        if take_lock(folder / ".workers.lock", held) is None:
            raise EnvironmentUnusable(
                f"Another profiler writes what workers measure into {folder}.",
                remedy="Wait for it or end it; or give another folder with --out.",
            )
        yield


@contextmanager
def _loss_named(client: Client) -> Iterator[None]:
    """Raise EnvironmentUnusable where the scheduler is lost inside, or cannot take a task."""
    try:
        yield
    except ProfilerError:
        raise
    except (OSError, RuntimeError, TimeoutError, CancelledError) as error:
        if _UNREADABLE in str(error):
            raise EnvironmentUnusable(
                "The scheduler cannot read the tasks: it runs in another environment.",
                remedy="Start `dask scheduler` where this version of the profiler is installed.",
            ) from error
        # The client notices it a moment after what it was doing has failed.
        if client.status == "running" and not isinstance(error, CommClosedError | CancelledError):
            raise
        raise scheduler_lost(type(error).__name__) from error


# ---- which devices -------------------------------------------------------------------------------


def _devices(
    client: Client, request: ClusterRequest, reporter: ProgressReporter
) -> tuple[Device, ...]:
    """Devices that measure: with `mixed` all; else that of the newest run, or of most workers."""
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
    except TimeoutError as error:
        raise EnvironmentUnusable(
            f"The scheduler has no worker after {_FIRST_WORKER_S:.0f} s.",
            remedy="Start one on each machine with a GPU: `profiler worker ADDRESS`.",
        ) from error
    workers = client.scheduler_info(n_workers=-1)["workers"]
    names = {address: device_among(facts["resources"]) for address, facts in workers.items()}
    counts = Counter(name for name in names.values() if name is not None)
    if not counts:
        raise EnvironmentUnusable(
            f"None of the {len(workers)} workers of this scheduler is one of the profiler.",
            remedy="Start them with `profiler worker ADDRESS`.",
        )
    newest = next((str(device_of(at)) for _, at in _earlier_runs(request)), None)
    ordered = sorted(counts, key=lambda name: (name != newest, -counts[name], name))
    used = ordered if request.mixed else ordered[:1]
    for name in used:
        reporter.say(f"{counts[name]} worker{'s' if counts[name] > 1 else ''}: {name}.")
    for address, other in names.items():
        if other is not None and other not in used:
            reporter.warn(
                f"Refused: {address} measures on {other}, not on {used[0]}. "
                "--mixed makes a run of its own of it."
            )
    hosts = Counter(facts["host"] for at, facts in workers.items() if names[at] in used)
    if NCU in request.loaded.experiment.collect.collectors and max(hosts.values()) > 1:
        reporter.say(SERIALISED)
    return tuple(map(Device.named, used))


def _earlier_runs(
    request: ClusterRequest | MeasureRequest, device: Device | None = None
) -> Iterator[tuple[RunFolder, Environment]]:
    """Runs of the experiment that may go on, the newest first; none where a new one begins anyway.

    With the environment of each; `device`: of this one alone.
    """
    if request.fresh:
        return
    for run in reversed(runs(request.out, request.loaded.experiment.name)):
        environment = live_environment(run)
        if environment is not None and device in {None, device_of(environment)}:
            yield run, environment


# ---- one device ----------------------------------------------------------------------------------


class _Story:
    """How the run of one device is found or begun, built, searched and measured."""

    def __init__(
        self, link: Link, device: Device, request: ClusterRequest, reporter: ProgressReporter
    ) -> None:
        self.reporter = reporter
        self.watch = Stopwatch()
        machine = _machine_of_worker(link, device, request, reporter)
        plan, space = request.planned(machine)
        self.request = MeasureRequest(
            loaded=request.loaded,
            plan=plan,
            space=space,
            machine=machine,
            out=request.out,
            fresh=request.fresh,
            created=request.created,
            timeline=request.timeline,
            explain=request.explain,
            seconds=SecondsRecorder(request.seconds.began, list(request.seconds.spans)),
        )
        self.run: RunFolder | None = None
        self.failures: dict[str, ProfilerError] = {}
        self.shared: dict[str, Any] = {
            "link": link,
            "device": device,
            "libraries": Libraries(link.client),
            "reporter": reporter,
        }

    def tell(self) -> Generator[None, None, None]:
        """Go through it; gives nothing whenever workers are waited for."""
        if self.request.plan.search is not None:
            yield from self._search(self.request.plan.search)
        builds = build_all(self.request, self.reporter, self.watch)
        stamped = build_all_stamped(self.request, builds, self.reporter)
        owners, keys = self._find_run(builds)
        run = self._begun(builds, keys)
        shared = {**self.shared, "run": run, "request": self.request}
        device_run = DeviceRun(
            **shared,
            builds=builds,
            stamped=dict(stamped),
            owners=owners,
            keys=keys,
            failures=self.failures,
        )
        try:
            with self.watch.stage(STAGE):
                yield from device_run.measure()
        finally:
            if run.exists():  # it may have been deleted meanwhile
                run.write_record(with_stages(run.record(), self.watch))

    def measured(self) -> MeasuredDevice:
        """What was measured in the end."""
        if self.run is None:
            raise ValueError("nothing was begun")
        return MeasuredDevice(
            run=self.run,
            plan=self.request.plan,
            stages=self.watch.stages,
            seconds=self.request.seconds,
            failures=tuple(self.failures.values()),
        )

    def _begun(self, builds: Sequence[BuildResult], keys: dict[str, str]) -> RunFolder:
        if self.run is None:
            self.run = create_run(
                self.request.out, self.request.loaded.experiment.name, self.request.created
            )
        clear_drafts(self.run)
        begin(self.run, self.request, builds, keys)
        name_no_gpu_of_several(self.run)
        return self.run

    def _resume(self, run: RunFolder) -> None:
        self.reporter.say(f"Resuming {run.path} (--fresh starts a new run).")
        self.run = run

    def _find_run(
        self, builds: Sequence[BuildResult]
    ) -> tuple[dict[str, Environment], dict[str, str]]:
        """Find the newest run of the device, if a cell of it has the key of today.

        Gives the GPU of each problem of which it has all, and the keys of these cells.
        """
        if self.run is not None:  # its search goes on
            return _owners(Arrivals(self.run, self.request, builds))
        for run, _ in _earlier_runs(self.request, self.shared["device"]):
            owners, keys = _owners(Arrivals(run, self.request, builds))
            if owners:
                self._resume(run)
                return owners, keys
            break
        return {}, {}

    # ---- its search ----

    def _search(self, plan: SearchPlan) -> Iterator[None]:
        """Build what is not searched, find or begin the run, search; then plan the finalists."""
        everything, experiment = self.request, self.request.loaded.experiment
        self.request = replace(everything, plan=judged_plan(experiment, everything.plan, ()))
        builds = build_all(self.request, self.reporter, self.watch)
        terms = terms_of(everything, plan, keys_of(_of_any_gpu(self.request), builds))
        self._find_searched(terms)
        run = self._begun(builds, {})
        search = Search(everything, plan, builds, terms, self.reporter)
        shared = {**self.shared, "run": run, "request": everything}
        live = search.opened(run)
        with (
            closing(BackgroundBuilds(search.build)) as in_background,
            self.watch.stage(SEARCH_STAGE),
            everything.seconds.step(SEARCHES),
        ):
            searching = DeviceSearch(**shared, search=search, live=live, builds=in_background)
            yield from searching.measure()
        judged = judged_plan(experiment, everything.plan, searching.finalists)
        self.request = replace(everything, plan=judged)

    def _find_searched(self, terms: Terms) -> None:
        """Find the newest run of the device, where its search has the same terms."""
        for run, _ in _earlier_runs(self.request, self.shared["device"]):
            record = read_search(run.path / SEARCH_JOURNAL_FILE)
            if record is not None and record.terms == terms:
                self._resume(run)
            break


def _of_any_gpu(request: MeasureRequest) -> MeasureRequest:
    """The request without what differs between the GPUs of one device and their hosts.

    Results of a search are ratios to the baseline on the same GPU, so that another one may go on.
    """
    environment = request.machine.environment
    if environment.gpu is None:
        return request
    environment = replace(environment, gpu_uuid=None, cpu=None)
    return replace(request, machine=replace(request.machine, environment=environment))


def _machine_of_worker(
    link: Link, device: Device, request: ClusterRequest, reporter: ProgressReporter
) -> Machine:
    """The machine of the first worker that can do the experiment, without paths of its tools."""
    problem: ProfilerError = EnvironmentUnusable(f"There is no worker with {device}.")
    loaded = request.loaded
    for address in link.workers(device).values():
        answers = link.client.run(
            describe_machine,
            path_from_here(loaded.path),
            loaded.text,
            loaded.flags,
            timeline=request.timeline,
            workers=[address],
        )
        answer = json.loads(answers[address])
        if "failed" not in answer:
            environment = environment_from(answer["environment"])
            return Machine(
                environment=environment,
                device=str(answer["device"]),
                ncu=Path("ncu") if environment.ncu else None,
                nsys=Path("nsys") if environment.nsys else None,
            )
        problem = failure_from(answer["failed"])
        reporter.warn(f"{address}: {problem.message}")
    raise problem


def _owners(arrivals: Arrivals) -> tuple[dict[str, Environment], dict[str, str]]:
    """GPU of each problem of which the run has the keys of today, and these keys."""
    run, request = arrivals.run, arrivals.request
    recorded = run.record().keys
    owners: dict[str, Environment] = {}
    keys: dict[str, str] = {}
    for environment in dict.fromkeys((request.machine.environment, *worker_environments(run))):
        for problem in request.plan.problems:
            today = arrivals.keys_of(problem.id, environment)
            if all(recorded.get(cell) == key for cell, key in today.items()):
                owners[problem.id] = environment
                keys |= today
    return owners, keys
