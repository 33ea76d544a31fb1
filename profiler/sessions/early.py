"""Processes of the first two sessions, started before anything is built or the GPU is taken.

Where no tool is around the runner, the first may have been started before the experiment was read
(`profiler.sessions.preloaded`).

They load their tool, Python and torch, and wait for their first order, in the folder of a new run
or of the one that probably goes on: the first from the start, the second beside the builds, where
two may wait. Which session comes first is a guess. Where the builds show that it is another one, or
that nothing is missing, the process ends unused, and its folder goes.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from profiler.collect.registry import overlaps, shares_process
from profiler.errors import ProfilerError, UsageError
from profiler.machine.locks import open_lock_file, session_lock_file
from profiler.model import Plan, SessionPlan
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import (
    RUN_FILE,
    SUMMARY_JSON_FILE,
    RunFolder,
    RunRecord,
    create_run,
    newest_run,
    runs,
)
from profiler.runner import protocol
from profiler.runner.orders import ORDERS_FILE
from profiler.sessions.attempt import reserved_attempt, start_waiting
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.execution import Execution
from profiler.sessions.preloaded import Preloaded, Preloading
from profiler.sessions.sources import digests_now, watched_folders
from profiler.sessions.templates import Templates
from profiler.sessions.waiting import Waiting, is_locked, places


@dataclass(eq=False)
class EarlyStart:
    """First sessions that wait, in the folder of a run."""

    run: RunFolder
    begins: bool
    """Whether the folder is that of a new run."""
    waiting: list[Waiting]
    start: Callable[[SessionPlan], Waiting]
    later: Iterator[SessionPlan]
    """Sessions whose processes are not started so far, in their order."""
    lock: int
    """Descriptor that the processes have open as well, of a file that nobody has locked yet."""
    held: ExitStack
    """Closes it here."""

    def start_another(self) -> None:
        """Start the process of the next session, where there is one and another may wait."""
        if not self.waiting or len(self.waiting) >= places():
            return
        session = next(self.later, None)
        if session is not None:
            with suppress(OSError, UsageError):  # said when its turn comes
                self.waiting.append(self.start(session))

    def take(self) -> tuple[Waiting, ...]:
        """Lock the GPU's session file in their name, and hand the processes over; once.

        To be called by who holds the lock on the GPU. The lock lasts while anything of a process
        lives: all have one open file.
        """
        taken, self.waiting = tuple(self.waiting), []
        if taken:
            fcntl.flock(self.lock, fcntl.LOCK_SH)
            self.held.close()
        return taken

    def leave(self) -> None:
        """End the processes where nobody took them; the folder of a run that did not begin goes."""
        left, self.waiting = self.waiting, []
        if left:
            self.held.close()
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
        start_session = partial(_waiting, execution, run=run, lock=lock)
        first = start_session(start.session, preloaded=preloaded)
        later = _after(start.session, execution.plan)
        return EarlyStart(run, begins, [first], start_session, later, lock, held.pop_all())
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
    template = Templates(execution, run.path).session(session)
    with reserved_attempt(run, session.name) as folder:
        return start_waiting(template, folder, inherits=lock, preloaded=preloaded)


def _remove_run(folder: Path) -> None:
    """Take away the folder of a run that did not begin, and that of its experiment if empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _clear_abandoned_runs(folder: Path) -> None:
    """Take away runs that had not begun when their profiler was killed."""
    for orders in folder.glob(f"*/raw/*/{ORDERS_FILE}"):
        run = RunFolder(orders.parents[2])
        linked = any(path.is_symlink() for path in (orders, *list(orders.parents)[:3]))
        if not linked and not run.exists() and not is_locked(orders):
            shutil.rmtree(run.path, ignore_errors=True)


_SOURCES = ("*.cu", "*.cuh", "*.h", "*.hpp", "*.inl")
"""Files beside a CUDA source that it may include."""


@dataclass(frozen=True)
class LikelyStart:
    """The session that probably comes first."""

    session: SessionPlan
    run: RunFolder | None
    """The run that goes on; None where a new one begins."""


def likely_start(execution: Execution) -> LikelyStart | None:
    """The first session of a new run, or of the newest one where that probably goes on.

    None where nothing seems to be missing, or nothing can be told.
    """
    first = execution.plan.sessions[0]
    name = execution.loaded.experiment.name
    if execution.fresh or not runs(execution.out, name):
        return LikelyStart(first, None)
    newest = newest_run(execution.out, name)
    if newest is None:
        return LikelyStart(first, None)
    run, record = newest
    try:
        same = _cells_as_before(execution, run, record)
        edited = same < len(execution.plan.cells) or _edited(execution, run, record)
        session = first if edited else _unfinished(execution, run, record)
    except (OSError, ProfilerError):  # said where the builds come to it
        return None
    if not same:
        return LikelyStart(first, None)
    return None if session is None else LikelyStart(session, run)


def _cells_as_before(execution: Execution, run: RunFolder, record: RunRecord) -> int:
    """Number of cells with the key that they had, if all libraries are built as they were."""
    keys = keys_of(execution, run.builds())
    return sum(record.keys.get(cell) == key for cell, key in keys.items())


def _edited(execution: Execution, run: RunFolder, record: RunRecord) -> bool:
    """Whether a file that sessions opened has changed, or a CUDA source was written since."""
    folders = watched_folders(execution.loaded.experiment, execution.loaded.base)
    if digests_now(record.opened, folders) != record.opened:
        return True
    written = (run.path / RUN_FILE).stat().st_mtime
    return any(file.stat().st_mtime > written for file in _cuda_sources(execution))


def _cuda_sources(execution: Execution) -> Iterator[Path]:
    """Sources of the libraries, and what lies beside them."""
    recipes = (execution.space.recipe(variant.params) for variant in execution.plan.variants)
    files = {file for recipe in recipes if recipe for file in (*recipe.sources, *recipe.included)}
    yield from files
    for folder in {file.parent for file in files}:
        for pattern in _SOURCES:
            yield from folder.glob(pattern)


def _unfinished(execution: Execution, run: RunFolder, record: RunRecord) -> SessionPlan | None:
    """The first session of which visits are missing; None where the run was written up."""
    loaded = execution.loaded
    as_before = run.spec_file.read_text("utf-8") == loaded.text and record.overrides == loaded.flags
    attempts = run.attempts()
    if as_before and _is_written_up(run, [attempt.journal for attempt in attempts]):
        return None
    measured: set[tuple[str, str, int, int]] = set()
    failed: set[str] = set()
    for attempt in attempts:
        records = list(protocol.read_journal(attempt.journal))
        session = attempt.record.session
        measured |= {(session, *visit) for visit in protocol.finished_visits(records)}
        failed |= {str(r.get("cell")) for r in records if r["event"] == protocol.FAILED}
    return next(
        (
            session
            for session in execution.plan.sessions
            if any(
                (session.name, visit.cell, visit.block, visit.arm) not in measured
                for visit in session.visits
                if visit.cell not in failed
            )
        ),
        None,
    )


def _is_written_up(run: RunFolder, journals: Sequence[Path]) -> bool:
    """Whether results were written after everything that was measured."""
    summary = run.path / SUMMARY_JSON_FILE
    if not summary.exists():
        return False
    written = summary.stat().st_mtime
    return all(journal.stat().st_mtime <= written for journal in journals if journal.exists())
