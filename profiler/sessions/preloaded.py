"""A process of the runner that imports torch before the experiment is known.

Importing torch takes 2 to 5 s, more than all that a run does until its first session begins. Where
no tool is around the runner (CUPTI, the timers), its process needs nothing of the experiment first.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from profiler.collect import Command
from profiler.collect.timer import RUNNER
from profiler.machine.environment import Gpu, Inquiry
from profiler.machine.locks import open_lock_file, session_lock_file
from profiler.machine.temporary_folders import temporary_folder
from profiler.runner.orders import ORDERS_FILE, PREPARE
from profiler.sessions.process import start, stopped_on_leaving
from profiler.sessions.waiting import Orders
from profiler.sessions.watchdog import Limits

_GRACE_S = 5.0
_JOURNAL = "journal.jsonl"
"""Names the process for its guard, until the journal of a session does."""


@dataclass(frozen=True)
class Preloaded:
    """A process that imports torch, and then waits for a job."""

    gpu_uuid: str | None
    lock: int
    """Descriptor of this GPU's session lock, not locked; the process keeps it open as well."""
    lock_stack: contextlib.ExitStack
    """Closes the descriptor in this process."""
    orders: Orders
    process: subprocess.Popen[bytes]
    """The guard of the process."""
    began: float = field(default_factory=time.monotonic)
    """Start time, by the system's monotonic clock."""

    @property
    def lives(self) -> bool:
        """Whether the process can still be given a job."""
        return self.process.poll() is None

    def end(self) -> None:
        """End the process."""
        with stopped_on_leaving(self.process, _GRACE_S):
            self.lock_stack.close()

    def hand(self, job: Path) -> subprocess.Popen[bytes]:
        """Give the process a job; returns the process. Its output goes to files beside the job."""
        self.orders.give(PREPARE, str(job.absolute()))
        self.orders.let_go()
        return self.process


class Preloading:
    """Starts a preloaded process on a thread, which waits for the answer which GPU is used."""

    def __init__(self, start: Callable[[], Preloaded | None]) -> None:
        with_thread = ThreadPoolExecutor(1, "preloading")
        self._started = with_thread.submit(start)
        with_thread.shutdown(wait=False)
        self._is_taken = False

    def take(self, gpu_uuid: str | None) -> Preloaded | None:
        """The process, once, to be ended by the caller; None where none fits this GPU."""
        preloaded = self._taken_once()
        if preloaded is None or (preloaded.gpu_uuid == gpu_uuid and preloaded.lives):
            return preloaded
        preloaded.end()
        return None

    def end(self) -> None:
        """End the process if nobody took it."""
        if (preloaded := self._taken_once()) is not None:
            preloaded.end()

    def _taken_once(self) -> Preloaded | None:
        is_taken, self._is_taken = self._is_taken, True
        return None if is_taken else self._started.result()


@contextlib.contextmanager
def preloading(inquiry: Inquiry, *, even_without_gpu: bool) -> Iterator[Preloading]:
    """A process of the runner that loads while the body runs; it is ended unless taken.

    `even_without_gpu`: whether it starts also where no GPU is found.
    """

    def start() -> Preloaded | None:
        with contextlib.suppress(Exception):  # who needs it starts another, and says what is wrong
            gpu = inquiry.gpu.result()
            if gpu is not None or even_without_gpu:
                return _started(gpu or Gpu(), folder)
        return None

    with temporary_folder() as folder:
        preload = Preloading(start)
        try:
            yield preload
        finally:
            preload.end()


def _started(gpu: Gpu, folder: Path) -> Preloaded:
    with contextlib.ExitStack() as opened:
        orders = Orders(folder / ORDERS_FILE)
        opened.callback(orders.let_go)
        lock = opened.enter_context(open_lock_file(session_lock_file(gpu.uuid)))
        arguments = ("--orders", str(orders.path), str(folder / _JOURNAL))
        process = start(
            Command((sys.executable, "-P", str(RUNNER), *arguments)),
            folder=folder,
            limits=Limits(step_s=0.0),
            journal=folder / _JOURNAL,
            lock_file=None,
            inherits=lock,
        )
        return Preloaded(gpu.uuid, lock, opened.pop_all(), orders, process)
