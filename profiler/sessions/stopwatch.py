"""How long the stages of an execution take, and the line that says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from profiler.model import Span
from profiler.run_folder.seconds import (
    WAITS_FOR_GPU,
    seconds_beside_sessions,
    seconds_in_sessions,
)


@dataclass
class Stopwatch:
    """Seconds per stage, in the order in which the stages began."""

    stages: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage, whatever ends it."""
        started = self.clock()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + self.clock() - started


def time_line(stages: Mapping[str, float] | None, spans: Collection[Span], total_s: float) -> str:
    """Seconds of an execution: of each session, of the wait for the GPU, and of none of these.

    `stages`: stage → seconds; None for a replay.
    """
    if stages is None:
        return f"{total_s:.1f} s."
    sessions = {name: seconds for name, seconds in stages.items() if name != "build"}
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sessions.items())
    waited_s = seconds_beside_sessions(spans, (WAITS_FOR_GPU,))
    waited = f"; {waited_s:.1f} s of waiting for the GPU" if waited_s else ""
    outside_s = max(total_s - seconds_in_sessions(spans) - waited_s, 0.0)
    return (
        f"{total_s:.1f} s: sessions {parts or 'none'}{waited}; {outside_s:.1f} s in which none "
        f"starts, measures or ends (build {stages.get('build', 0.0):.1f})."
    )
