"""How long the stages of an execution take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


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
