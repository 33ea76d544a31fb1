"""Tasks on a worker have this in common: the machine, its folder, libraries, what is sent."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Queue, Worker, get_worker

import profiler
from profiler.cluster.device import device_of
from profiler.cluster.job import Order
from profiler.cluster.parcels import content_hash, packed
from profiler.errors import EnvironmentUnusable, ExitCode, Interrupted, ProfilerError
from profiler.machine.requirements import Machine, find_machine
from profiler.model import BuildResult
from profiler.planning.spec import LoadedSpec
from profiler.sessions.sources import source_hashes

FINISHED = "finished"
"""Kind of the last parcel of a task."""


def folder_of_worker(worker: Worker) -> Path:
    """Folder of a worker that outlives its process: another process of that name finds it there.

    Dask's own folder for a process is gone with it; it lies in one for all workers of a scratch.
    """
    name = hashlib.sha256(str(worker.name).encode()).hexdigest()[:16]
    return Path(worker.local_directory).parent / f"kernel-profiler-{name}"


def remove_folder(worker: Worker) -> None:
    """Take away all that a worker kept, when it ends in order."""
    shutil.rmtree(folder_of_worker(worker), ignore_errors=True)


class Sender:
    """Sends parcels of one execution of a task."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._execution = uuid.uuid4().hex
        self._queue = Queue(order.queue)

    def send(
        self,
        kind: str,
        document: Mapping[str, Any],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Put a parcel into the queue; raises Interrupted where nobody wants it any more."""
        if self._is_cancelled():
            raise Interrupted("The coordinator has given this task up.")
        sent = {"kind": kind, "execution": self._execution, **document}
        # Whose it is stands outside: known also where the rest is damaged.
        sender = {"task": self._order.task, "address": get_worker().address}
        self._queue.put({**packed(sent, files), **sender})

    def _is_cancelled(self) -> bool:
        task = get_worker().state.tasks.get(self._order.task)
        return task is None or task.state == "cancelled"


def failure_of(error: ProfilerError | OSError) -> dict[str, Any]:
    """An error as it is sent."""
    if isinstance(error, ProfilerError):
        message, remedy, code = error.message, error.remedy, error.exit_code
    else:  # a full disk
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        remedy, code = None, ExitCode.ENVIRONMENT
    return {"message": message, "remedy": remedy, "exit_code": int(code)}


def failure_from(document: Mapping[str, Any]) -> ProfilerError:
    """The error that a worker sent."""
    failure = ProfilerError(document["message"], remedy=document["remedy"])
    failure.exit_code = ExitCode(document["exit_code"])
    return failure


def checked_machine(order: Order, loaded: LoadedSpec, *, timeline: bool = False) -> Machine:
    """Machine of the worker; raises EnvironmentUnusable where it is not the one asked for."""
    if order.profiler_version != profiler.__version__:
        raise EnvironmentUnusable(
            f"The worker has version {profiler.__version__} of the profiler, the coordinator "
            f"{order.profiler_version}.",
            remedy="Install the same version on both.",
        )
    machine = find_machine(loaded.experiment, loaded.base, timeline=timeline)
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
    return machine


def stored_libraries(libraries: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Path of each library by the hash of its content, in a folder by content."""
    return {digest: _stored(folder, digest, content) for digest, content in libraries.items()}


def with_paths(order: Order, paths: Mapping[str, str]) -> tuple[BuildResult, ...]:
    """Builds of an order whose libraries lie here."""
    return tuple(
        replace(build, library=None if build.library is None else paths[build.library])
        for build in order.builds
    )


def _stored(folder: Path, digest: str, content: bytes) -> str:
    """Path of a library; raises EnvironmentUnusable where it is not the one that was built."""
    if content_hash(content) != digest:
        raise EnvironmentUnusable("A library that arrived is not the one that was built.")
    path = folder / f"{digest}.so"
    if not path.exists() or content_hash(path.read_bytes()) != digest:
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{uuid.uuid4().hex}")
        draft.write_bytes(content)
        draft.replace(path)
    return str(path)
