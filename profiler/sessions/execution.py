"""An execution: what it measures, its time budget, and a record of where its seconds go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from profiler.machine.requirements import Machine
from profiler.model import Plan, SessionStep, Span
from profiler.planning.space import Space
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.seconds import PROFILER
from profiler.runner import protocol
from profiler.sessions.watchdog import Record

_STEPS = (
    (SessionStep.STARTS, protocol.TORCH_IMPORTED),
    (SessionStep.WAITS, protocol.MAY_IMPORT),
    (SessionStep.STARTS, protocol.LOADED),
    (SessionStep.WAITS, protocol.ITS_TURN),
    (SessionStep.CONTEXT, protocol.DEVICE_OPEN),
    (SessionStep.WAITS, protocol.VISITS_KNOWN),
)
"""Steps of the start of a session, and the stamp that ends each."""


@dataclass
class SecondsRecorder:
    """Records where the seconds of one execution go, by the system's monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    spans: list[Span] = field(default_factory=list)
    """Spans with times in seconds since `began`."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds by stage, in the order in which the stages began."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of the body to a stage, also where it raises."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.monotonic() - begin

    @contextmanager
    def step(self, step: str, *, from_s: float = 0.0) -> Iterator[None]:
        """Record the body as a step of the orchestrator, also where it raises.

        `from_s`: seconds from which on it is worth a span.
        """
        begin = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            if end - begin >= from_s:
                self._add(PROFILER, step, begin, end)

    def session(self, row: str, begin: float, records: Iterable[Record]) -> None:
        """Record the steps of a session that has just ended, by the stamps of its journal."""
        stamps: dict[str, float] = {}
        last_launch: float | None = None
        for record in records:
            if record["event"] == protocol.SESSION_STARTED:
                stamps = dict(record.get("stamps", {}))
            elif record["event"] == protocol.SESSION_FINISHED:
                last_launch = record.get("monotonic")
        at = begin
        for step, stamp in _STEPS:
            if stamp in stamps:
                self._add(row, step, at, stamps[stamp])
                at = stamps[stamp]
        if last_launch is not None:
            self._add(row, SessionStep.MEASURES, at, last_launch)
            at = last_launch
        ending = (
            SessionStep.ENDS
            if last_launch is not None
            else SessionStep.MEASURES
            if stamps
            else SessionStep.STARTS
        )
        self._add(row, ending, at, time.monotonic())

    def _add(self, row: str, step: str, begin: float, end: float) -> None:
        # A process may have been started before the experiment was read.
        begin, end = max(begin, self.began), max(begin, end, self.began)
        self.spans.append(Span(row, step, round(begin - self.began, 3), round(end - self.began, 3)))


@dataclass
class Budget:
    """Time budget from now on; the first look of judged sessions is measured in any case."""

    seconds: float
    left_out: list[str] = field(default_factory=list)
    """Names of the steps that there was no time for."""
    began: float = field(default_factory=time.monotonic)

    def allows(self, step: str) -> bool:
        """Whether there is time to begin a step; else the name of the step is noted."""
        if time.monotonic() - self.began < self.seconds:
            return True
        self.left_out.append(step)
        return False


@dataclass
class Meanwhile:
    """Work that a thread does once, beside the start of the first session.

    The process waits for it at its end: Python ends a daemon thread by unwinding its stack, and a
    module in C++ that is being loaded on it then aborts the process.
    """

    work: Callable[[], None] | None

    def start(self) -> None:
        """Begin the work; later calls do nothing."""
        if self.work is not None:
            threading.Thread(target=self.work, name="meanwhile").start()
            self.work = None


def build_root(out: Path) -> Path:
    """Folder of built libraries, shared by all experiments with runs in `out`."""
    return out / ".build"


@dataclass(frozen=True)
class Execution:
    """An experiment as planned on a machine, about to be measured."""

    loaded: LoadedSpec
    plan: Plan
    space: Space
    machine: Machine
    out: Path
    fresh: bool
    """Whether a new run begins also where an earlier one could be resumed."""
    created: str
    """Local time, ISO 8601 with offset."""
    seconds: SecondsRecorder = field(default_factory=SecondsRecorder)
    """Where its seconds go."""

    @property
    def build_root(self) -> Path:
        """Folder of the libraries of all experiments."""
        return build_root(self.out)
