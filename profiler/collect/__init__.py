"""Collectors: the command of each tool, the files that it writes, the meaning of its errors.

Nothing here starts a measurement: `profiler.sessions` runs what these modules describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
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
    """Files that the tool writes, by role: `log` (text and CSV of ncu), `report` (.ncu-rep)."""
    cwd: Path | None = None
    """Folder to run in; None: that of the orchestrator."""


class Collector(Protocol):
    """The tool that a session runs under: its command, and the meaning of its errors."""

    @property
    def name(self) -> str:
        """Name of the collector in plans and jobs: the key of its `CollectorKind`."""

    @property
    def wraps_target(self) -> bool:
        """Whether the tool is a process that starts the runner, and so can die apart from it."""

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

        The command's `log` holds these results; callers append it to the session's own log.
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


class Records(StrEnum):
    """Kind of data that a collector records, which decides its sessions."""

    COUNTERS = "counters"
    """Durations in a timing session, and hardware counters in sessions of their own."""
    TIMES = "times"
    """Durations, in one timing session."""
    TIMELINE = "timeline"
    """Every operation of a few launches on a time axis, in one session."""
    STAMPS = "stamps"
    """Times of the phases of each warpgroup of one launch, in one session with its own builds."""


class Need(StrEnum):
    """A tool, device or package that a collector needs."""

    NCU = "ncu"
    NSYS = "nsys"
    GPU = "GPU"
    TORCH = "torch"


@dataclass(frozen=True)
class Tools:
    """Paths of tools and settings with which the collectors of a run are created."""

    ncu: Path | None = None
    nsys: Path | None = None
    """None where no session of the run needs it."""
    cache_control: str = "all"
    clock_control: str = "none"
    replay_mode: str = "kernel"
    child_processes: bool = True
    nsys_capture: str = protocol.CAPTURE_PROGRAM
    """Part of the program that nsys records, as `MeasureSettings.capture` has it."""
    python: str | None = None
    """Interpreter of the runner; None: that of the orchestrator."""


@dataclass(frozen=True)
class CollectorKind:
    """One collector: its names, settings and costs, and how to create it."""

    name: str
    """Key of the collector in specs, plans, journals and frames."""
    alias: str | None
    """Another key that specs may use; None where `name` is the field's own word."""
    title: str
    """Name of the collector on pages."""
    measures: str
    """Definition of the durations, as a sentence without its subject, for the docs."""
    records: Records
    metric: str | None
    """Name of the durations in the catalogue, where another collector gives `duration_ns`; None
    where the collector gives no durations."""
    create: Callable[[Tools], Collector]
    """Creates the collector from the tools of a run."""
    in_journal: bool = False
    """Whether the runner measures its samples itself, so that they stand in the journal."""
    needs: frozenset[Need] = frozenset()
    settings: tuple[str, ...] = ()
    """Keys under `collect` that change the measurement."""
    launches: int = 1
    """Launches of a visit, where no setting of the collector gives their number."""
    visit_s: float = 1e-3
    """Seconds of a visit on an H200 for a kernel that takes no time itself."""
    measures_commands: bool = False
    """Whether the collector can measure an external command; others need the runner."""
    report_file: str | None = None
    """Name of a timeline tool's own file in the folder of an attempt, once it has ended; None if
    each visit leaves a trace that the journal names."""

    @property
    def judged(self) -> bool:
        """Whether verdicts may be about the durations of this collector."""
        return self.records in (Records.COUNTERS, Records.TIMES)

    @property
    def session_name(self) -> str:
        """Name of the collector's timing session; the final is called `<session_name>-final`."""
        return self.name.replace("_", "-")
