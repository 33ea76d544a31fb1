"""Per tool: the command to run, the files that come back, what its errors mean.

Nothing here starts a measurement: `profiler.sessions` runs what these modules describe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from profiler.errors import EnvironmentUnusable
from profiler.model import Outcome
from profiler.runner import protocol

STDOUT, STDERR = protocol.OUTPUT
"""Names of the files, in the folder of an attempt, that keep what a session printed."""

_LONGEST_TAIL = 2000


@dataclass(frozen=True)
class Command:
    """One process to start: no shell, `env` on top of the environment of the orchestrator."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """What the tool writes, by role: `log` (text and CSV of ncu), `report` (.ncu-rep)."""
    cwd: Path | None = None
    """Folder to run in; None: that of the orchestrator."""


class Collector(Protocol):
    """What a session runs under; what it does not say of itself, it knows nothing of."""

    @property
    def name(self) -> str:
        """Its name in plans and jobs: the key of its `CollectorKind`."""

    @property
    def wraps_target(self) -> bool:
        """Whether it is a process that starts the runner, and so can die apart from it."""

    def session_command(self, job: Path, folder: Path, metrics: Sequence[str]) -> Command:
        """Command that runs the runner on `job`; its files go to `folder`.

        `metrics` are names of the tool, not of the catalogue.
        """

    def diagnose(self, folder: Path, returncode: int) -> EnvironmentUnusable | None:
        """Error of the machine (permission, driver, package) that `folder` shows, or None."""

    def nothing_seen(self, folder: Path) -> EnvironmentUnusable | None:
        """Error of a session in which the tool saw nothing at all to measure; None without one."""
        del folder
        return None

    def cell_fault(self, folder: Path) -> tuple[Outcome, str] | None:
        """Outcome and cause of the cell that ran when the session died; None where unknown."""
        del folder
        return None

    def recover_command(self, folder: Path) -> Command | None:
        """Command that recovers results from the files of a killed tool; None where there are none.

        Its `log` holds them; it is to be put behind what the session's own log has.
        """
        del folder
        return None


def read_text(path: Path) -> str:
    """Text of a file that a tool may not have written, or may have cut off; empty where absent."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def tail(text: str, lines: int = 15) -> str:
    """Last lines of a tool's output, short enough for a message."""
    return "\n".join(text.rstrip().splitlines()[-lines:])[-_LONGEST_TAIL:]
