"""The process of the first session, started before anything is built or the GPU is taken.

Where no tool is around the runner, it may have been started before the experiment was read
(`profiler.sessions.preloaded`).

It loads its tool, Python and torch, and waits for its first order, in the folder of a new run or of
the one that probably goes on. Which session comes first is a guess. Where the builds show that it
is another one, or that nothing is missing, the process ends unused, and its folder goes.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from profiler.collect.registry import may_overlap, shares_process
from profiler.errors import ProfilerError, UsageError
from profiler.machine.locks import open_lock_file, session_lock_file
from profiler.model import SessionPlan
from profiler.parse import runner_journal
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import RUN_FILE, SUMMARY_JSON_FILE, RunFolder, RunRecord
from profiler.run_folder.runs import create_run, newest_run, runs
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
    """The first session, which waits in the folder of a run."""

    run: RunFolder
    begins: bool
    """Whether the folder is that of a new run."""
    waiting: Waiting | None
    """The waiting process; None once it was taken."""
    lock: int
    """Descriptor, shared with the process, of the session lock, which is not locked yet."""
    lock_stack: ExitStack
    """Closes the descriptor in this process."""

    def take(self) -> Waiting | None:
        """Lock the GPU's session file in the name of the process, and hand it over; once.

        To be called by who holds the lock on the GPU. The lock lasts while anything of the process
        lives.
        """
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            fcntl.flock(self.lock, fcntl.LOCK_SH)
            self.lock_stack.close()
        return waiting

    def leave(self) -> None:
        """End the process if nobody took it, and remove the folder of a run that did not begin."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self.lock_stack.close()
            waiting.end()
            if self.begins:
                _remove_run(self.run.path)


@contextmanager
def started_early(
    execution: Execution, preloading: Preloading | None = None
) -> Iterator[EarlyStart | None]:
    """Start the process of the session that probably comes first; None without such a session.

    `preloading`: makes a process that is used where no tool is around the runner. On leaving what
    was started is ended, unless it was taken.
    """
    likely = likely_start(execution) if _can_wait(execution) else None
    preloaded = None
    if preloading is not None:
        if likely is not None and shares_process(likely[0]):
            preloaded = preloading.take(execution.machine.environment.gpu_uuid)
        preloading.end()  # unless it was taken
    early = None if likely is None else _started(execution, *likely, preloaded)
    try:
        yield early
    finally:
        if early is not None:
            early.leave()


def _can_wait(execution: Execution) -> bool:
    """Whether the process of the first session could wait."""
    sessions = execution.plan.sessions
    if not sessions or execution.plan.search is not None or places() == 0:
        return False
    if isinstance(execution.loaded.experiment.workload, CommandWorkload):
        return False
    return may_overlap(sessions[0]) or shares_process(sessions[0])


def _started(
    execution: Execution,
    session: SessionPlan,
    earlier: RunFolder | None,
    preloaded: Preloaded | None,
) -> EarlyStart | None:
    """The process; None where it cannot be started: the session will say what is wrong."""
    name = execution.loaded.experiment.name
    _clear_abandoned_runs(execution.out / name)
    with suppress(OSError, UsageError), ExitStack() as cleanup:
        lock_stack = ExitStack() if preloaded is None else preloaded.lock_stack
        cleanup.callback(lock_stack.close if preloaded is None else preloaded.end)
        run = earlier or create_run(execution.out, name, execution.created)
        if earlier is None:
            cleanup.callback(_remove_run, run.path)
        if preloaded is None:
            path = session_lock_file(execution.machine.environment.gpu_uuid)
            lock = lock_stack.enter_context(open_lock_file(path))
        else:
            lock = preloaded.lock
        template = Templates(execution, run.path).session(session)
        with reserved_attempt(run, session.name) as orders:
            waiting = start_waiting(template, orders, inherits=lock, preloaded=preloaded)
        cleanup.pop_all()
        return EarlyStart(run, earlier is None, waiting, lock, lock_stack)
    return None


def _remove_run(folder: Path) -> None:
    """Remove the folder of a run that did not begin, and its experiment's folder if empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _clear_abandoned_runs(folder: Path) -> None:
    """Remove runs that had not begun when their profiler was killed."""
    for orders in folder.glob(f"*/raw/*/{ORDERS_FILE}"):
        run = RunFolder(orders.parents[2])
        linked = any(path.is_symlink() for path in (orders, *list(orders.parents)[:3]))
        if not linked and not run.exists() and not is_locked(orders):
            shutil.rmtree(run.path, ignore_errors=True)


_SOURCES = ("*.cu", "*.cuh", "*.h", "*.hpp", "*.inl")
"""Files beside a CUDA source that it may include."""


def likely_start(execution: Execution) -> tuple[SessionPlan, RunFolder | None] | None:
    """The session that probably comes first, and the run to resume; no run: a new one begins.

    None where the newest run seems complete, or its state cannot be told.
    """
    first = execution.plan.sessions[0]
    name = execution.loaded.experiment.name
    if execution.fresh or not runs(execution.out, name):
        return first, None
    newest = newest_run(execution.out, name)
    if newest is None:
        return first, None
    run, record = newest
    try:
        keys = keys_of(execution, run.builds())
        unchanged_cells = sum(record.keys.get(cell) == key for cell, key in keys.items())
        edited = unchanged_cells < len(execution.plan.cells) or _has_edited_files(
            execution, run, record
        )
        session = first if edited else _unfinished(execution, run, record)
    except (OSError, ProfilerError):  # said where the builds come to it
        return None
    if not unchanged_cells:
        return first, None
    return None if session is None else (session, run)


def _has_edited_files(execution: Execution, run: RunFolder, record: RunRecord) -> bool:
    """Whether a file that sessions opened has changed, or a CUDA source was written since."""
    folders = watched_folders(execution.loaded.experiment, execution.loaded.base)
    if digests_now(record.opened, folders) != record.opened:
        return True
    written_at = (run.path / RUN_FILE).stat().st_mtime
    return any(file.stat().st_mtime > written_at for file in _cuda_sources(execution))


def _cuda_sources(execution: Execution) -> Iterator[Path]:
    """Source files of the libraries, and all files beside them."""
    recipes = (execution.space.recipe(variant.params) for variant in execution.plan.variants)
    files = {file for recipe in recipes if recipe for file in (*recipe.sources, *recipe.included)}
    yield from files
    for folder in {file.parent for file in files}:
        for pattern in _SOURCES:
            yield from folder.glob(pattern)


def _unfinished(execution: Execution, run: RunFolder, record: RunRecord) -> SessionPlan | None:
    """The first session with missing visits; None where results of the run were written."""
    loaded = execution.loaded
    as_before = run.spec_file.read_text("utf-8") == loaded.text and record.overrides == loaded.flags
    attempts = run.attempts()
    if as_before and _has_results(run, [attempt.journal for attempt in attempts]):
        return None
    measured: set[tuple[str, str, int, int]] = set()
    failed: set[str] = set()
    for attempt in attempts:
        records = list(runner_journal.read_journal(attempt.journal))
        session = attempt.record.session
        measured |= {(session, *visit) for visit in runner_journal.finished_visits(records)}
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


def _has_results(run: RunFolder, journals: Sequence[Path]) -> bool:
    """Whether results were written after the last visit was measured."""
    summary = run.path / SUMMARY_JSON_FILE
    if not summary.exists():
        return False
    written_at = summary.stat().st_mtime
    return all(journal.stat().st_mtime <= written_at for journal in journals if journal.exists())
