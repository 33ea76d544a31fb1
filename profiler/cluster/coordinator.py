"""The story of a run on workers: which devices there are, what is built, who measures what."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future, Queue
from distributed.comm.core import CommClosedError

from profiler.cluster.arrivals import Arrivals
from profiler.cluster.device import Device, device_among, device_of, environment_from
from profiler.cluster.device_run import DeviceRun
from profiler.cluster.giving import Link, give_and_take, scheduler_lost
from profiler.cluster.job import path_from_here
from profiler.cluster.libraries import Libraries, sent_libraries
from profiler.cluster.request import ClusterRequest
from profiler.cluster.searches import Searched, search_on_workers
from profiler.cluster.tasks import describe_machine
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.lock_files import take_lock
from profiler.machine.requirements import Machine
from profiler.model import Environment, Plan
from profiler.planning.session_plans import NCU
from profiler.run_folder.folder import RunFolder, create_run, runs
from profiler.run_folder.workers import (
    clear_drafts,
    live_environment,
    name_no_gpu_of_several,
    worker_environments,
)
from profiler.sessions.builds.plan_builds import build_all, build_all_stamped
from profiler.sessions.measure import MeasureRequest, begin, with_stages
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.stopwatch import Stopwatch

_PATIENCE_S = 5.0
"""How long to wait in silence for a worker that is free."""
_FIRST_WORKER_S = 60.0
"""How long to wait for a first worker."""
_UNREADABLE = "deserialization of the task graph"
"""What Dask says where its scheduler lacks a module that a task names."""
SERIALISED = (
    "Two GPUs of one host gain nothing under ncu 2025, which profiles on one of them at a time "
    "(autotune: 314 s on two, 303 to 318 s on one). A second one is for what is not serialised: "
    "--timer, a search, builds; or take GPUs of several hosts."
)
STAGE = "workers"


@dataclass(frozen=True)
class MeasuredDevice:
    """What the GPUs of one model with one driver measured."""

    run: RunFolder
    plan: Plan
    stages: Mapping[str, float]
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
    name = request.loaded.experiment.name
    link = Link(client, f"kernel-profiler-{uuid.uuid4().hex}", local)
    with _locked(request.out / name), _loss_named(client):
        devices = _devices(link, request, reporter)
        queue = Queue(link.queue, client=client)
        try:
            watches = {device: Stopwatch() for device in devices}
            requests = {device: _request_for(link, device, request, reporter) for device in devices}
            searched = search_on_workers(link, queue, requests, reporter, watches)
            device_runs = [
                _device_run(link, device, searched[device], reporter, watches[device])
                for device in devices
            ]
            began = time.monotonic()
            threading.Thread(target=request.meanwhile, daemon=True).start()
            try:
                give_and_take(queue, device_runs, reporter)
            finally:
                for device_run in device_runs:
                    watch = watches[device_run.device]
                    watch.stages[STAGE] = time.monotonic() - began
                    _write_stages(device_run.run, watch)
            return tuple(
                MeasuredDevice(
                    run=device_run.run,
                    plan=device_run.request.plan,
                    stages=watches[device_run.device].stages,
                    seconds=device_run.seconds,
                    failures=tuple(device_run.failures.values()),
                )
                for device_run in device_runs
            )
        finally:
            queue.close()


def _write_stages(run: RunFolder, watch: Stopwatch) -> None:
    """Add the seconds of this execution to the record of a run, unless it was deleted."""
    if run.exists():
        run.write_record(with_stages(run.record(), watch))


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


def _devices(link: Link, request: ClusterRequest, reporter: ProgressReporter) -> tuple[Device, ...]:
    """Devices that measure: with `mixed` all; else that of the newest run, or of most workers."""
    _wait_for_workers(link.client)
    workers = link.client.scheduler_info(n_workers=-1)["workers"]
    names = {address: device_among(facts["resources"]) for address, facts in workers.items()}
    counts = Counter(name for name in names.values() if name is not None)
    if not counts:
        raise EnvironmentUnusable(
            f"None of the {len(workers)} workers of this scheduler is one of the profiler.",
            remedy="Start them with `profiler worker ADDRESS`.",
        )
    newest = _newest_device(request)
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
    return tuple(map(_device_named, used))


def _wait_for_workers(client: Client) -> None:
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
    except TimeoutError as error:
        raise EnvironmentUnusable(
            f"The scheduler has no worker after {_FIRST_WORKER_S:.0f} s.",
            remedy="Start one on each machine with a GPU: `profiler worker ADDRESS`.",
        ) from error


def _newest_device(request: ClusterRequest) -> str | None:
    """Device of the newest run of the experiment; None where a new one begins anyway."""
    if request.fresh:
        return None
    for run in reversed(runs(request.out, request.loaded.experiment.name)):
        environment = live_environment(run)
        if environment is not None:
            return str(device_of(environment))
    return None


def _device_named(name: str) -> Device:
    model, comma, driver = name.rpartition(", driver ")
    return Device(model, driver) if comma else Device(name)


# ---- what is built, and what is there ------------------------------------------------------------


def _request_for(
    link: Link, device: Device, request: ClusterRequest, reporter: ProgressReporter
) -> MeasureRequest:
    """Request of a device's measurement, planned for the machine of one of its workers."""
    machine = _machine_of_worker(link, device, request, reporter)
    plan, space = request.planned(machine)
    return MeasureRequest(
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


def _device_run(
    link: Link,
    device: Device,
    searched: Searched,
    reporter: ProgressReporter,
    watch: Stopwatch,
) -> DeviceRun:
    """Build for a device, and find or begin its run."""
    measured = searched.request
    builds = build_all(measured, reporter, watch)
    stamped = build_all_stamped(measured, builds, reporter)
    libraries = sent_libraries(link.client, builds, stamped)
    if searched.run is None:
        run, owners, keys = _run_folder(device, measured, libraries, reporter)
    else:
        run = searched.run
        owners, keys = _owners(run, measured, libraries)
    clear_drafts(run)
    begin(run, measured, builds, keys)
    name_no_gpu_of_several(run)
    return DeviceRun(
        link=link,
        device=device,
        run=run,
        request=measured,
        libraries=libraries,
        owners=owners,
        keys=keys,
        reporter=reporter,
        seconds=measured.seconds,
    )


def _machine_of_worker(
    link: Link, device: Device, request: ClusterRequest, reporter: ProgressReporter
) -> Machine:
    """The machine of the first worker that can do the experiment."""
    order = json.dumps(
        {
            "spec_text": request.loaded.text,
            "spec_path": path_from_here(request.loaded.path),
            "overrides": request.loaded.flags,
            "timeline": request.timeline,
        }
    )
    problem = EnvironmentUnusable(f"There is no worker with {device}.")
    untried = list(link.addresses(device))
    while untried:
        future = link.client.submit(
            describe_machine, order, workers=untried, resources=device.resources, pure=False
        )
        answer = json.loads(_first_result(future, reporter))
        if "failed" not in answer:
            return _machine(answer)
        problem = EnvironmentUnusable(answer["failed"], remedy=answer["remedy"])
        reporter.warn(f"{answer['address']}: {problem.message}")
        untried.remove(answer["address"])
    raise problem


def _first_result(future: Future[str], reporter: ProgressReporter) -> str:
    """Result of a task, which waits where all workers measure for somebody else."""
    try:
        return future.result(timeout=_PATIENCE_S)
    except TimeoutError:
        reporter.say("All workers are busy; waiting for one.")
        return future.result()


def _machine(answer: Mapping[str, Any]) -> Machine:
    """A worker's machine as the coordinator needs it: paths of its tools are not known here."""
    environment = environment_from(answer["environment"])
    return Machine(
        environment=environment,
        device=str(answer["device"]),
        ncu=Path("ncu") if environment.ncu else None,
        nsys=Path("nsys") if environment.nsys else None,
    )


def _run_folder(
    device: Device,
    request: MeasureRequest,
    libraries: Libraries,
    reporter: ProgressReporter,
) -> tuple[RunFolder, dict[str, Environment], dict[str, str]]:
    """The newest run of the device, if a cell of it has the key of today; else a new one.

    With it the GPU of each problem whose cells all have, and the keys of these cells.
    """
    name = request.loaded.experiment.name
    if not request.fresh:
        for run in reversed(runs(request.out, name)):
            environment = live_environment(run)
            if environment is None or device_of(environment) != device:
                continue
            owners, keys = _owners(run, request, libraries)
            if owners:
                reporter.say(f"Resuming {run.path} (--fresh starts a new run).")
                return run, owners, keys
            break
    return create_run(request.out, name, request.created), {}, {}


def _owners(
    run: RunFolder, request: MeasureRequest, libraries: Libraries
) -> tuple[dict[str, Environment], dict[str, str]]:
    """GPU of each problem of which the run has the keys of today, and these keys."""
    recorded, arrivals = run.record().keys, Arrivals(run, request, libraries.builds)
    owners: dict[str, Environment] = {}
    keys: dict[str, str] = {}
    for environment in dict.fromkeys((request.machine.environment, *worker_environments(run))):
        for problem in request.plan.problems:
            today = arrivals.keys_of(problem.id, environment)
            if all(recorded.get(cell) == key for cell, key in today.items()):
                owners[problem.id] = environment
                keys |= today
    return owners, keys
