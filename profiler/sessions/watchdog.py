"""Reads a journal while it is written, and detects when it stops growing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.parse import runner_journal
from profiler.runner import protocol

Record = Mapping[str, Any]


class JournalTail:
    """Reads new records of a journal; a half-written line waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> list[Record]:
        """New complete records, in order."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                content = stream.read()
        except FileNotFoundError:
            return []
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        records = (runner_journal.record_of(line.decode("utf-8", "replace")) for line in lines)
        return [record for record in records if record is not None]


@dataclass(frozen=True)
class Limits:
    """Longest silences of a session, in seconds."""

    step_s: float
    """Between two records of a journal while cells are worked on; without a journal: in all."""
    startup_s: float = 180.0
    """Until the first record (starting ncu, torch and a context took 5 s on an H200; a cold disk
    takes far longer), and from the last one to the end of the process (ncu prints its rows)."""
    grace_s: float = 60.0
    """For the tool to write its results after the runner was killed (1 s for 100 rows)."""
    linger_s: float = 3.0
    """For a workload's child processes to end after the runner has ended."""


class Watchdog:
    """Detects a session that has been silent for too long. Time comes from `clock`, in seconds."""

    def __init__(self, limits: Limits, clock: Callable[[], float], *, has_journal: bool) -> None:
        self._limits = limits
        self._clock = clock
        self._last = clock()
        self._limit = self._startup() if has_journal else limits.step_s

    def _startup(self) -> float:
        return max(self._limits.startup_s, self._limits.step_s)

    def observe(self, record: Record) -> None:
        """Restart the time limit, because a record was written."""
        self._last = self._clock()
        over = record.get("event") == protocol.SESSION_FINISHED
        self._limit = self._startup() if over else self._limits.step_s

    def expired(self) -> bool:
        """Whether the session has been silent for longer than its limit."""
        return self._clock() - self._last > self._limit
