"""The process of the first session, started before anything is built or the GPU is taken.

It loads its tool, Python and torch, and waits at its first gate. Only where a new run begins is it
certain that there is something to measure, and in which folder: where an earlier run may go on,
nothing is started early.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from profiler.collect.kind import Records
from profiler.collect.registry import COLLECTORS
from profiler.errors import UsageError
from profiler.machine.gpu_lock import session_lock_file
from profiler.machine.lock_files import open_lock_file
from profiler.machine.requirements import Machine
from profiler.model import Plan
from profiler.planning.spec import CommandWorkload, LoadedSpec
from profiler.run_folder.folder import RunFolder, create_run, runs
from profiler.runner import protocol
from profiler.sessions.attempt import start_waiting
from profiler.sessions.overlap.templates import Templates
from profiler.sessions.overlap.waiting import Waiting, is_held, places


@dataclass(frozen=True)
class NewRun:
    """The run that an execution begins if no earlier one can go on."""

    loaded: LoadedSpec
    plan: Plan
    machine: Machine
    out: Path
    fresh: bool
    """Whether it begins whatever there is."""
    created: str
    """Local time, ISO 8601 with offset."""


class EarlyStart:
    """A first session that waits, in the folder of a run that has not begun."""

    def __init__(self, run: RunFolder, waiting: Waiting, lock: int, held: ExitStack) -> None:
        self.run = run
        self._waiting: Waiting | None = waiting
        self._lock = lock
        """Descriptor that the process has open as well, of a file that nobody has locked so far."""
        self._held = held
        """Closes it here."""

    def take(self) -> Waiting | None:
        """Lock the GPU's session file in its name, and hand the process over; once.

        To be called by who holds the lock on the GPU. The lock lasts while anything of the process
        lives: both have one open file.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            self._held.close()
        return waiting

    def leave(self) -> None:
        """End the process where nobody took it, and take the run folder away, which is empty."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._held.close()
            waiting.end()
            _remove_run(self.run.path)


@contextmanager
def started_early(new: NewRun) -> Iterator[EarlyStart | None]:
    """Start the process of the first session of a new run; None where that is not certain to come.

    On leaving it is ended, unless it was taken.
    """
    with ExitStack() as held:
        early = _started(new, held) if _is_certain(new) else None
        if early is not None:
            held.callback(early.leave)
        yield early


def _is_certain(new: NewRun) -> bool:
    """Whether a new run begins, with a session of which a process can wait."""
    first = new.plan.sessions[0] if new.plan.sessions else None
    if first is None or new.plan.search is not None:
        return False
    if isinstance(new.loaded.experiment.workload, CommandWorkload):
        return False
    waits = COLLECTORS[first.collector].records is Records.COUNTERS and places() > 0
    return waits and (new.fresh or not runs(new.out, new.loaded.experiment.name))


def _started(new: NewRun, held: ExitStack) -> EarlyStart | None:
    """The process, or None where it cannot be started: the session will say what is wrong."""
    experiment = new.loaded.experiment
    _clear_abandoned_runs(new.out / experiment.name)
    try:
        run = create_run(new.out, experiment.name, new.created)
    except UsageError:
        return None
    try:
        path = session_lock_file(new.machine.environment.gpu_uuid)
        lock = held.enter_context(open_lock_file(path))
        return EarlyStart(run, _waiting(new, run, lock), lock, held.pop_all())
    except (OSError, UsageError):
        _remove_run(run.path)
        return None
    except BaseException:
        _remove_run(run.path)
        raise


def _waiting(new: NewRun, run: RunFolder, lock: int) -> Waiting:
    session, workload = new.plan.sessions[0], new.loaded.experiment.workload
    if isinstance(workload, CommandWorkload):
        raise TypeError("the session of an external command does not wait")
    templates = Templates(new.loaded, new.plan, new.machine, run.path)
    template = templates.session(session, templates.job(session, workload))
    return start_waiting(template, run.reserve_attempt(session.name), inherits=lock)


def _remove_run(folder: Path) -> None:
    """Take away the folder of a run that did not begin, and that of its experiment if empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _clear_abandoned_runs(folder: Path) -> None:
    """Take away runs that had not begun when their profiler was killed."""
    for gates in folder.glob(f"*/raw/*/{protocol.GATES_FOLDER}"):
        run = RunFolder(gates.parents[2])
        linked = any(path.is_symlink() for path in (gates, *list(gates.parents)[:3]))
        if not linked and not run.exists() and not is_held(gates):
            shutil.rmtree(run.path, ignore_errors=True)
