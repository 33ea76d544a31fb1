"""Runs that workers measured: which GPUs there are, and attempts that came from elsewhere.

`private/workers.json` holds the environment of each GPU with its UUID, from which the keys of the
cells that it measured can be made again; it never leaves the run folder.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from profiler.errors import UsageError
from profiler.model import Environment
from profiler.run_folder.documents import read_dataclass
from profiler.run_folder.folder import (
    SESSION_FILE,
    WORKER_FILE,
    RunFolder,
    Worker,
    write_json,
)
from profiler.run_folder.redact import MACHINE_FILE, joined_texts, public_environment

WORKERS_FILE = "private/workers.json"
_DRAFTS = ".arriving."


@dataclass(frozen=True)
class _Workers:
    """The content of private/workers.json."""

    workers: tuple[Environment, ...] = ()


def worker_environments(run: RunFolder) -> tuple[Environment, ...]:
    """Environments in which workers measured for a run, oldest first; of a GPU maybe several."""
    path = run.path / WORKERS_FILE
    if not path.exists():
        return ()
    try:
        return read_dataclass(path, _Workers).workers
    except UsageError:  # what they measured is measured again
        return ()


def live_environment(run: RunFolder) -> Environment | None:
    """Environment of a run that may go on; None of a recording, or where it cannot be read."""
    try:
        record = run.record()
    except UsageError:
        return None
    return None if record.recording else record.environment


def worker_of(
    run: RunFolder, environment: Environment, seed: int, texts: Mapping[str, Any]
) -> Worker:
    """The GPU of an environment as attempts name it; a new one is written down.

    `texts`: what is private to its machine, which is taken out of all that is shared.
    """
    write_json(run.path / MACHINE_FILE, joined_texts(run.path, texts))
    environments = worker_environments(run)
    if environment not in environments:
        environments = (*environments, environment)
        write_json(run.path / WORKERS_FILE, asdict(_Workers(environments)))
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
    """What tells the GPU of an environment from others."""
    return environment.gpu_uuid, environment.gpu, environment.driver, environment.cpu


def add_attempt(run: RunFolder, files: Mapping[str, bytes], worker: Worker) -> Path:
    """Make an attempt of the files of one that a worker made, in one step.

    Raises UsageError for a damaged session.json.
    """
    session = _session_name(files)
    draft = Path(tempfile.mkdtemp(dir=run.path, prefix=_DRAFTS))
    draft.chmod(0o755)
    for name, content in files.items():
        (draft / name).write_bytes(content)
    write_json(draft / WORKER_FILE, asdict(worker))
    return draft.replace(run.reserve_attempt(session))


def clear_drafts(run: RunFolder) -> None:
    """Take away what a coordinator that was killed had begun to write."""
    for draft in run.path.glob(f"{_DRAFTS}*"):
        shutil.rmtree(draft, ignore_errors=True)


def _session_name(files: Mapping[str, bytes]) -> str:
    try:
        name = json.loads(files[SESSION_FILE])["session"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"an attempt of a worker has no usable {SESSION_FILE}") from error
    if not isinstance(name, str) or not is_plain_name(name):
        raise UsageError(f"an attempt of a worker has a session called {name!r}")
    return name


def is_plain_name(name: str) -> bool:
    """Whether a name is that of a file or folder right here, and of no other place."""
    return bool(name) and name == Path(name).name and not name.startswith(".") and "\0" not in name


def name_no_gpu_of_several(run: RunFolder) -> None:
    """Take the UUID out of the environment of a run that several GPUs measured."""
    record = run.record()
    if len(set(map(_chip, worker_environments(run)))) > 1:
        environment = replace(record.environment, gpu_uuid=None)
        run.write_record(replace(record, environment=environment))
