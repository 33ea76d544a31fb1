"""Properties of a collector in one object, so that nothing else compares names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from profiler.collect import Collector
from profiler.errors import UsageError


@dataclass(frozen=True)
class NvtxWindow:
    """Recording begins and ends with the first range of that name, so warm-up is left out."""

    name: str
    domain: str = ""
    """Empty for the default domain."""

    def __post_init__(self) -> None:
        for part in (self.name, self.domain):
            if "@" in part or "\\" in part:
                raise UsageError(
                    f"nsys cannot capture by {part!r}: the name holds an @ or a backslash.",
                    remedy="Name the range with [A-Za-z0-9_.=-] only.",
                )


@dataclass(frozen=True)
class ProfilerApiWindow:
    """Recording begins with cudaProfilerStart and ends with cudaProfilerStop."""


Window = NvtxWindow | ProfilerApiWindow


class Records(StrEnum):
    """What the sessions of a collector give, and so which sessions it makes."""

    COUNTERS = "counters"
    """Durations in a timing session, and hardware counters in sessions of their own."""
    TIMES = "times"
    """Durations, in one timing session."""
    TIMELINE = "timeline"
    """Every operation of a few launches on a time axis, in one session."""
    STAMPS = "stamps"
    """When each warpgroup of one launch did what, in one session of builds of its own."""


class Need(StrEnum):
    """What a collector cannot do without."""

    NCU = "ncu"
    NSYS = "nsys"
    GPU = "GPU"
    TORCH = "torch"


@dataclass(frozen=True)
class Tools:
    """What the collectors of a run are made with."""

    ncu: Path | None = None
    nsys: Path | None = None
    """None where no session of the run needs it."""
    cache_control: str = "all"
    clock_control: str = "none"
    replay_mode: str = "kernel"
    child_processes: bool = True
    nsys_window: Window | None = None
    """Part of the program that nsys records; None: all of it."""
    python: str | None = None
    """Interpreter of the runner; None: that of the orchestrator."""


@dataclass(frozen=True)
class CollectorKind:
    """One collector: everything that the rest of the project needs of it."""

    name: str
    """Its key in specs, plans, journals and frames."""
    alias: str | None
    """Another key that specs may use; None where `name` is the field's own word."""
    title: str
    """What pages call it."""
    measures: str
    """What its durations are, as a sentence without its subject, for the docs."""
    records: Records
    metric: str | None
    """Name in the catalogue of its durations, where another collector gives `duration_ns`; None
    where it gives none."""
    judged: bool
    """Whether its durations may be those that verdicts are about."""
    in_journal: bool
    """Whether the runner measures its samples itself, so that they stand in the journal."""
    create: Callable[[Tools], Collector]
    """What a session runs under: its command, and what its errors mean."""
    needs: frozenset[Need] = frozenset()
    settings: tuple[str, ...] = ()
    """Keys under `collect` that change what it does."""
    launches: int = 1
    """Launches a visit, where none of its settings says how many."""
    visit_s: float = 1e-3
    """Seconds of a visit on an H200 for a kernel that takes no time itself."""
    measures_commands: bool = False
    """Whether it can measure an external command; others need the runner."""
    report_file: str | None = None
    """Of a timeline: the tool's own file in the folder of an attempt, once it has ended; None where
    each visit leaves a trace that the journal names."""

    @property
    def session_name(self) -> str:
        """Name of its session of times; its final is called `<session_name>-final`."""
        return self.name.replace("_", "-")
