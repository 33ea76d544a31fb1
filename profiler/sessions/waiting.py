"""Sessions that were started before their turn, and wait for it without a CUDA context.

A process that waits has its tool, Python, torch and the workload loaded. It takes each further
step when it is ordered (`runner/orders.py`), as the session before gets on. Whatever ends this
process lets the file of orders go, and the session leaves; its guard ends it as well. Whatever ends
the session is seen when its turn comes: another is started in its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from profiler.errors import UsageError
from profiler.model import Visit
from profiler.run_folder.folder import SESSION_FILE
from profiler.runner import protocol
from profiler.runner.orders import DEVICE, IMPORT, MODULES, ORDERS_FILE, line_of
from profiler.sessions.process import kill_group
from profiler.sessions.watchdog import Record

MOST_WAITING = 2
"""Most waiting sessions: each holds the memory of Python with torch, about 1 GB."""

_CORES_FOR_TWO = 4
"""Cores for two waiting sessions: with fewer, three processes slow each other's torch import."""

_GONE_S = 10.0
"""Most seconds for the end of a session that is not needed any more and has nothing to keep."""


class Orders:
    """Orders to one process, in a file that stays locked as long as more orders may come."""

    def __init__(self, path: Path) -> None:
        """Make the file; raises OSError where its file system has no locks."""
        self.path = path
        self._given: set[str] = set()
        self._descriptor: int | None = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(self._descriptor)
            raise

    def give(self, order: str, argument: Any = None) -> None:
        """Write an order, unless the file was closed."""
        if self._descriptor is not None:
            os.write(self._descriptor, line_of(order, argument))
            self._given.add(order)

    def let_through(self, step: str, argument: Any = None) -> None:
        """Order a step of a session; a repeated order does nothing."""
        if step not in self._given:
            self.give(step, argument)

    def has_given(self, order: str) -> bool:
        """Whether an order was given."""
        return order in self._given

    def let_go(self) -> None:
        """Close the file: a process that waits for an order exits."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Not by closing alone: a process that is being started may have a copy for a moment.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def clear(self) -> None:
        """Close the file and remove it."""
        self.let_go()
        self.path.unlink(missing_ok=True)


@dataclass(eq=False)
class Waiting:
    """A process that waits for the turn of its session."""

    session: str
    """Name of the session, or of the one visit of an external command (`Expected.name`)."""
    folder: Path
    """Folder of its attempt."""
    process: subprocess.Popen[bytes]
    """The guard of the process."""
    orders: Orders
    began: float = field(default_factory=time.monotonic)
    """Start time, by the system's monotonic clock."""
    visits: tuple[Visit, ...] | None = None
    """Visits that the process makes while the session before still ends; None: it waits."""
    sampling: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Samples the clocks of the GPU until it is closed, where it makes visits."""

    @property
    def lives(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def dismiss(self) -> None:
        """Have the process end, without waiting for its end."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.orders.let_go()

    def end(self) -> None:
        """End the process, and remove its folder, which holds no results that are needed."""
        self.sampling.close()
        self.dismiss()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_GONE_S)
        kill_group(self.process.pid)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_locked(file: Path, against: int = fcntl.LOCK_SH) -> bool:
    """Whether another lock on a file excludes a lock of kind `against` (LOCK_SH or LOCK_EX).

    False where the file does not exist.
    """
    with contextlib.suppress(FileNotFoundError), file.open("r+b") as stream:
        try:
            fcntl.flock(stream, against | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def clear_abandoned(attempts_folder: Path) -> None:
    """Remove files of sessions that waited when the orchestrator was killed."""
    for orders in attempts_folder.glob(f"*/{ORDERS_FILE}"):
        folder = orders.parent
        if folder.is_symlink() or is_locked(orders):
            continue
        if (folder / SESSION_FILE).exists():
            orders.unlink(missing_ok=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def places() -> int:
    """Number of sessions that may wait on this machine."""
    cores = len(os.sched_getaffinity(0))
    return MOST_WAITING if cores >= _CORES_FOR_TWO else min(1, cores - 1)


class Expected(Protocol):
    """The turn that a process waits for: a session, or one visit of an external command."""

    @property
    def name(self) -> str:
        """Unique name in a run."""

    @property
    def visits(self) -> Sequence[Visit]:
        """Visits of the turn; empty where they are not known yet."""


E = TypeVar("E", bound=Expected)


@dataclass
class WaitingRoom(Generic[E]):
    """Sessions that wait for their turn while another measures; empty on leaving."""

    start: Callable[[E], Waiting]
    say: Callable[[str], None]
    places: int = field(default_factory=places)
    import_is_safe: bool = False
    """Whether importing the workload is known to create no CUDA context, or is not needed."""
    _modules: Sequence[str] = ()
    """Names of the modules that the first launches of this run imported."""
    _waiting: dict[str, Waiting] = field(default_factory=dict)
    """Waiting processes by session name, in the order of their turns."""
    _ready: set[str] = field(default_factory=set)
    """Names of the sessions with known visits."""
    _dismissed: list[Waiting] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_begun()
        self._dismiss(self._waiting.values())
        self._waiting.clear()
        for waiting in self._dismissed:
            waiting.end()

    def adopt(self, waiting: Waiting) -> None:
        """Add a waiting process that was started before the room existed."""
        self._waiting[waiting.session] = waiting

    def expect(self, sessions: Sequence[E]) -> None:
        """Have processes wait for the first of the sessions, and for no other session.

        A process that makes visits already stays.
        """
        expected = {session.name: session for session in sessions[: self.places]}
        self._ready = {name for name, session in expected.items() if session.visits}
        unexpected = {n: w for n, w in self._waiting.items() if n not in expected}
        self._dismiss(waiting for waiting in unexpected.values() if waiting.visits is None)
        earlier, self._waiting = (
            self._waiting,
            {name: waiting for name, waiting in unexpected.items() if waiting.visits is not None},
        )
        for name, session in expected.items():
            waiting = earlier.get(name) or self._started(session)
            if waiting is not None:
                self._waiting[name] = waiting

    def _started(self, session: E) -> Waiting | None:
        try:
            waiting = self.start(session)
        except (OSError, UsageError):  # the session will say what is wrong when it is its turn
            return None
        if self.import_is_safe:
            waiting.orders.let_through(IMPORT)
        if self._modules:
            waiting.orders.let_through(MODULES, self._modules)
        return waiting

    def take(self, session: str) -> Waiting | None:
        """The waiting process of a session, to be let through; None where it must be started.

        It may make visits already. No other process has a context when this returns.
        """
        for name in [name for name, waiting_session in self._waiting.items() if name != session]:
            if self._waiting[name].orders.has_given(DEVICE):
                self._waiting.pop(name).end()
        waiting = self._waiting.pop(session, None)
        if waiting is None or waiting.lives or waiting.visits is not None:
            return waiting
        self.discard(waiting)
        return None

    def discard(self, waiting: Waiting) -> None:
        """End a waiting process that did not reach its first visit, and print so."""
        self.say(f"{waiting.session}: what waited for its turn has ended; another is started.")
        waiting.end()

    def observe(self, record: Record, *, repeated_session: str | None = None) -> Waiting | None:
        """Handle a record of the measuring session; returns the process that comes next.

        After the last launch the next process is let through to the device. None where none
        waits, or its visits are not known. `repeated_session`: name of the measuring session,
        where it has more visits left than this attempt makes.
        """
        event = record.get("event")
        if event == protocol.SESSION_STARTED and not self.import_is_safe:
            self._imported(context_at_import=record.get("context_at_import") is not False)
        elif event == protocol.IMPORTED and not self._modules:
            self._modules = record["modules"]
            for waiting in self._waiting.values():
                waiting.orders.let_through(MODULES, self._modules)
        elif event == protocol.SESSION_FINISHED and self._waiting and self.begun is None:
            name, waiting = next(iter(self._waiting.items()))
            if name in self._ready and repeated_session in (None, name) and self.import_is_safe:
                waiting.orders.let_through(MODULES)
                waiting.orders.let_through(DEVICE)
                return waiting
        return None

    @property
    def begun(self) -> Waiting | None:
        """The process that makes visits before its turn; None without one."""
        return next((w for w in self._waiting.values() if w.visits is not None), None)

    def end_begun(self) -> None:
        """End the process that makes visits before its turn, if there is one."""
        begun = self.begun
        if begun is not None:
            self._waiting.pop(begun.session).end()

    def _imported(self, *, context_at_import: bool) -> None:
        """Let waiting processes import the workload if that creates no context; else end them."""
        if context_at_import:
            if self._waiting:
                self.say(
                    "Importing the workload creates a CUDA context: sessions start one after the "
                    "other, which takes longer."
                )
            self.places = 0
            self._dismiss(self._waiting.values())
            self._waiting.clear()
            return
        self.import_is_safe = True
        for waiting in self._waiting.values():
            waiting.orders.let_through(IMPORT)

    def _dismiss(self, unwanted: Iterable[Waiting]) -> None:
        for waiting in unwanted:
            waiting.dismiss()
            self._dismissed.append(waiting)
