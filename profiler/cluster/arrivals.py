"""Attempts that workers sent, put into one run folder as attempts like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from profiler.cluster.device import device_of, environment_from
from profiler.cluster.job import builds_of, part_of
from profiler.errors import UsageError
from profiler.model import BuildResult, Environment
from profiler.run_folder.folder import JOURNAL_FILE, RunFolder
from profiler.run_folder.workers import (
    add_attempt,
    name_no_gpu_of_several,
    note_texts_of_worker,
    worker_environments,
    worker_of,
)
from profiler.runner import protocol
from profiler.sessions.measure import MeasureRequest, keys_of
from profiler.sessions.sources import digests_now, watched_folders

Arrived = tuple[dict[str, Any], dict[str, bytes]]
"""Document and files of a parcel."""


def owners_in(
    run: RunFolder, request: MeasureRequest, builds: Sequence[BuildResult]
) -> tuple[dict[str, Environment], dict[str, str]]:
    """GPU of each problem of which a run has all keys of today, and these keys by cell."""
    recorded = run.record().keys
    owners: dict[str, Environment] = {}
    keys: dict[str, str] = {}
    for environment in dict.fromkeys((request.machine.environment, *worker_environments(run))):
        for problem in request.plan.problems:
            today = _keys_of(problem.id, environment, request, builds)
            if all(recorded.get(cell) == key for cell, key in today.items()):
                owners[problem.id] = environment
                keys |= today
    return owners, keys


def take_attempts(  # noqa: PLR0913 - all but the first by keyword
    run: RunFolder,
    *,
    request: MeasureRequest,
    builds: Sequence[BuildResult],
    problem: str,
    facts: Mapping[str, Any],
    attempts: Sequence[Arrived],
) -> dict[str, str]:
    """Write attempts at a problem into a run folder, and the keys of its cells before them.

    Gives their names there by those that they had. `request`: for the whole plan. Raises UsageError
    where they are not of what was asked for: another device, other kernels or sources, or another
    content of a file that both have.
    """
    environment = environment_from(facts["environment"])
    if device_of(environment) != device_of(request.machine.environment):
        raise UsageError(f"it measured on {device_of(environment)}")
    keys = _keys_of(problem, environment, request, builds)
    if keys != facts["keys"]:
        raise UsageError("it measured other kernels, sources or settings than those here")
    opened: dict[str, str] = {}
    for _, files in attempts:
        opened |= _opened(files, request)
    note_texts_of_worker(run, facts["texts"])
    worker = worker_of(run, environment, request.plan.seed)
    record = run.record()
    run.write_record(
        replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
    )
    name_no_gpu_of_several(run)
    return {
        document["attempt"]: add_attempt(run, files, worker).name for document, files in attempts
    }


def _keys_of(
    problem: str,
    environment: Environment,
    request: MeasureRequest,
    builds: Sequence[BuildResult],
) -> dict[str, str]:
    """Keys of the cells of a problem that is measured in an environment."""
    plan = part_of(request.plan, problem)
    machine = replace(request.machine, environment=environment)
    return keys_of(replace(request, plan=plan, machine=machine), builds_of(plan, builds))


def _opened(files: Mapping[str, bytes], request: MeasureRequest) -> dict[str, str]:
    """Files that a session opened; raises UsageError where one is another file here."""
    lines = files.get(JOURNAL_FILE, b"").splitlines()
    opened = protocol.opened_files(filter(None, map(protocol.record_of, lines)))
    loaded = request.loaded
    here = digests_now(opened, watched_folders(loaded.experiment, loaded.base))
    others = [name for name, digest in opened.items() if here.get(name, digest) != digest]
    if others:
        names = ", ".join(sorted(name.partition(":")[2] for name in others))
        raise UsageError(f"it read {names}, which has another content here or is not here")
    return opened
