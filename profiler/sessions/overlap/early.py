"""Processes of the first two sessions, started before anything is built or the GPU is taken.

Where no tool is around the runner, the first may have been started before the experiment was read
(`profiler.sessions.preloaded`).

They load their tool, Python and torch, and wait at their first gate, in the folder of a new run or
of the one that probably goes on (`likely_start`): the first from the start, the second beside the
builds, where two may wait. Where the builds show that it is another session, or that nothing is
missing, the process ends, and its folder goes.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from profiler.collect.registry import overlaps, shares_process
from profiler.errors import UsageError
from profiler.machine.gpu_lock import session_lock_file
from profiler.machine.lock_files import open_lock_file
from profiler.model import Plan, SessionPlan
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import RunFolder, create_run
from profiler.runner import protocol
from profiler.sessions.attempt import start_waiting
from profiler.sessions.overlap.likely_start import Execution, LikelyStart, likely_start
from profiler.sessions.overlap.templates import Templates
from profiler.sessions.overlap.waiting import Waiting, is_held, places
from profiler.sessions.preloaded import Preloaded, Preloading


class EarlyStart:
    """First sessions that wait, in the folder of a run."""

    def __init__(  # noqa: PLR0913, PLR0917 - what they have in common
        self,
        run: RunFolder,
        first: Waiting,
        start: Callable[[SessionPlan], Waiting],
        later: Iterator[SessionPlan],
        lock: int,
        held: ExitStack,
        *,
        begins: bool,
    ) -> None:
        self.run = run
        self.begins = begins
        """Whether the folder is that of a new run."""
        self._waiting = [first]
        self._start = start
        self._later = later
        """Sessions whose processes are not started so far, in their order."""
        self._lock = lock
        """Descriptor that the processes have open as well, of a file that nobody has locked yet."""
        self._held = held
        """Closes it here."""

    def start_another(self) -> None:
        """Start the process of the next session, where there is one and another may wait."""
        if not self._waiting or len(self._waiting) >= places():
            return
        session = next(self._later, None)
        if session is not None:
            with suppress(OSError, UsageError):  # said when its turn comes
                self._waiting.append(self._start(session))

    def take(self) -> tuple[Waiting, ...]:
        """Lock the GPU's session file in their name, and hand the processes over; once.

        To be called by who holds the lock on the GPU. The lock lasts while anything of a process
        lives: all have one open file.
        """
        taken, self._waiting = tuple(self._waiting), []
        if taken:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            self._held.close()
        return taken

    def leave(self) -> None:
        """End the processes where nobody took them; the folder of a run that did not begin goes."""
        left, self._waiting = self._waiting, []
        if left:
            self._held.close()
            for waiting in left:
                waiting.end()
            if self.begins:
                _remove_run(self.run.path)


@contextmanager
def started_early(
    execution: Execution, preloading: Preloading | None = None
) -> Iterator[EarlyStart | None]:
    """Start the process of the session that probably comes first; None where none does.

    `preloading`: makes a process that is used where no tool is around the runner. On leaving what
    was started is ended, unless it was taken.
    """
    with ExitStack() as held:
        start = likely_start(execution) if _can_wait(execution) else None
        loads = None if preloading is None else _taken(preloading, execution, start)
        early = None if start is None else _started(execution, start, held, loads)
        if early is not None:
            held.callback(early.leave)
        yield early


def _can_wait(execution: Execution) -> bool:
    """Whether the process of the first session could wait."""
    sessions = execution.plan.sessions
    if not sessions or execution.plan.search is not None or places() == 0:
        return False
    if isinstance(execution.loaded.experiment.workload, CommandWorkload):
        return False
    return overlaps(sessions[0]) or shares_process(sessions[0])


def _taken(
    preloading: Preloading, execution: Execution, start: LikelyStart | None
) -> Preloaded | None:
    """The process that loads already, where it can make the session; else it is ended."""
    fits = start is not None and shares_process(start.session)
    preloaded = preloading.take(execution.machine.environment.gpu_uuid) if fits else None
    preloading.end()
    return preloaded


def _started(
    execution: Execution, start: LikelyStart, held: ExitStack, preloaded: Preloaded | None
) -> EarlyStart | None:
    """The process, or None where it cannot be started: the session will say what is wrong."""
    with ExitStack() as unused:
        if preloaded is not None:
            unused.callback(preloaded.end)
        early = _begun(execution, start, held, preloaded)
        if early is not None:
            unused.pop_all()
        return early


def _begun(
    execution: Execution, start: LikelyStart, held: ExitStack, preloaded: Preloaded | None
) -> EarlyStart | None:
    name = execution.loaded.experiment.name
    _clear_abandoned_runs(execution.out / name)
    try:
        run = start.run or create_run(execution.out, name, execution.created)
    except UsageError:
        return None
    begins = start.run is None
    try:
        path = session_lock_file(execution.machine.environment.gpu_uuid)
        if preloaded is None:
            lock = held.enter_context(open_lock_file(path))
        else:
            lock = preloaded.lock
            held.enter_context(preloaded.held)
        waiting = partial(_waiting, execution, run=run, lock=lock)
        first = waiting(start.session, preloaded=preloaded)
        later = _after(start.session, execution.plan)
        return EarlyStart(run, first, waiting, later, lock, held.pop_all(), begins=begins)
    except BaseException as error:
        if begins:
            _remove_run(run.path)
        if isinstance(error, OSError | UsageError):
            return None
        raise


def _after(first: SessionPlan, plan: Plan) -> Iterator[SessionPlan]:
    """The sessions after one under the same tool, which have processes of their own."""
    later = plan.sessions[plan.sessions.index(first) + 1 :]
    return (
        session
        for session in later
        if session.collector == first.collector and not shares_process(session)
    )


def _waiting(
    execution: Execution,
    session: SessionPlan,
    *,
    run: RunFolder,
    lock: int,
    preloaded: Preloaded | None = None,
) -> Waiting:
    workload = execution.loaded.experiment.workload
    if isinstance(workload, CommandWorkload):
        raise TypeError("the session of an external command does not wait")
    templates = Templates(execution.loaded, execution.plan, execution.machine, run.path)
    template = templates.session(session, templates.job(session, workload))
    folder = run.reserve_attempt(session.name)
    try:
        return start_waiting(template, folder, inherits=lock, preloaded=preloaded)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


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
