"""The task of a worker: measure all versions of one problem on its GPU.

It makes a run folder of its own with the ordinary sessions, and sends each attempt when it is
complete. What had been measured before comes with the order, so nothing is left to a worker.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from distributed import Queue, get_worker

import profiler
from profiler.cluster.device import device_of
from profiler.cluster.job import Job, read_job
from profiler.cluster.parcels import Parcel, content_hash, files_of, packed, unpacked
from profiler.errors import EnvironmentUnusable, ExitCode, Interrupted, ProfilerError
from profiler.machine.gpu_lock import gpu_lock
from profiler.machine.requirements import Machine, find_machine
from profiler.model import BuildResult
from profiler.planning.space import space_of
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import COMPILED_FOLDER, RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.sessions.measure import (
    LOCK_TIMEOUT_S,
    MeasureRequest,
    Stopwatch,
    keys_of,
    measure_in,
)
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter, make_console
from profiler.sessions.sources import source_hashes

ATTEMPT = "attempt"
FINISHED = "finished"
"""Kinds of parcels that a task sends."""


def measure_problem(order: str, libraries: Mapping[str, bytes], earlier: Sequence[Parcel]) -> None:
    """Measure what is missing of a problem, and send what comes of it to the queue of the order.

    `libraries` by the hashes of their contents; `earlier`: attempts that the coordinator has. What
    goes wrong is sent as well: the coordinator decides whether another worker tries.
    """
    job = read_job(order)
    reporter = _WarningsKept(
        results=make_console("auto"),
        progress=make_console("auto", stderr=True),
        quiet=job.quiet,
    )
    sender = _Sender(job)
    failed: dict[str, Any] | None = None
    began = time.monotonic()
    seconds = SecondsRecorder()
    try:
        _measure(job, libraries, earlier, reporter, sender, seconds)
    except ProfilerError as error:
        failed = _failure(error.message, error.remedy, error.exit_code)
    except OSError as error:  # a full disk
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        failed = _failure(named, None, ExitCode.ENVIRONMENT)
    sender.send(
        FINISHED,
        {
            "failed": failed,
            "warnings": reporter.warnings,
            "spans": [asdict(span) for span in seconds.spans],
            "seconds": time.monotonic() - began,
        },
    )


def _failure(message: str, remedy: str | None, code: ExitCode) -> dict[str, Any]:
    return {"message": message, "remedy": remedy, "exit_code": int(code)}


@dataclass
class _WarningsKept(ProgressReporter):
    """Prints on the console of the worker, and keeps warnings for the coordinator."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Keep a line, and print it unless the coordinator has the same terminal."""
        self.warnings.append(text)
        if not self.quiet:
            super().warn(text)


class _Sender:
    """Sends parcels of one execution of a task."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._execution = uuid.uuid4().hex
        self._queue = Queue(job.queue)

    def send(
        self,
        kind: str,
        document: Mapping[str, Any],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Put a parcel into the queue; raises Interrupted where nobody wants it any more."""
        if self._is_cancelled():
            raise Interrupted("The coordinator has given this problem up.")
        sent = {"kind": kind, "execution": self._execution, **document}
        # Whose it is stands outside: known also where the rest is damaged.
        sender = {"task": self._job.task, "address": get_worker().address}
        self._queue.put({**packed(sent, files), **sender})

    def _is_cancelled(self) -> bool:
        task = get_worker().state.tasks.get(self._job.task)
        return task is None or task.state == "cancelled"


def _measure(  # noqa: PLR0913, PLR0917 - what a task is made of
    job: Job,
    libraries: Mapping[str, bytes],
    earlier: Sequence[Parcel],
    reporter: ProgressReporter,
    sender: _Sender,
    seconds: SecondsRecorder,
) -> None:
    loaded = job.spec()
    machine = _checked_machine(job, loaded)
    environment = machine.environment
    scratch = Path(get_worker().local_directory)
    with (
        _new_run(scratch, job) as run,
        gpu_lock(environment.gpu_uuid, timeout_s=LOCK_TIMEOUT_S, on_wait=reporter.say) as lock,
    ):
        builds, stamped = _with_libraries(job, libraries, scratch / "libraries")
        _add_earlier(run, earlier)
        space = space_of(loaded)
        arch = machine.resolved_architecture(loaded.experiment.build.arch)

        def send(folder: Path) -> None:
            document = {
                "attempt": folder.name,
                "environment": asdict(environment),
                "keys": keys,
                "texts": read_json(run.path / MACHINE_FILE),
            }
            sender.send(ATTEMPT, document, files_of(folder))

        request = MeasureRequest(
            loaded=loaded,
            plan=job.plan,
            space=replace(space, arch=arch),
            machine=machine,
            out=run.path.parent.parent,
            fresh=False,
            created=datetime.now().astimezone().isoformat(timespec="seconds"),
            timeline=job.timeline,
            explain=job.explain,
            seconds=seconds,
            on_attempt=send,
        )
        keys = keys_of(request, builds)
        measure_in(
            run,
            request,
            builds=builds,
            keys=keys,
            lock_file=lock.session_file,
            reporter=reporter,
            watch=Stopwatch(),
            stamped=stamped,
        )


def _checked_machine(job: Job, loaded: LoadedSpec) -> Machine:
    """Machine of the worker; raises EnvironmentUnusable where it is not the one asked for."""
    if job.profiler_version != profiler.__version__:
        raise EnvironmentUnusable(
            f"The worker has version {profiler.__version__} of the profiler, the coordinator "
            f"{job.profiler_version}.",
            remedy="Install the same version on both.",
        )
    machine = find_machine(loaded.experiment, loaded.base, timeline=job.timeline)
    here = str(device_of(machine.environment))
    if here != job.device:
        raise EnvironmentUnusable(
            f"The worker measures on {here} now, and not on {job.device}.",
            remedy="Start it again: it says what it has when it starts (--device cpu: the CPU).",
        )
    if source_hashes(loaded.experiment, loaded.base, job.plan.cells) != job.sources:
        raise EnvironmentUnusable(
            f"The files behind {job.spec_path} are not those of the coordinator.",
            remedy="Start the worker in a copy of the same folder: sources do not travel.",
        )
    return machine


@contextmanager
def _new_run(scratch: Path, job: Job) -> Iterator[RunFolder]:
    """Folder of a run that is gone afterwards; what compilers cached stays for this experiment."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=scratch, prefix="problem."))
    try:
        run = RunFolder(folder / job.plan.experiment / "run")
        run.path.mkdir(parents=True)
        compiled = scratch / COMPILED_FOLDER / job.queue
        compiled.mkdir(parents=True, exist_ok=True)
        (run.path / COMPILED_FOLDER).symlink_to(compiled)
        yield run
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_libraries(
    job: Job, libraries: Mapping[str, bytes], folder: Path
) -> tuple[tuple[BuildResult, ...], dict[str, str]]:
    """Builds and libraries with stamps whose libraries lie here, in a folder by content."""
    paths = {digest: _stored(folder, digest, content) for digest, content in libraries.items()}
    builds = tuple(
        replace(build, library=None if build.library is None else paths[build.library])
        for build in job.builds
    )
    return builds, {variant: paths[digest] for variant, digest in job.stamped.items()}


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


def _add_earlier(run: RunFolder, earlier: Sequence[Parcel]) -> None:
    """Put attempts that the coordinator has into a run folder, under their names."""
    for parcel in earlier:
        document, files = unpacked(parcel)
        folder = run.path / "raw" / document["attempt"]
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
