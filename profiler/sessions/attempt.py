"""One attempt of a session: its job, its process, and the recovery of results of a killed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from profiler.collect import Collector, Command, read_text
from profiler.collect.ncu import LOG, has_rows
from profiler.errors import naming
from profiler.model import Visit
from profiler.run_folder.folder import RunFolder, write_atomic
from profiler.runner import protocol
from profiler.runner.standing.orders import append_line
from profiler.sessions.preloaded import Preloaded
from profiler.sessions.process import (
    SessionResult,
    ignore,
    run_session,
    start,
    stopped_on_leaving,
)
from profiler.sessions.waiting import Gates, Waiting
from profiler.sessions.watchdog import Limits, Record

JOB = "job.json"
JOBS = "jobs.txt"
JOURNAL = "journal.jsonl"
_RECOVER_TIMEOUT_S = 300.0
_LEAVE_S = 5.0
"""For the runner to leave after its last job."""
_COMPILER_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
"""Caches that each run has for itself, so that the first session says what compilation takes."""


@dataclass(frozen=True)
class SessionTemplate:
    """What the attempts of one session have in common."""

    job: protocol.Job
    """Has every cell that an attempt may visit; `visits` and `journal` are set per attempt."""
    collector: Collector
    metrics: tuple[str, ...]
    """Names of the tool."""
    limits: Limits
    lock_file: Path | None = None
    """Lock file that is held while anything of a session lives (`gpu_lock`)."""
    compiled: Path | None = None
    """Folder for what torch and Triton compile; None: their own, which other runs have filled."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables (`Machine.variables`)."""
    announced: Set[str] = frozenset()
    """Cells, one of each problem that is visited, by whichever process: what a launch there
    declares is journaled first, and the time left is forecast by it."""

    def command(self, folder: Path) -> Command:
        """Command of an attempt whose files go to `folder`."""
        command = self.collector.session_command(folder / JOB, folder, self.metrics)
        variables = dict(self.variables)
        if self.compiled is not None:
            variables |= {n: str(self.compiled / tool) for n, tool in _COMPILER_CACHES.items()}
        return replace(command, env={**command.env, **variables})


@dataclass(frozen=True)
class StandingProcess:
    """A process of the runner that has ended its session and waits for another job."""

    collector: str
    process: subprocess.Popen[bytes]
    """Its guard."""
    jobs: Path
    """File that its jobs are appended to."""

    @property
    def lives(self) -> bool:
        """Whether it can still go on."""
        return self.process.poll() is None

    def hand(self, job: Path) -> None:
        """Have it do a job."""
        append_line(self.jobs, os.fsencode(job.absolute()))

    def end(self) -> None:
        """Have it leave by itself, as long as that does not take long; else it is ended."""
        with stopped_on_leaving(self.process, _LEAVE_S), contextlib.suppress(OSError):
            append_line(self.jobs, b"")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=_LEAVE_S)
        with contextlib.suppress(OSError):  # it stays in the attempt, where nobody reads it
            self.jobs.unlink(missing_ok=True)


def run_attempt(  # noqa: PLR0913 - the last three by keyword
    session: SessionTemplate,
    visits: Sequence[Visit],
    folder: Path,
    on_record: Callable[[Record], None] = ignore,
    *,
    waiting: Waiting | None = None,
    standing: StandingProcess | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> SessionResult:
    """Run one process that makes these visits, and save what it left if its tool was killed.

    Where its job says that others may follow, the process is left to the caller.

    Writes `job.json`; the runner writes `journal.jsonl`; the tool and the console output add their
    files. `waiting`: the process, where it was started before its turn; it may make its visits
    already; `standing`: where it has ended another session. `on_start` is called when it has been
    started. Raises Interrupted on Ctrl-C.
    """
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / JOURNAL
    if waiting is None:
        write_job(_job(session, visits, journal), folder / JOB)
    elif not waiting.has_visits:
        hand_visits(session, visits, waiting)
    if standing is not None:
        standing.hand(folder / JOB)
    begun = waiting or standing
    try:
        return run_session(
            session.command(folder),
            folder=folder,
            limits=session.limits,
            journal=journal,
            on_record=on_record,
            lock_file=session.lock_file,
            process=None if begun is None else begun.process,
            on_start=on_start,
            stays=bool(session.job.jobs),
        )
    finally:
        if waiting is not None:
            waiting.clear()
        recover(session.collector, folder)


def hand_visits(session: SessionTemplate, visits: Sequence[Visit], waiting: Waiting) -> None:
    """Let a process that waits make these visits."""
    write_job(_job(session, visits, waiting.folder / JOURNAL), waiting.folder / JOB)
    waiting.open(*protocol.GATES)


def start_waiting(
    session: SessionTemplate,
    folder: Path,
    *,
    inherits: int | None = None,
    preloaded: Preloaded | None = None,
) -> Waiting:
    """Start a process for a session before its turn: it stops at its gates.

    `inherits`: descriptor that it keeps open to its end; `preloaded`: the process, where it runs.
    Raises OSError where the file system of the folder has no locks, or the process cannot start.
    """
    command = session.command(folder)
    job = replace(_job(session, (), folder / JOURNAL), waits=True, environment=command.env)
    write_job(job, folder / JOB)
    begin = partial(
        start,
        command,
        folder=folder,
        limits=session.limits,
        journal=folder / JOURNAL,
        lock_file=session.lock_file,
        inherits=inherits,
    )
    if preloaded is not None:
        begin = partial(preloaded.hand, folder / JOB)
    waiting = start_at_gates(session.job.session, folder, begin)
    return waiting if preloaded is None else replace(waiting, began=preloaded.began)


@contextlib.contextmanager
def reserved_attempt(run: RunFolder, session: str) -> Iterator[Path]:
    """Folder of an attempt whose turn comes later; it goes where the body fails."""
    folder = run.reserve_attempt(session)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def start_at_gates(
    name: str, folder: Path, begin: Callable[[], subprocess.Popen[bytes]]
) -> Waiting:
    """Start a process behind gates that lie in its folder; `begin` starts it.

    Raises OSError as `start_waiting` does.
    """
    gates = Gates(folder / protocol.GATES_FOLDER)
    try:
        return Waiting(name, folder, begin(), gates)
    except BaseException:
        gates.let_go()
        raise


def write_job(job: protocol.Job, path: Path) -> None:
    """Write a job; a process that waits may be reading the one that stands there."""
    partial = path.with_suffix(".partial")
    with naming(path):
        protocol.write_job(job, partial)
        partial.replace(path)


def recover(collector: Collector, folder: Path) -> bool:
    """Add rows to the log of a tool that was killed before it wrote them; True where some came.

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
    """Whether the runner of an attempt came as far as its first visit."""
    records = protocol.read_journal(folder / JOURNAL)
    return any(record["event"] == protocol.SESSION_STARTED for record in records)


def journal_visits(folder: Path) -> frozenset[Visit]:
    """Visits that were measured to their end, by the journal of an attempt."""
    return frozenset(
        Visit(*visit) for visit in protocol.finished_visits(protocol.read_journal(folder / JOURNAL))
    )


def _job(session: SessionTemplate, visits: Sequence[Visit], journal: Path) -> protocol.Job:
    """Job of one process, with the cells that it visits and those of other problems announced."""
    visited = {visit.cell for visit in visits}
    problems = {cell.problem for cell in session.job.cells if cell.id in visited}
    return replace(
        session.job,
        journal=str(journal.absolute()),
        cells=tuple(
            cell
            for cell in session.job.cells
            if cell.id in visited or (cell.id in session.announced and cell.problem not in problems)
        ),
        visits=tuple(protocol.JobVisit(visit.cell, visit.block, visit.arm) for visit in visits),
    )
