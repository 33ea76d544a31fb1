"""Attempts that workers sent, put into one run folder as attempts like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.cluster.device import device_of, environment_from
from profiler.cluster.job import builds_of, part_of
from profiler.errors import UsageError
from profiler.model import BuildResult, Environment
from profiler.run_folder.folder import JOURNAL_FILE, RunFolder, Worker
from profiler.run_folder.workers import (
    add_attempt,
    name_no_gpu_of_several,
    note_texts_of_worker,
    worker_of,
)
from profiler.runner import protocol
from profiler.sessions.measure import MeasureRequest, keys_of
from profiler.sessions.sources import digests_now, watched_folders


@dataclass(frozen=True)
class Arrival:
    """An attempt that was put into the run folder."""

    folder: Path
    worker: Worker
    environment: Environment


@dataclass(frozen=True)
class Arrivals:
    """Takes attempts of workers into the run folder of one device."""

    run: RunFolder
    request: MeasureRequest
    """Request for the whole plan; its machine is the first worker's."""
    builds: Sequence[BuildResult]

    def take(
        self, problem: str, document: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> Arrival:
        """Write an attempt at a problem into the run folder, and the keys of its cells before it.

        Raises UsageError where it is not of what was asked for: another device, other kernels or
        sources, or another content of a file that both have.
        """
        environment = environment_from(document["environment"])
        if device_of(environment) != device_of(self.request.machine.environment):
            raise UsageError(f"it measured on {device_of(environment)}")
        keys = self.keys_of(problem, environment)
        if keys != document["keys"]:
            raise UsageError("it measured other kernels, sources or settings than those here")
        opened = self._opened(files)
        note_texts_of_worker(self.run, document["texts"])
        worker = worker_of(self.run, environment, self.request.plan.seed)
        self._write_record(keys, opened)
        return Arrival(add_attempt(self.run, files, worker), worker, environment)

    def keys_of(self, problem: str, environment: Environment) -> dict[str, str]:
        """Keys of the cells of a problem that is measured in an environment."""
        plan = part_of(self.request.plan, problem)
        machine = replace(self.request.machine, environment=environment)
        part = replace(self.request, plan=plan, machine=machine)
        return keys_of(part, builds_of(plan, self.builds))

    def _opened(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Files that the session opened; raises UsageError where one is another file here."""
        opened = protocol.opened_files(_journal(files))
        loaded = self.request.loaded
        here = digests_now(opened, watched_folders(loaded.experiment, loaded.base))
        others = [name for name, digest in opened.items() if here.get(name, digest) != digest]
        if others:
            names = ", ".join(sorted(name.partition(":")[2] for name in others))
            raise UsageError(f"it read {names}, which has another content here or is not here")
        return opened

    def _write_record(self, keys: Mapping[str, str], opened: Mapping[str, str]) -> None:
        record = self.run.record()
        self.run.write_record(
            replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
        )
        name_no_gpu_of_several(self.run)


def _journal(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    lines = files.get(JOURNAL_FILE, b"").splitlines()
    return [record for record in map(protocol.record_of, lines) if record is not None]
