"""Holds an external program until its turn, runs it, and journals when it has ended.

Run as a script by the tool in place of the program, with the standard library alone, so that it is
there in milliseconds:

    python -I -S held_program.py FOLDER PROGRAM [ARGUMENT …]

The tool starts while an earlier program measures; this process waits at a gate in FOLDER without
using the CPU. Whatever ends the orchestrator lets the gate go unopened, and it leaves. The program
gets environment, folder, arguments and streams as they are, and this process ends as it did: by the
same exit code or signal. It waits for what the program started and left, as the tool does, so that
nothing has a CUDA context any more when the journal says that the session has finished.

The words of the journal are those of `runner/protocol.py`, which takes longer to import than all of
this.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import sys
import time

GATE, OPEN = "gates/visits", b"open"
JOURNAL = "journal.jsonl"
CANNOT_START = 127
"""Exit code when the program cannot be run, as a shell gives it."""
_SHELL = "/bin/sh"
_SIGNALLED = 128
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main() -> int:
    """Run the program when it is its turn; its exit code, or death by its signal."""
    there = time.monotonic()
    folder, *command = sys.argv[1:]
    _adopt_orphans()
    if not _is_its_turn(f"{folder}/{GATE}"):
        return 0
    journal = f"{folder}/{JOURNAL}"
    _write(journal, "session_started", stamps={"loaded": there, "turn": time.monotonic()})
    program = os.fork()
    if program == 0:
        _become(command)
    code = _wait_for_all(program)
    _write(journal, "session_finished", monotonic=time.monotonic(), returncode=code)
    return _end_like(code)


def _adopt_orphans() -> None:
    """Become the parent of what the program leaves, to wait for it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _is_its_turn(gate: str) -> bool:
    """Wait at the gate; whether it was opened, not only let go."""
    try:
        descriptor = os.open(gate, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return os.read(descriptor, len(OPEN)) == OPEN
    except OSError:
        return False


def _write(journal: str, event: str, **fields: object) -> None:
    line = json.dumps({"event": event, "time": time.time(), **fields}) + "\n"
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def _become(command: list[str]) -> None:
    """Become the program; ends this process where that fails."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would the program
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - it is the program
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script that names no interpreter, as execvp has it
            os.execv(_SHELL, [_SHELL, *command])  # noqa: S606
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    os._exit(CANNOT_START)


def _wait_for_all(program: int) -> int:
    """Exit code of the program, or its signal as a negative number, when all children have gone."""
    code = 0
    while True:
        try:
            process, status = os.wait()
        except ChildProcessError:
            return code
        if process == program:
            code = os.waitstatus_to_exitcode(status)


def _end_like(code: int) -> int:
    """The exit code of the program; where a signal ended it, die of the same."""
    if code >= 0:
        return code
    with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main())
