"""One attempt of a session: its job, its process, and the recovery of results of a killed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.collect import Collector, Command, read_text
from profiler.collect.ncu import LOG, has_rows
from profiler.errors import naming
from profiler.model import Visit
from profiler.parse import runner_journal
from profiler.run_folder.documents import write_atomic
from profiler.run_folder.folder import JOURNAL_FILE, RunFolder
from profiler.runner import protocol
from profiler.runner.orders import LEAVE, ORDERS_FILE, STEPS, VISIT
from profiler.sessions.preloaded import Preloaded
from profiler.sessions.process import SessionResult, ignore, run_session, start, stopped_on_leaving
from profiler.sessions.waiting import Orders, Waiting
from profiler.sessions.watchdog import Limits, Record

JOB = "job.json"
_RECOVER_TIMEOUT_S = 300.0
_LEAVE_S = 5.0
"""For the runner to leave after its last job."""
_COMPILER_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
"""Caches of each run, so that its first session shows the seconds of compilation."""


@dataclass(frozen=True)
class SessionTemplate:
    """Settings that the attempts of one session share."""

    job: protocol.Job
    """Has every cell that an attempt may visit; `visits` and `journal` are set per attempt."""
    collector: Collector
    metrics: tuple[str, ...]
    """Names of the tool."""
    limits: Limits
    lock_file: Path | None = None
    """Lock file that is held while anything of a session lives (`gpu_lock`)."""
    compiler_caches: Path | None = None
    """Folder for compiler caches of torch and Triton; None: their default ones, maybe filled."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables (`Machine.variables`)."""
    announced_cells: Set[str] = frozenset()
    """One cell of each problem that any process visits: its declared work is journaled first,
    for the forecast of the remaining time."""
    practical_roofs: tuple[str, ...] = ()
    """Roofs that the next attempt measures first."""

    def command(self, folder: Path) -> Command:
        """Command of an attempt whose files go to `folder`."""
        command = self.collector.session_command(folder / JOB, folder, self.metrics)
        variables = dict(self.variables)
        if self.compiler_caches is not None:
            variables |= {
                n: str(self.compiler_caches / tool) for n, tool in _COMPILER_CACHES.items()
            }
        return replace(command, env={**command.env, **variables})


def run_attempt(  # noqa: PLR0913 - the last four by keyword
    session: SessionTemplate,
    visits: Sequence[Visit],
    folder: Path,
    on_record: Callable[[Record], None] = ignore,
    *,
    waiting: Waiting | None = None,
    stays: bool = False,
    on_start: Callable[[], None] = lambda: None,
    on_look: Callable[[], None] = lambda: None,
) -> SessionResult:
    """Run one process that makes the visits; recover its results if its tool was killed.

    Writes `job.json`; the runner writes `journal.jsonl`; the tool and the console output add their
    files. `waiting`: the process, where it was started before; it may make its visits already.
    `stays`: when its session is over it is left to the caller, who may have it make another.
    `on_start` is called when it has been started, `on_look` again and again until it ends. Raises
    Interrupted on Ctrl-C.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if waiting is None:
        write_job(_job(session, visits, folder), folder / JOB)
    elif waiting.visits is None:
        hand_visits(session, visits, waiting, stays=stays)
    result = None
    try:
        result = run_session(
            session.command(folder),
            folder=folder,
            limits=session.limits,
            journal=folder / JOURNAL_FILE,
            on_record=on_record,
            lock_file=session.lock_file,
            process=None if waiting is None else waiting.process,
            on_start=on_start,
            on_look=on_look,
            stays=stays,
        )
        return result
    finally:
        if waiting is not None and (result is None or result.standing_process is None):
            waiting.orders.clear()
        recover(session.collector, folder)


def hand_visits(
    session: SessionTemplate, visits: Sequence[Visit], waiting: Waiting, *, stays: bool = False
) -> None:
    """Have a waiting process make visits; `stays`: more visits may follow."""
    job = _job(session, visits, waiting.folder)
    process = replace(job.process, orders=str(waiting.orders.path))
    write_job(replace(job, process=process), waiting.folder / JOB)
    for step in STEPS[:-1]:
        waiting.orders.let_through(step)
    waiting.orders.give(VISIT, str((waiting.folder / JOB).absolute()))
    if not stays:
        waiting.orders.let_go()


def leave(waiting: Waiting) -> None:
    """Have a process exit by itself within _LEAVE_S seconds; else end it."""
    with stopped_on_leaving(waiting.process, _LEAVE_S), contextlib.suppress(OSError):
        waiting.orders.give(LEAVE)
        with contextlib.suppress(subprocess.TimeoutExpired):
            waiting.process.wait(timeout=_LEAVE_S)
    with contextlib.suppress(OSError):  # it stays in the attempt, where nobody reads it
        waiting.orders.clear()


def start_waiting(
    session: SessionTemplate,
    orders: Orders,
    *,
    inherits: int | None = None,
    preloaded: Preloaded | None = None,
) -> Waiting:
    """Start a process for a session before its turn: it takes each step when ordered.

    `inherits`: descriptor that it keeps open to its end; `preloaded`: the process, where it runs.
    Raises OSError where it cannot start.
    """
    folder = orders.path.parent
    command = session.command(folder)
    job = _job(session, (), folder)
    process_settings = replace(job.process, orders=str(orders.path), environment=command.env)
    write_job(replace(job, process=process_settings), folder / JOB)
    if preloaded is not None:
        process = preloaded.hand(folder / JOB)
        return Waiting(job.session, folder, process, orders, began=preloaded.began)
    process = start(
        command,
        folder=folder,
        limits=session.limits,
        journal=folder / JOURNAL_FILE,
        lock_file=session.lock_file,
        inherits=inherits,
    )
    return Waiting(job.session, folder, process, orders)


@contextlib.contextmanager
def reserved_attempt(run: RunFolder, session: str) -> Iterator[Orders]:
    """Orders file of an attempt whose turn comes later; the folder goes where the body fails.

    Raises OSError where the file system has no locks.
    """
    folder = run.reserve_attempt(session)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        orders = Orders(folder.absolute() / ORDERS_FILE)
        cleanup.callback(orders.let_go)
        yield orders
        cleanup.pop_all()


def write_job(job: protocol.Job, path: Path) -> None:
    """Write a job in one step: a waiting process may be reading the earlier job there."""
    partial = path.with_suffix(".partial")
    with naming(path):
        protocol.write_job(job, partial)
        partial.replace(path)


def recover(collector: Collector, folder: Path) -> bool:
    """Add missing rows to the log of a killed tool; True where rows were added.

    Also for an attempt whose orchestrator was killed together with everything else. Never raises:
    what cannot be saved is measured again.
    """
    command = collector.recover_command(folder)
    if command is None:
        return False
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            command.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **command.env},
            timeout=_RECOVER_TIMEOUT_S,
            check=False,
        )
    recovered = command.files["log"]
    rows = read_text(recovered)
    recovered.unlink(missing_ok=True)
    if not has_rows(rows):
        return False
    # ncu itself puts the CSV behind its messages, in the same file.
    log = folder / LOG
    before = read_text(log)
    separator = "" if not before or before.endswith("\n") else "\n"
    write_atomic(log, f"{before}{separator}{rows}")
    return True


def has_started(folder: Path) -> bool:
    """Whether the runner of an attempt reached its first visit."""
    records = runner_journal.read_journal(folder / JOURNAL_FILE)
    return any(record["event"] == protocol.SESSION_STARTED for record in records)


def journal_visits(folder: Path) -> frozenset[Visit]:
    """Visits that an attempt finished, by its journal."""
    records = runner_journal.read_journal(folder / JOURNAL_FILE)
    return frozenset(Visit(*visit) for visit in runner_journal.finished_visits(records))


def _job(session: SessionTemplate, visits: Sequence[Visit], folder: Path) -> protocol.Job:
    """Job of one process, with its visited cells and the announced cells of other problems."""
    visited_cells = {visit.cell for visit in visits}
    problems = {cell.problem for cell in session.job.cells if cell.id in visited_cells}
    return replace(
        session.job,
        journal=str((folder / JOURNAL_FILE).absolute()),
        cells=tuple(
            cell
            for cell in session.job.cells
            if cell.id in visited_cells
            or (cell.id in session.announced_cells and cell.problem not in problems)
        ),
        visits=tuple(protocol.JobVisit(visit.cell, visit.block, visit.arm) for visit in visits),
        settings=replace(session.job.settings, practical_roofs=session.practical_roofs),
    )
