"""Stands between the orchestrator and a session or build, so that neither outlives it.

Run as a script, with the standard library and psutil only. It starts a command, and ends it and
everything below it when its own stdin closes: the orchestrator closes it on purpose to stop a
session, and the kernel closes it when the orchestrator is killed.

A session is ended from the inside out. ncu prints its rows only when its target has gone, so the
runner is ended first and ncu gets time; then the group gets SIGTERM, on which ncu prints its rows
too; then SIGKILL. (SIGTERM to the process that was started is not enough: /usr/local/cuda/bin/ncu
is a shell script, and the real ncu below it lives on.)

What the runner started and left is ended seconds after the runner itself: ncu waits for such
processes for as long as they live (seen with children, orphans and forks).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

CANNOT_START = 127
"""Exit code for a missing command, as of a shell."""
_RUNNER_ENDINGS = ((signal.SIGTERM, 1.0), (signal.SIGABRT, 0.5))
"""Signals before SIGKILL, each with the seconds to end by it. By the first what the workload does
is left as by an exception: torch's lock on an extension that is being compiled would stay, and be
waited for by every later process. By the second Python prints where it hangs."""
_TERMINATE_GRACE_S = 10.0
_GONE_S = 5.0
_TIDY_S = 2.0
"""Seconds for children of a command that ended on request."""
_POLL_S = 0.02
_LOOK_S = 0.25
RUNNER_VARIABLE = "PROFILER_RUNNER_PID"
"""Set by the runner, and so inherited by what it starts (`RUNNER_VARIABLE` of `runner/protocol.py`,
which a script cannot import)."""
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main() -> int:
    """Run the command; return its exit code, or die of the signal that it died of."""
    options = _options()
    _adopt_orphans()
    # A measured program's crash is known by its signal: a core dump would only fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lock = () if options.lock is None else (options.lock,)
    for descriptor in lock:  # released when the last process with the open file is gone
        # Shared, because sessions of one run overlap; another run waits until all have gone.
        fcntl.flock(descriptor, fcntl.LOCK_SH if options.shared else fcntl.LOCK_EX)
    descriptors = (*lock, *(() if options.keep is None else (options.keep,)))
    if _has_stop_request():  # killed while we waited: another run measures what is missing
        return CANNOT_START
    try:
        child = subprocess.Popen(options.command, stdin=subprocess.DEVNULL, pass_fds=descriptors)
    except OSError as error:
        print(f"cannot start {options.command[0]}: {error}", file=sys.stderr)  # noqa: T201
        return CANNOT_START
    _import_psutil()
    stop_requested = threading.Event()
    stopper = threading.Thread(
        target=_stop_when_told,
        args=(child, options.journal, options.grace, stop_requested),
        daemon=True,
    )
    stopper.start()
    if options.journal is not None:
        sweeper = threading.Thread(
            target=_end_remaining_processes, args=(options.journal, options.linger), daemon=True
        )
        sweeper.start()
    code = child.wait()
    if stop_requested.is_set():  # its children are removing their files
        psutil.wait_procs(_descendants(), timeout=_TIDY_S)
    _end(_descendants())
    if code < 0:
        # Python ignores SIGPIPE and SIGXFSZ, and handles SIGINT; SIGKILL has no handler to reset.
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _import_psutil() -> None:
    """Import psutil while the command starts: before, it would delay the start by a third."""
    global psutil  # noqa: PLW0603 - all that needs it comes after
    import psutil  # noqa: PLC0415


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", type=Path, help="names the runner's process")
    parser.add_argument("--grace", type=float, required=True, help="seconds for the tool to end")
    parser.add_argument("--linger", type=float, default=0.0, help="seconds for what a runner left")
    parser.add_argument("--lock", type=int, help="descriptor of a file to lock until the end")
    parser.add_argument("--shared", action="store_true", help="beside others that share the lock")
    parser.add_argument("--keep", type=int, help="descriptor that stays open until the end")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return options


def _adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they are still found below the guard."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _has_stop_request() -> bool:
    """Whether stdin is closed: the request to stop."""
    stdin = select.poll()
    stdin.register(0, select.POLLHUP)
    return bool(stdin.poll(0))


def _stop_when_told(
    child: subprocess.Popen[bytes],
    journal: Path | None,
    grace: float,
    stop_requested: threading.Event,
) -> None:
    while os.read(0, 1):
        pass
    # A compiler has no rows to print, but files of its own to take away: it has no such grace.
    if grace > 0 and _end_runner(child, journal, grace):
        return
    stop_requested.set()
    _send(signal.SIGTERM, _descendants())
    if _ends_in_time(child, _TERMINATE_GRACE_S):
        return
    _send(signal.SIGKILL, _descendants())


def _end_remaining_processes(journal: Path, linger: float) -> None:
    """Wait for the end of the runner; then, after some seconds, end what it has started."""
    while (pid := _runner_pid(journal)) is None:
        time.sleep(_POLL_S)  # a short session ends soon afterwards
    command_line: list[str] = []
    with contextlib.suppress(psutil.Error):  # it may be gone already
        runner = psutil.Process(pid)
        command_line = runner.cmdline()
        while runner.is_running() and runner.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_LOOK_S)
    time.sleep(linger)
    _send(
        signal.SIGKILL,
        [
            process
            for process in _descendants()
            if _was_started_by_runner(process, pid, command_line)
        ],
    )


def _was_started_by_runner(process: psutil.Process, runner: int, command_line: list[str]) -> bool:
    """Whether the runner started a process: it has the runner's mark, or is a forked copy."""
    try:
        mark = process.environ().get(RUNNER_VARIABLE)
        forked = bool(command_line) and process.cmdline() == command_line
        return process.pid != runner and (mark == str(runner) or forked)
    except psutil.Error:
        return False


def _end_runner(child: subprocess.Popen[bytes], journal: Path | None, grace: float) -> bool:
    """Whether the command ends within the grace period after its runner was ended.

    The tool of a runner that was ended writes the rows that it has.

    Before a runner has begun there is nothing to write: what is innermost is killed until all have
    gone, because a shell goes on to its next command.
    """
    targets = _targets(journal)
    for signum, seconds in _RUNNER_ENDINGS:
        _send(signum, targets)
        if _ends_in_time(child, seconds):
            return True
    deadline = time.monotonic() + grace
    while (remaining_s := deadline - time.monotonic()) > 0:
        has_begun = journal is None or _has_begun(journal)
        if journal is not None:  # else the innermost by now is the tool, which writes its rows
            targets = _targets(journal)
        _send(signal.SIGKILL, targets)
        if has_begun:
            return _ends_in_time(child, remaining_s)
        if _ends_in_time(child, min(remaining_s, _LOOK_S)):
            return True
    return False


def _targets(journal: Path | None) -> list[psutil.Process]:
    """Processes to end first: the runner that the journal names, else the innermost ones.

    None where the runner is gone.
    """
    descendants = _descendants()
    runner = _runner_pid(journal) if journal is not None else None
    if runner is None:
        return _innermost(descendants)
    return [process for process in descendants if process.pid == runner]


def _innermost(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Processes without a child among the given ones."""
    parents = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            parents.add(process.ppid())
    return [process for process in processes if process.pid not in parents]


def _has_begun(journal: Path) -> bool:
    """Whether the journal has a record."""
    try:
        return journal.stat().st_size > 0
    except OSError:
        return False


def _runner_pid(journal: Path) -> int | None:
    """Process id in the first record of the journal (`session_started`)."""
    try:
        return int(json.loads(journal.read_text(encoding="utf-8").partition("\n")[0])["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _descendants() -> list[psutil.Process]:
    return list(psutil.Process().children(recursive=True))


def _send(signum: signal.Signals, processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signum)


def _end(processes: list[psutil.Process]) -> None:
    """Kill processes and wait: the lock is held until all are gone, and SIGKILL takes its time.

    Not for ever: a process that hangs in the driver outlives even that.
    """
    _send(signal.SIGKILL, processes)
    psutil.wait_procs(processes, timeout=_GONE_S)


def _ends_in_time(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the child ends in time; polled, because only the main thread may wait for it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.returncode is not None:
            return True
        time.sleep(_POLL_S)
    return child.returncode is not None


if __name__ == "__main__":
    sys.exit(main())
