"""What tasks on a worker have in common: the machine, its folder, libraries, what goes back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from distributed import Queue, Worker, get_worker

import profiler
from profiler.cluster.device import device_of
from profiler.cluster.job import Order, spec_of_text
from profiler.cluster.parcels import Parcel, content_hash, files_of, packed
from profiler.errors import EnvironmentUnusable, ExitCode, Interrupted, ProfilerError
from profiler.machine.requirements import Machine, find_machine
from profiler.model import BuildResult
from profiler.planning.spec import LoadedSpec
from profiler.sessions.sources import source_hashes


def describe_machine(path: str, text: str, overrides: Sequence[str], *, timeline: bool) -> str:
    """Environment of this machine for an experiment, as JSON; or why it cannot do it."""
    try:
        loaded = spec_of_text(path, text, overrides)
        machine = find_machine(loaded.experiment, loaded.base, timeline=timeline)
    except ProfilerError as error:
        return json.dumps({"failed": failure_of(error)})
    return json.dumps({"environment": asdict(machine.environment), "device": machine.device})


def folder_of_worker(worker: Worker) -> Path:
    """Folder of a worker that outlives its process: another process of that name finds it there.

    Dask's own folder for a process is gone with it; it lies in one for all workers of a scratch.
    """
    name = hashlib.sha256(str(worker.name).encode()).hexdigest()[:16]
    return Path(worker.local_directory).parent / f"kernel-profiler-{name}"


def answer(
    facts: dict[str, Any], measure: Callable[[], None], attempts: Callable[[], Sequence[Path]]
) -> list[Parcel]:
    """What goes back of a task: its facts, why it failed if it did, and attempts in their order."""
    facts["failed"] = None
    try:
        measure()
    except (ProfilerError, OSError) as error:
        facts["failed"] = failure_of(error)
    sent = [packed({"attempt": folder.name}, files_of(folder)) for folder in attempts()]
    return [packed(facts), *sent]


def failure_of(error: ProfilerError | OSError) -> dict[str, Any]:
    """An error as it is sent."""
    if isinstance(error, ProfilerError):
        return {
            "message": error.message,
            "remedy": error.remedy,
            "exit_code": int(error.exit_code),
        }
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error)  # a full disk
    return {"message": message, "remedy": None, "exit_code": int(ExitCode.ENVIRONMENT)}


def failure_from(document: Mapping[str, Any]) -> ProfilerError:
    """The error that a worker sent."""
    failure = ProfilerError(document["message"], remedy=document["remedy"])
    failure.exit_code = ExitCode(document["exit_code"])
    return failure


def end_if_unwanted() -> None:
    """Raise Interrupted where nobody waits any more for the task that runs here."""
    task = get_worker().state.tasks.get(get_worker().get_current_task())
    if task is None or task.state == "cancelled":
        raise Interrupted("The coordinator has given this task up.")


def send_early(order: Order, facts: Mapping[str, Any], attempt: Path) -> None:
    """Send an attempt before its task has ended, which may be long after or never.

    Raises Interrupted where nobody waits for it.
    """
    end_if_unwanted()
    parcels = [packed(facts), packed({"attempt": attempt.name}, files_of(attempt))]
    Queue(order.run).put((get_worker().get_current_task(), parcels))


@dataclass(frozen=True)
class Prepared:
    """What an order is carried out with on this worker."""

    loaded: LoadedSpec
    machine: Machine
    folder: Path
    """The worker's."""
    builds: tuple[BuildResult, ...]
    stamped: dict[str, str]
    """Variant id → path of its library with stamps."""


def prepared(order: Order, libraries: Mapping[str, bytes]) -> Prepared:
    """The machine of the worker, checked, and the libraries of an order, which lie here.

    Raises EnvironmentUnusable where the machine or a library is not the one asked for.
    """
    if order.profiler_version != profiler.__version__:
        raise EnvironmentUnusable(
            f"The worker has version {profiler.__version__} of the profiler, the coordinator "
            f"{order.profiler_version}.",
            remedy="Install the same version on both.",
        )
    loaded = spec_of_text(order.spec_path, order.spec_text, order.overrides)
    machine = find_machine(loaded.experiment, loaded.base, timeline=order.timeline)
    here = str(device_of(machine.environment))
    if here != order.device:
        raise EnvironmentUnusable(
            f"The worker measures on {here} now, and not on {order.device}.",
            remedy="Start it again: it says what it has when it starts (--device cpu: the CPU).",
        )
    if source_hashes(loaded.experiment, loaded.base, order.plan.cells) != order.sources:
        raise EnvironmentUnusable(
            f"The files behind {order.spec_path} are not those of the coordinator.",
            remedy="Start the worker in a copy of the same folder: sources do not travel.",
        )
    folder = folder_of_worker(get_worker())
    paths = _stored(libraries, folder / "libraries")
    builds = tuple(
        replace(build, library=build.library and paths[build.library]) for build in order.builds
    )
    stamped = {variant: paths[digest] for variant, digest in order.stamped.items()}
    return Prepared(loaded, machine, folder, builds, stamped)


def _stored(libraries: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Path of each library by the hash of its content, in a folder by content."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {digest: folder / f"{digest}.so" for digest in libraries}
    for digest, content in libraries.items():
        if content_hash(content) != digest:
            raise EnvironmentUnusable("A library that arrived is not the one that was built.")
        path = paths[digest]
        if not path.exists() or content_hash(path.read_bytes()) != digest:
            draft = path.with_suffix(".draft")
            draft.write_bytes(content)
            draft.replace(path)
    return {digest: str(path) for digest, path in paths.items()}
