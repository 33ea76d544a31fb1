"""Holds an external program until its turn, and becomes it.

Run as a script by the tool in place of the program, with the standard library alone, so that it is
there in milliseconds:

    python -I -S held_program.py FOLDER PROGRAM [ARGUMENT …]

The tool starts while an earlier program measures; this process waits for the lock on its orders in
FOLDER without using the CPU. The end of the orchestrator frees the lock without an order, and it
leaves. The program gets environment, folder, arguments, streams and process id as they are. It is
not started as a child: ncu takes 0.9 s longer for a program that was forked (H200).

The program inherits the file of orders, locked: the lock is free when the program and all that it
started have ended. Programs that close inherited files are found by the journal, which has the
process id of the program and when it started. Its names are those of `runner/orders.py` and
`runner/protocol.py`, which take longer to import than all of this.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import sys
import time

ORDERS, JOURNAL = "orders.jsonl", "journal.jsonl"
VISIT = b'["visit"'
"""Beginning of the order that counts here."""
_MOST_BYTES = 4096
CANNOT_START = 127
"""Exit code when the program cannot be run, as a shell gives it."""
_SHELL = "/bin/sh"
_DESCRIPTOR = 100
"""The lowest file descriptor that the orders may get: a shell script has 3 to 9 for itself."""
_START_TIME = 19
"""Field of /proc/PID/stat, counted from the one after the name."""
_TICK_S = 0.01
"""Resolution of start times: after it, child processes have a later start time."""
_COERCED = "LC_CTYPE"
"""The variable that Python itself sets where the locale is C (PEP 538)."""


def main() -> int:
    """Become the program when it is its turn; the exit code where its turn does not come."""
    loaded_at = time.monotonic()
    folder, *command = sys.argv[1:]
    time.sleep(_TICK_S)
    if not _is_its_turn(f"{folder}/{ORDERS}"):
        return 0
    _write(
        f"{folder}/{JOURNAL}",
        event="session_started",
        pid=os.getpid(),
        start_time=_start_time(),
        stamps={"loaded": loaded_at, "turn": time.monotonic()},
    )
    return _become(command)


def _start_time() -> int:
    """When this process started, in ticks of the system's clock."""
    with open("/proc/self/stat", "rb") as stream:  # noqa: PTH123 - pathlib takes time
        return int(stream.read().rpartition(b")")[2].split()[_START_TIME])


def _is_its_turn(orders: str) -> bool:
    """Whether the order has come, after a wait for the lock. The program inherits the lock."""
    try:
        descriptor = os.open(orders, os.O_RDONLY)
        inherited = fcntl.fcntl(descriptor, fcntl.F_DUPFD, _DESCRIPTOR)
        fcntl.flock(inherited, fcntl.LOCK_SH)
        return VISIT in os.read(inherited, _MOST_BYTES)
    except OSError:
        return False


def _write(journal: str, **fields: object) -> None:
    line = json.dumps({"time": time.time(), **fields}) + "\n"
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def _become(command: list[str]) -> int:
    """Become the program; gives the exit code where that fails."""
    _restore_locale()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would the program
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - it is the program
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script that names no interpreter, as execvp has it
            os.execv(_SHELL, [_SHELL, *command])  # noqa: S606
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    return CANNOT_START


def _restore_locale() -> None:
    """Give the variable of the locale the value that it had before Python set it."""
    with open("/proc/self/environ", "rb") as stream:  # noqa: PTH123
        entries = [entry.partition(b"=") for entry in stream.read().split(b"\0")]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    if _COERCED in environment:
        os.environ[_COERCED] = environment[_COERCED]
    else:
        os.environ.pop(_COERCED, None)


if __name__ == "__main__":
    sys.exit(main())
