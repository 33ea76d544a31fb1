"""The turn of a session that was started early: it waits at gates until the session before is done.

Whatever ends the orchestrator lets all gates go without opening them, and the session ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from profiler.runner import protocol
from profiler.runner.protocol import Job


DRIVER_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"),
    *("CUDA_MODULE_DATA_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_SCALE_LAUNCH_QUEUES"),
    *("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH"),
    *("CUDA_CACHE_MAXSIZE", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT"),
    *("CUDA_DISABLE_JIT", "CUDA_AUTO_BOOST", "CUDA_MANAGED_FORCE_DEVICE_ALLOC"),
)
"""Environment variables that the CUDA driver reads when it is initialised."""


class NotWantedError(Exception):
    """The orchestrator is gone, or needs this session no more."""


class ContextAtImportError(Exception):
    """Importing the workload created a CUDA context, beside that of the session that measures."""


class DriverStart:
    """The CUDA driver, initialised on a thread while Python imports torch and the workload.

    That creates no context. Under ncu it takes half a second, for which the import does not wait.
    """

    def __init__(self) -> None:
        # As torch sets it before it initialises the driver.
        os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
        self._read = _driver_variables()
        self._thread = threading.Thread(target=_initialise_driver, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the driver is initialised, or known to be absent."""
        self._thread.join()

    def variables_set_since(self) -> tuple[str, ...]:
        """Variables that have changed since the driver read them: it does not read them again."""
        now = _driver_variables()
        return tuple(name for name in DRIVER_VARIABLES if now.get(name) != self._read.get(name))


def _driver_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in DRIVER_VARIABLES if name in os.environ}


def _initialise_driver() -> None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:  # torch will say that there is no device
        return
    driver.cuInit(0)  # torch does it again, and says what is wrong


@dataclass(frozen=True)
class Turn:
    """Gates between the steps of a session; a session that does not wait passes them all."""

    job_file: Path
    waits: bool
    stamps: dict[str, float] = field(default_factory=dict)
    """When each of `STAMPS` was reached, in seconds of the system's monotonic clock."""
    driver: DriverStart | None = None
    """None where the device of the session is not a GPU, and where torch initialises the driver."""

    def stamp(self, name: str) -> None:
        """Take down that a step has been reached."""
        self.stamps[name] = time.monotonic()

    def before_import(self) -> None:
        """Wait until the workload may be imported."""
        self._pass(protocol.IMPORT_GATE)

    def after_import(self) -> tuple[str, ...]:
        """Wait for the driver; names of its variables that the import set too late for it."""
        if self.driver is None:
            return ()
        self.driver.wait()
        return self.driver.variables_set_since()

    def before_device(self, *, has_context: bool) -> None:
        """Wait until a context may be created.

        Raises ContextAtImportError where there is one before its time.
        """
        if has_context and self.waits and not self._is_open(protocol.DEVICE_GATE):
            raise ContextAtImportError("importing the workload created a CUDA context")
        self.stamp(protocol.LOADED)
        self._pass(protocol.DEVICE_GATE)
        self.stamp(protocol.ITS_TURN)

    def job_with_visits(self, job: Job) -> Job:
        """The job as it stands when the visits are known."""
        self.stamp(protocol.DEVICE_OPEN)
        self._pass(protocol.VISITS_GATE)
        self.stamp(protocol.VISITS_KNOWN)
        return protocol.read_job(self.job_file) if self.waits else job

    def _pass(self, name: str) -> None:
        """Wait at a gate; raises NotWantedError where it is let go without being opened."""
        if not self.waits:
            return
        try:
            with self._gate(name).open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH)
                opened = stream.read() == protocol.GATE_OPEN
        except OSError as error:
            raise NotWantedError(f"{name}: {error}") from error
        if not opened:
            raise NotWantedError(name)

    def _is_open(self, name: str) -> bool:
        try:
            return self._gate(name).read_bytes() == protocol.GATE_OPEN
        except OSError as error:
            raise NotWantedError(f"{name}: {error}") from error

    def _gate(self, name: str) -> Path:
        return self.job_file.parent / protocol.GATES_FOLDER / name
