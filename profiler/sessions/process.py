"""Runs one session as a child process on this machine, and ends it in any case."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.collect import STDERR, STDOUT, Command
from profiler.errors import Interrupted
from profiler.machine.locks import open_lock_file
from profiler.machine.signals import raise_if_signalled
from profiler.parse import runner_journal
from profiler.runner import protocol
from profiler.sessions.watchdog import JournalTail, Limits, Record, Watchdog

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

_GUARD = Path(__file__).with_name("guard.py")
MAX_OUTPUT_BYTES = 2**24
"""Most of stdout, and of stderr, that is kept of a session."""
_KEPT_OUTPUT_BYTES = 2**20
"""Bytes kept of the beginning, and of the end, of longer output."""
_POLL_S = 0.02
"""Seconds between two polls of a session's journal: its last launch lets the next session
through to the GPU."""
_GONE_S = 5.0
_HARD_STOP_S = 20.0
"""Longer than the guard needs after its grace (SIGTERM, 10 s, SIGKILL)."""


class EndCause(StrEnum):
    """Why a session ended."""

    FINISHED = "finished"
    DIED = "died"
    TIMED_OUT = "timed_out"
    CONTEXT_LOST = "context_lost"


@dataclass(frozen=True)
class FailingCell:
    """Cell and phase that a journal started last and neither finished nor failed."""

    cell: str
    phase: str
    block: int | None = None


@dataclass(frozen=True)
class SessionResult:
    """How a session ended."""

    returncode: int
    """Exit code; negative: the signal that ended the process that was started."""
    cause: EndCause
    failing_cell: FailingCell | None
    seconds: float
    standing_process: subprocess.Popen[bytes] | None = None
    """The process, if it still runs and belongs to the caller of `run_session`."""


def ignore(record: Record) -> None:
    """Do nothing with a record: the default callback of `run_session`."""
    del record


def run_session(  # noqa: PLR0913 - all but the command are by keyword, most have defaults
    command: Command,
    *,
    folder: Path,
    limits: Limits,
    journal: Path | None,
    on_record: Callable[[Record], None] = ignore,
    clock: Callable[[], float] = time.monotonic,
    lock_file: Path | None = None,
    process: subprocess.Popen[bytes] | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_look: Callable[[], None] = lambda: None,
    poll_s: float = _POLL_S,
    stays: bool = False,
    until: str = protocol.SESSION_FINISHED,
    tail: JournalTail | None = None,
) -> SessionResult:
    """Run a command until all of its processes are gone; returns how it ended.

    `stays`: but where its journal says that the session is over, or has another event (`until`), it
    is left to the caller. `tail`: of the journal, where its beginning was read before.

    stdout and stderr go to files in `folder`. `on_record` is called for each record of the journal
    as it comes. A session whose journal stands still for too long is ended from the inside out (see
    `guard`). `lock_file` is locked for as long as anything of the session lives, also when
    this process is killed. `process`: what `start` gave for this very command, earlier. `on_start`
    is called when it has been started, `on_look` every `poll_s` seconds until it ends.

    Raises Interrupted on Ctrl-C, after the session was ended in the same way.
    """
    watchdog = Watchdog(limits, clock, has_journal=journal is not None)
    if journal is not None and tail is None:
        tail = JournalTail(journal)
    started = time.monotonic()
    is_over = False

    def follow() -> None:
        nonlocal is_over
        for record in tail.read() if tail is not None else ():
            watchdog.observe(record)
            on_record(record)
            is_over = is_over or record.get("event") == until

    def look() -> bool:
        follow()
        cap_output(folder)
        on_look()
        return stays and is_over

    if process is None:
        process = start(command, folder=folder, limits=limits, journal=journal, lock_file=lock_file)
    with stopped_on_leaving(process, limits.grace_s, unless=lambda: stays and is_over):
        try:
            on_start()
            timed_out = _wait(process, look, watchdog, poll_s)
        except KeyboardInterrupt:
            stop(process, limits.grace_s)
            follow()
            raise Interrupted(
                "Interrupted; what was measured is kept.",
                remedy="Run the same command again: it goes on with what is missing.",
            ) from None
        cap_output(folder)
        if timed_out:
            stop(process, limits.grace_s)
        elif process.returncode is None:
            return SessionResult(0, EndCause.FINISHED, None, time.monotonic() - started, process)
        follow()
    records = tuple(runner_journal.read_journal(journal)) if journal is not None else None
    return SessionResult(
        returncode=process.returncode,
        cause=cause_of(process.returncode, records, timed_out=timed_out),
        failing_cell=failing_cell(records or ()),
        seconds=time.monotonic() - started,
    )


def cap_output(folder: Path) -> None:
    """Cut the middle out of a session's too long output, with a note in its place.

    What is printed between the look and the cut is lost with it.
    """
    for name in protocol.OUTPUT:
        with contextlib.suppress(FileNotFoundError):
            path = folder / name
            size = path.stat().st_size
            if size <= MAX_OUTPUT_BYTES:
                continue
            with path.open("r+b") as file:
                file.seek(size - _KEPT_OUTPUT_BYTES)
                end = file.read(_KEPT_OUTPUT_BYTES)
                file.truncate(_KEPT_OUTPUT_BYTES)
            left_out = size - 2 * _KEPT_OUTPUT_BYTES
            with path.open("ab") as file:
                file.write(b"\n[%d bytes of output were left out here]\n" % left_out + end)


def failing_cell(records: Iterable[Record]) -> FailingCell | None:
    """Cell and phase started last and neither finished nor failed; None without such a phase."""
    open_step: FailingCell | None = None
    for record in records:
        event = record.get("event")
        if event == protocol.STARTED:
            open_step = FailingCell(str(record["cell"]), str(record["phase"]), record.get("block"))
        elif event in (protocol.FINISHED, protocol.FAILED, protocol.SESSION_FINISHED):
            open_step = None
    return open_step


def cause_of(returncode: int, records: tuple[Record, ...] | None, *, timed_out: bool) -> EndCause:
    """Cause of a process's end, by its exit code and journal records (None: no journal)."""
    said_so = any(record.get("event") == protocol.SESSION_FINISHED for record in records or ())
    if timed_out:  # after the last visit the tool hangs, and no cell
        return EndCause.DIED if said_so else EndCause.TIMED_OUT
    if returncode == protocol.EXIT_CONTEXT_LOST:
        return EndCause.CONTEXT_LOST
    if records is None:
        return EndCause.FINISHED if returncode == 0 else EndCause.DIED
    return EndCause.FINISHED if said_so and returncode == 0 else EndCause.DIED


def start(  # noqa: PLR0913 - all but the command by keyword
    command: Command,
    *,
    folder: Path,
    limits: Limits,
    journal: Path | None,
    lock_file: Path | None,
    inherits: int | None = None,
) -> subprocess.Popen[bytes]:
    """The guard of a command, both started in a new process group.

    It ends when its stdin is closed. `inherits`: a descriptor that it and the command keep open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in protocol.OUTPUT:
        (folder / name).write_bytes(b"")
    with (
        (folder / STDOUT).open("ab") as stdout,  # at its end, also after `cap_output`
        (folder / STDERR).open("ab") as stderr,
        contextlib.nullcontext() if lock_file is None else open_lock_file(lock_file) as lock,
    ):
        return subprocess.Popen(
            guarded(
                command.argv, limits, journal=journal, lock=lock, shared=True, inherits=inherits
            ),
            stdin=subprocess.PIPE,  # the guard's; the session itself reads nothing
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **command.env},
            cwd=command.cwd,
            start_new_session=True,
            pass_fds=tuple(descriptor for descriptor in (lock, inherits) if descriptor is not None),
        )


def guarded(  # noqa: PLR0913 - all but two by keyword
    argv: Sequence[str],
    limits: Limits,
    *,
    journal: Path | None = None,
    lock: int | None = None,
    shared: bool = False,
    inherits: int | None = None,
) -> list[str]:
    """Command line of a guard and its command; `lock`: a descriptor that the guard inherits.

    `shared`: it is locked together with others of the same run, not alone. `inherits`: another that
    the command keeps open.
    """
    guard = [sys.executable, "-P", str(_GUARD), "--grace", str(limits.grace_s)]
    if journal is not None:
        guard += ["--journal", str(journal), "--linger", str(limits.linger_s)]
    if lock is not None:
        guard += ["--lock", str(lock), *(["--shared"] if shared else [])]
    if inherits is not None:
        guard += ["--keep", str(inherits)]
    return [*guard, "--", *argv]


@contextlib.contextmanager
def stopped_on_leaving(
    process: subprocess.Popen[Any], grace_s: float, unless: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """After the body, end a guard and its process group, also where the body raises.

    `unless`: says, where the body ends well, that the process is left alone.
    """
    is_wanted = False
    try:
        yield
        is_wanted = unless() and process.poll() is None
    finally:
        if not is_wanted:
            if process.poll() is None:
                stop(process, grace_s)
            if process.stdin is not None:
                process.stdin.close()
            kill_group(process.pid)


def _wait(
    process: subprocess.Popen[bytes],
    look: Callable[[], bool],
    watchdog: Watchdog,
    poll_s: float,
) -> bool:
    """Wait for a process; True where it was silent for too long and still runs.

    `look` is called meanwhile, and says whether it need not be waited for any longer.
    """
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=poll_s)
            return False
        raise_if_signalled()
        if look():
            return False
        if watchdog.expired():
            return True


def stop(process: subprocess.Popen[Any], grace_s: float) -> None:
    """Have a guard end its processes; where the guard hangs, kill its group.

    So does a second Ctrl-C: what the tool has not printed then comes from its report.
    """
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=grace_s + _HARD_STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        kill_group(process.pid)
        process.wait()


def kill_group(group: int) -> None:
    """Kill a process group, and wait until it is gone.

    Not for ever: a process that hangs in the driver outlives even SIGKILL.
    """
    deadline = time.monotonic() + _GONE_S
    while (survivors := members(group)) and time.monotonic() < deadline:
        import psutil  # noqa: PLC0415 - hardly ever is anything left

        for process in survivors:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL_S)


def members(group: int) -> list[psutil.Process]:
    """Living processes of a process group, without zombies, which only wait to be reaped.

    Where there is no such group any more, which is nearly always, those of the host are not gone
    through.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        pass  # some of it, or all, belongs to another user
    import psutil  # noqa: PLC0415

    processes = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == group and process.info["status"] != "zombie":
                processes.append(process)
    return processes
