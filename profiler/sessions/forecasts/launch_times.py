"""How long a launch of each cell takes: by warm-ups, else by the work that its problem declares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from profiler.sessions.forecasts.session_costs import SessionCosts, Work
from profiler.sessions.forecasts.typical import launch_seconds

_MOST_IDLE_S = 3e-4
"""Most of a warm-up launch that may be the way to the GPU and back."""
_TELLING_S = 5e-4
"""A launch that takes as long tells how fast this GPU and its kernels are."""


class LaunchTimes:
    """Seconds of a launch by cell, from sessions with warm-ups of so many launches."""

    def __init__(
        self, sessions: Iterable[SessionCosts], problem_of: Mapping[str, str], warmups: int
    ) -> None:
        self._problem_of = problem_of
        self._work: dict[str, Work] = {}
        shortest: dict[str, float] = {}
        for session in sessions:
            self._work.update(session.work)
            for cell, seconds in session.warm_ups.items() if warmups else ():
                shortest[cell] = min(seconds / warmups, shortest.get(cell, seconds))
        self._seconds = self._without_idle(shortest)
        self.slowness = self._measured_slowness()
        """How many times as long as declared work suggests this GPU takes."""
        self._common_s = self._undeclared()
        """Seconds of every launch that no declared work accounts for."""

    def _without_idle(self, warm_ups: Mapping[str, float]) -> dict[str, float]:
        """Seconds of launches by cell, without the way to the GPU and back."""
        rests = (seconds - self._declared(cell) for cell, seconds in warm_ups.items())
        idle_s = min((_MOST_IDLE_S, *rests))
        return {cell: seconds - max(idle_s, 0.0) for cell, seconds in warm_ups.items()}

    def _measured_slowness(self) -> float:
        """Time ÷ declared time, median of launches that are long enough to tell; 1 without any."""
        declared = {cell: self._declared(cell) for cell in self._seconds}
        ratios = [
            self._seconds[cell] / seconds
            for cell, seconds in declared.items()
            if seconds >= _TELLING_S
        ]
        return statistics.median(ratios) if ratios else 1.0

    def _undeclared(self) -> float:
        """Least of what launches take beyond their declared work; 0 without any."""
        rests = (s - self.slowness * self._declared(cell) for cell, s in self._seconds.items())
        return max(min(rests, default=0.0), 0.0)

    def _declared(self, cell: str) -> float:
        return launch_seconds(self.work(self._problem_of[cell]))

    def work(self, problem: str) -> Work:
        """FLOPs and bytes that are declared of a launch at a problem; 0 where none are."""
        return self._work.get(problem, Work(0.0, 0.0))

    def of(self, cell: str) -> float:
        """Seconds of a launch of a cell; 0 where nothing tells."""
        if cell in self._seconds:
            return self._seconds[cell]
        return self._common_s + self.slowness * self._declared(cell)
