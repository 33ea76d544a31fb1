"""Attempts that workers sent, put into one run folder as attempts like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    worker_of,
)
from profiler.runner import protocol
from profiler.sessions.measure import MeasureRequest, keys_of
from profiler.sessions.sources import digests_now, watched_folders


@dataclass(frozen=True)
class Arrivals:
    """Takes attempts of workers into the run folder of one device."""

    run: RunFolder
    request: MeasureRequest
    """Request for the whole plan; its machine is the first worker's."""
    builds: Sequence[BuildResult]

    def take(
        self,
        problem: str,
        facts: Mapping[str, Any],
        attempts: Sequence[tuple[Mapping[str, Any], Mapping[str, bytes]]],
    ) -> dict[str, str]:
        """Write attempts at a problem into the run folder, and the keys of its cells before them.

        Gives their names there by those that they had. Raises UsageError where they are not of what
        was asked for: another device, other kernels or sources, or another content of a file that
        both have.
        """
        environment = environment_from(facts["environment"])
        if device_of(environment) != device_of(self.request.machine.environment):
            raise UsageError(f"it measured on {device_of(environment)}")
        keys = self.keys_of(problem, environment)
        if keys != facts["keys"]:
            raise UsageError("it measured other kernels, sources or settings than those here")
        opened: dict[str, str] = {}
        for _, files in attempts:
            opened |= self._opened(files)
        note_texts_of_worker(self.run, facts["texts"])
        worker = worker_of(self.run, environment, self.request.plan.seed)
        record = self.run.record()
        self.run.write_record(
            replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
        )
        name_no_gpu_of_several(self.run)
        return {
            document["attempt"]: add_attempt(self.run, files, worker).name
            for document, files in attempts
        }

    def keys_of(self, problem: str, environment: Environment) -> dict[str, str]:
        """Keys of the cells of a problem that is measured in an environment."""
        plan = part_of(self.request.plan, problem)
        machine = replace(self.request.machine, environment=environment)
        part = replace(self.request, plan=plan, machine=machine)
        return keys_of(part, builds_of(plan, self.builds))

    def _opened(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Files that the session opened; raises UsageError where one is another file here."""
        lines = files.get(JOURNAL_FILE, b"").splitlines()
        opened = protocol.opened_files(filter(None, map(protocol.record_of, lines)))
        loaded = self.request.loaded
        here = digests_now(opened, watched_folders(loaded.experiment, loaded.base))
        others = [name for name, digest in opened.items() if here.get(name, digest) != digest]
        if others:
            names = ", ".join(sorted(name.partition(":")[2] for name in others))
            raise UsageError(f"it read {names}, which has another content here or is not here")
        return opened
