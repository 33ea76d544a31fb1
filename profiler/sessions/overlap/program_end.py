"""The end of an external program that was held until its turn, seen while its tool still writes.

The program has the process id that its holder wrote down, and has inherited the lock on its gate
(`runner/external/held_program.py`). The lock alone does not tell: a program may close what it
inherits. Nor does the process: it may leave others running.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from profiler.run_folder.folder import JOURNAL_FILE
from profiler.runner import protocol
from profiler.sessions.overlap.waiting import is_locked
from profiler.sessions.watchdog import Record

_START_TIME = 19
"""The field of /proc/PID/stat, counted from the one after the name; as the holder reads it."""


@dataclass
class ProgramEnd:
    """Looks for the end of a program and of all that it started."""

    folder: Path
    """The folder of the visit."""
    guard: int
    """Process id of the guard of its tool."""
    on_end: Callable[[], None]
    """Called once, when the end is seen."""
    _started: Record | None = None
    """The record that the holder wrote when it became the program; None before that."""
    _seen: bool = field(default=False, init=False)

    def look(self) -> None:
        """See whether it has come; to be called every few milliseconds."""
        if not self._seen and self._has_come():
            self._seen = True
            self.on_end()

    def _has_come(self) -> bool:
        """Whether nothing of the program is left: the cheapest question comes first."""
        if self._started is None:
            self._started = next(protocol.read_journal(self.folder / JOURNAL_FILE), None)
        if self._started is None or is_locked(self._gate, fcntl.LOCK_EX):
            return False
        if _lives(int(self._started["pid"])):
            return False
        return not _lives_below(self.guard, since=int(self._started["start_time"]))

    @property
    def _gate(self) -> Path:
        return self.folder / protocol.GATES_FOLDER / protocol.VISITS_GATE


def _lives(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _lives_below(guard: int, *, since: int) -> bool:
    """Whether a process lives below another that started after a time: the tool's own did not.

    `since`: in ticks of the system's clock; a holder waits for one before it is the program.
    """
    try:
        below = psutil.Process(guard).children(recursive=True)
    except psutil.Error:
        return False
    return any(_lives(process.pid) and _start_time(process.pid) > since for process in below)


def _start_time(pid: int) -> int:
    """When a process started, in ticks; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[_START_TIME])
