"""The turn of a session that was started early: it waits at gates until the session before is done.

Whatever ends the orchestrator lets all gates go without opening them, and the session ends.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profiler.runner import protocol
from profiler.runner.protocol import Job


class NotWantedError(Exception):
    """The orchestrator is gone, or needs this session no more."""


class ContextAtImportError(Exception):
    """Importing the workload created a CUDA context, beside that of the session that measures."""


@dataclass(frozen=True)
class Turn:
    """Gates between the steps of a session; a session that does not wait passes them all."""

    job_file: Path
    waits: bool
    stamps: dict[str, float] = field(default_factory=dict)
    """When each of `STAMPS` was reached, in seconds of the system's monotonic clock."""

    def stamp(self, name: str) -> None:
        """Take down that a step has been reached, the first time that it is said."""
        self.stamps.setdefault(name, time.monotonic())

    def before_import(self) -> None:
        """Wait until the workload may be imported."""
        self._pass(protocol.IMPORT_GATE)
        self.stamp(protocol.MAY_IMPORT)

    def modules(self) -> Sequence[str]:
        """Wait until it is known which modules launches import, and give their names."""
        self.stamp(protocol.LOADED)
        return self._pass(protocol.MODULES_GATE).split()

    def before_device(self, *, has_context: bool) -> None:
        """Wait until a context may be created.

        Raises ContextAtImportError where there is one before its time.
        """
        if has_context and self.waits and not self._is_open(protocol.DEVICE_GATE):
            raise ContextAtImportError("importing the workload created a CUDA context")
        self._pass(protocol.DEVICE_GATE)
        self.stamp(protocol.ITS_TURN)

    def job_with_visits(self, job: Job) -> Job:
        """The job as it stands when the visits are known."""
        self.stamp(protocol.DEVICE_OPEN)
        self._pass(protocol.VISITS_GATE)
        self.stamp(protocol.VISITS_KNOWN)
        return protocol.read_job(self.job_file) if self.waits else job

    def _pass(self, name: str) -> str:
        """Wait at a gate, and give what stands there behind GATE_OPEN.

        Raises NotWantedError where it is let go without being opened.
        """
        if not self.waits:
            return ""
        try:
            with self._gate(name).open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH)
                content = stream.read()
        except OSError as error:
            raise NotWantedError(f"{name}: {error}") from error
        if not content.startswith(protocol.GATE_OPEN):
            raise NotWantedError(name)
        return content.removeprefix(protocol.GATE_OPEN).decode("utf-8")

    def _is_open(self, name: str) -> bool:
        try:
            return self._gate(name).read_bytes() == protocol.GATE_OPEN
        except OSError as error:
            raise NotWantedError(f"{name}: {error}") from error

    def _gate(self, name: str) -> Path:
        return self.job_file.parent / protocol.GATES_FOLDER / name
