"""The task of a worker: measure all versions of one problem on its GPU.

It makes a run folder of its own with the ordinary sessions, and sends each attempt when it is
complete. What had been measured before comes with the order, or lies there since a process of this
worker was killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from distributed import Event, get_worker

from profiler.cluster.job import Job, read_order
from profiler.cluster.on_worker import (
    FINISHED,
    Sender,
    checked_machine,
    failure_of,
    folder_of_worker,
    stored_libraries,
    with_paths,
)
from profiler.cluster.parcels import Parcel, files_of
from profiler.cluster.problem_folder import ProblemFolder, problem_folder
from profiler.cluster.standing import end_standing
from profiler.errors import ProfilerError
from profiler.planning.space import space_of
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import COMPILED_FOLDER
from profiler.run_folder.redact import MACHINE_FILE
from profiler.sessions.measure import MeasureRequest, gpu_held, keys_of, measure_in
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter, make_console
from profiler.sessions.stopwatch import Stopwatch

BEGUN = "begun"
GIVEN_BACK = "given back"
ATTEMPT = "attempt"
"""Kinds of parcels that a task sends."""


def measure_problem(order: str, libraries: Mapping[str, bytes], earlier: Sequence[Parcel]) -> None:
    """Measure what is missing of a problem, and send what comes of it to the queue of the order.

    `libraries` by the hashes of their contents; `earlier`: attempts that the coordinator has. What
    goes wrong is sent as well: the coordinator decides whether another worker tries.
    """
    end_standing()
    job = read_order(order, Job)
    reporter = _WarningsKept(
        results=make_console("auto"),
        progress=make_console("auto", stderr=True),
        quiet=job.quiet,
    )
    sender = Sender(job)
    failed: dict[str, Any] | None = None
    began = time.monotonic()
    seconds = SecondsRecorder()
    root = folder_of_worker(get_worker())
    begun = Event(f"begun-{job.task}")
    with problem_folder(root, job) as folder:
        if begun.is_set() and not folder.was_left:
            # Dask gives a task to another worker when the one that had it dies.
            sender.send(GIVEN_BACK, {})
            return
        begun.set()
        sender.send(BEGUN, {"worker": str(get_worker().name)})
        try:
            _measure(job, libraries, earlier, folder, reporter, sender, seconds)
        except (ProfilerError, OSError) as error:
            failed = failure_of(error)
    begun.clear()
    sender.send(
        FINISHED,
        {
            "failed": failed,
            "warnings": reporter.warnings,
            "spans": [asdict(span) for span in seconds.spans],
            "seconds": time.monotonic() - began,
        },
    )


@dataclass
class _WarningsKept(ProgressReporter):
    """Prints on the console of the worker, and keeps warnings for the coordinator."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Keep a line, and print it unless the coordinator has the same terminal."""
        self.warnings.append(text)
        if not self.quiet:
            super().warn(text)


def _measure(  # noqa: PLR0913, PLR0917 - what a task is made of
    job: Job,
    libraries: Mapping[str, bytes],
    earlier: Sequence[Parcel],
    folder: ProblemFolder,
    reporter: ProgressReporter,
    sender: Sender,
    seconds: SecondsRecorder,
) -> None:
    loaded = job.spec()
    machine = checked_machine(job, loaded, timeline=job.timeline)
    environment, run, root = machine.environment, folder.run, folder.path.parent
    with gpu_held(machine, seconds, reporter.say) as lock:
        paths = stored_libraries(libraries, root / "libraries")
        builds = with_paths(job, paths)
        if not folder.was_left:
            folder.prepare(root / COMPILED_FOLDER / job.queue, earlier)
        space = space_of(loaded)
        arch = machine.resolved_architecture(loaded.experiment.build.arch)

        def send(_: Path | None = None) -> None:
            """Send what the coordinator has not, oldest first: also what a killed process left."""
            texts = read_json(run.path / MACHINE_FILE)
            for attempt in folder.unsent():
                document = {
                    "attempt": attempt.name,
                    "environment": asdict(environment),
                    "keys": keys,
                    "texts": texts,
                }
                sender.send(ATTEMPT, document, files_of(attempt))
                folder.note_sent(attempt)

        request = MeasureRequest(
            loaded=loaded,
            plan=job.plan,
            space=replace(space, arch=arch),
            machine=machine,
            out=run.path.parent.parent,
            fresh=False,
            created=datetime.now().astimezone().isoformat(timespec="seconds"),
            timeline=job.timeline,
            explain=None if job.explain is None else (job.explain,),
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
            stamped={variant: paths[digest] for variant, digest in job.stamped.items()},
        )
        send()
