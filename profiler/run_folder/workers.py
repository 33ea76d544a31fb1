"""Runs that workers measured: their GPUs, and attempts that arrive from workers.

`private/workers.json` holds the environment of each GPU with its UUID, from which the keys of the
cells that it measured can be made again; it never leaves the run folder.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from profiler.errors import UsageError
from profiler.model import Environment
from profiler.run_folder.documents import read_json, read_value, write_json
from profiler.run_folder.folder import WORKER_FILE, Attempt, RunFolder, Worker
from profiler.run_folder.redact import MACHINE_FILE, joined_texts, public_environment

WORKERS_FILE = "private/workers.json"
_ARRIVING = ".arriving."


def worker_environments(run: RunFolder) -> tuple[Environment, ...]:
    """Environments of a run's workers, oldest first; a GPU may have several."""
    path = run.path / WORKERS_FILE
    if not path.exists():
        return ()
    try:
        return read_value(path, "workers", tuple[Environment, ...])
    except UsageError:  # their visits are measured again
        return ()


def note_environment(run: RunFolder, environment: Environment) -> tuple[Environment, ...]:
    """All environments of a run so far, with a new one added and written."""
    environments = worker_environments(run)
    if environment not in environments:
        environments = (*environments, environment)
        write_json(run.path / WORKERS_FILE, {"workers": list(map(asdict, environments))})
    return environments


def worker_of(run: RunFolder, arrived: RunFolder, environment: Environment, seed: int) -> Worker:
    """The worker of an environment for attempts' records; a new environment is written.

    Private texts of its machine, in the folder that arrived, are joined with the run's.
    """
    texts = read_json(arrived.path / MACHINE_FILE)
    write_json(run.path / MACHINE_FILE, joined_texts(run.path, texts))
    environments = note_environment(run, environment)
    name_no_gpu_of_several(run)
    public = public_environment(environment, seed)
    chips = list(dict.fromkeys(map(_chip, environments)))
    return Worker(
        name=f"worker-{1 + chips.index(_chip(environment))}",
        gpu=public.gpu,
        gpu_uuid=public.gpu_uuid,
        driver=public.driver,
    )


def _chip(environment: Environment) -> tuple[str | None, ...]:
    """Identity of the GPU of an environment."""
    return environment.gpu_uuid, environment.gpu, environment.driver, environment.cpu


@contextmanager
def arrival_folder(run: RunFolder) -> Iterator[Path]:
    """Folder in the run folder for data that arrive from a worker, removed after the body."""
    with tempfile.TemporaryDirectory(dir=run.path, prefix=_ARRIVING) as folder:
        yield Path(folder)


def clear_arrivals(run: RunFolder) -> None:
    """Remove arrival folders of a killed coordinator."""
    for folder in run.path.glob(f"{_ARRIVING}*"):
        shutil.rmtree(folder, ignore_errors=True)


def add_attempt(run: RunFolder, attempt: Attempt, worker: Worker) -> Path:
    """Folder of a worker's attempt in a run, after it was moved there in one step."""
    write_json(attempt.folder / WORKER_FILE, asdict(worker))
    return attempt.folder.replace(run.reserve_attempt(attempt.record.session))


def name_no_gpu_of_several(run: RunFolder) -> None:
    """Remove the UUID from the environment of a run that several GPUs measured."""
    record = run.record()
    is_named = record.environment.gpu_uuid is not None
    if is_named and len(set(map(_chip, worker_environments(run)))) > 1:
        run.write_record(replace(record, environment=replace(record.environment, gpu_uuid=None)))
