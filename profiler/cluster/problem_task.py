"""The task of a worker: measure all versions of one problem on its GPU.

It makes a run folder of its own with the ordinary sessions, of which the new attempts go back: each
when it is complete, and all in the end. What had been measured before comes with the order, or lies
there since a process of this worker was killed.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from distributed import get_worker

from profiler.cluster.job import Job, read_order
from profiler.cluster.on_worker import (
    answer,
    folder_of_worker,
    prepared,
    send_early,
)
from profiler.cluster.parcels import Parcel, unpacked
from profiler.cluster.standing import end_standing
from profiler.planning.space import space_of
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import COMPILED_FOLDER, RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.sessions.measure import MeasureRequest, gpu_held, keys_of, measure_in
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter, make_console
from profiler.sessions.stopwatch import Stopwatch


def measure_problem(
    order: str, libraries: Mapping[str, bytes], earlier: Sequence[Parcel]
) -> list[Parcel]:
    """Measure what is missing of a problem; gives what is known of that, and the new attempts.

    `libraries` by the hashes of their contents; `earlier`: attempts that the coordinator has. What
    goes wrong goes back as well: the coordinator decides whether another worker tries.
    """
    end_standing()
    began = time.monotonic()
    job = read_order(order, Job)
    name = hashlib.sha256("\0".join((job.run, job.problem, job.explain or "")).encode()).hexdigest()
    folder = folder_of_worker(get_worker()) / f"problem.{name[:16]}"
    run = RunFolder(folder / job.plan.experiment / "run")
    reporter = _WarningsKept(make_console("auto"), make_console("auto", stderr=True), job.quiet)
    facts: dict[str, Any] = {"warnings": reporter.warnings}
    known = {unpacked(parcel)[0]["attempt"] for parcel in earlier}

    def measure() -> None:
        if not folder.exists():
            _begin_folder(run, folder, folder.parent / COMPILED_FOLDER / job.run, earlier)
        _measure(job, libraries, run, reporter, facts)

    def new_attempts() -> list[Path]:
        facts["seconds"] = time.monotonic() - began
        if "spans" not in facts:  # it is not known what they were measured on
            return []
        fresh = [a.folder for a in run.attempts() if a.folder.name not in known]
        facts["texts"] = read_json(run.path / MACHINE_FILE) if fresh else {}
        return fresh

    try:
        return answer(facts, measure, new_attempts)
    finally:  # what a killed process leaves is gone on with
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _WarningsKept(ProgressReporter):
    """Prints on the console of the worker, and keeps warnings for the coordinator."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Keep a line, and print it unless the coordinator has the same terminal."""
        self.warnings.append(text)
        if not self.quiet:
            super().warn(text)


def _begin_folder(run: RunFolder, folder: Path, compiled: Path, earlier: Sequence[Parcel]) -> None:
    """Make a run folder with what the coordinator has; when it is there it is whole."""
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    raw = draft / run.path.relative_to(folder) / "raw"
    raw.mkdir(parents=True)
    compiled.mkdir(parents=True, exist_ok=True)
    (raw.parent / COMPILED_FOLDER).symlink_to(compiled)
    for document, files in map(unpacked, earlier):
        attempt = raw / document["attempt"]
        attempt.mkdir()
        for name, content in files.items():
            (attempt / name).write_bytes(content)
    draft.replace(folder)


def _measure(
    job: Job,
    libraries: Mapping[str, bytes],
    run: RunFolder,
    reporter: ProgressReporter,
    facts: dict[str, Any],
) -> None:
    """Measure what is missing in a run folder; `facts` says as soon as it is known on what."""
    here, seconds = prepared(job, libraries), SecondsRecorder()

    def send(attempt: Path) -> None:
        facts["texts"] = read_json(run.path / MACHINE_FILE)
        send_early(job, facts, attempt)

    arch = here.machine.resolved_architecture(here.loaded.experiment.build.arch)
    request = MeasureRequest(
        loaded=here.loaded,
        plan=job.plan,
        space=replace(space_of(here.loaded), arch=arch),
        machine=here.machine,
        out=run.path.parent.parent,
        fresh=False,
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        timeline=job.timeline,
        explain=None if job.explain is None else (job.explain,),
        seconds=seconds,
        on_attempt=send,
    )
    keys = keys_of(request, here.builds)
    facts["environment"], facts["keys"] = asdict(here.machine.environment), keys
    try:
        with gpu_held(here.machine, seconds, reporter.say) as lock:
            measure_in(
                run,
                request,
                builds=here.builds,
                keys=keys,
                lock_file=lock.session_file,
                reporter=reporter,
                watch=Stopwatch(),
                stamped=here.stamped,
            )
    finally:
        facts["spans"] = [asdict(span) for span in seconds.spans]
