"""What a search says while it goes on: a new best at once, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from profiler.model import Outcome
from profiler.search.live.records import Evaluated
from profiler.search.live.state import LiveSearch
from profiler.sessions.forecasts.duration_words import duration_words
from profiler.sessions.progress import ProgressReporter

_LINE_EVERY_S = 5.0
_MOST_FAILURES = 10
"""Failed configurations with a line of their own: all of them stand in the results."""
_MOST_CAUSE = 160
"""Letters of a cause in such a line."""


@dataclass
class SearchProgress:
    """Prints how far a search is; of every evaluation only where `-v` asks for it."""

    reporter: ProgressReporter
    evaluations: int | None
    """The budget, or the seconds where it is a time."""
    seconds: float | None
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _line_at: float = field(init=False)
    _made: int = 0
    """Evaluations of this process."""
    _failed: int = 0

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._line_at = self._began + _LINE_EVERY_S

    def evaluated(self, live: LiveSearch, evaluated: Evaluated, name: str) -> None:
        """Take the result of a configuration that the search has taken."""
        self._made += 1
        count = f"{len(live.record.evaluations)}/{self.evaluations or '…'}"
        where = f" on {evaluated.worker}" if evaluated.worker else ""
        if evaluated.outcome is not Outcome.MEASURED:
            self._say_failed(f"[{count}] {name}  FAILED {evaluated.outcome}{where}", evaluated)
            return
        best = live.best()
        is_best = best is not None and best.variant == evaluated.variant
        if is_best or self.reporter.verbose:
            ratio = f"{live.estimate_of(evaluated.variant).ratio:.3f} x baseline{where}"
            behind = ", stopped early" if evaluated.stopped_early else ""
            leads = ", the best so far" if is_best else ""
            self.reporter.say(f"[{count}] {name}  {ratio}{behind}{leads}")
        elif self.clock() >= self._line_at:
            best_words = "" if best is None else f", best {best.ratio:.3f} x baseline"
            self.reporter.say(f"search: {count} evaluations{self._pace(live)}{best_words}")
        else:
            return
        self._line_at = self.clock() + _LINE_EVERY_S

    def _say_failed(self, head: str, evaluated: Evaluated) -> None:
        self._failed += 1
        if self._failed > _MOST_FAILURES and not self.reporter.verbose:
            if self._failed == _MOST_FAILURES + 1:
                self.reporter.say("search: more configurations fail; the results tell why")
            return
        cause = evaluated.cause.splitlines()[0] if evaluated.cause else ""
        cut = cause if len(cause) <= _MOST_CAUSE else f"{cause[: _MOST_CAUSE - 1]}…"
        self.reporter.say(f"{head}: {cut}")

    def _pace(self, live: LiveSearch) -> str:
        """Rate and time left, by the evaluations of this process."""
        elapsed = self.clock() - self._began
        if elapsed <= 0:
            return ""
        rate = self._made / elapsed
        if self.evaluations:
            left = max(self.evaluations - len(live.record.evaluations), 0) / rate
        else:
            left = max((self.seconds or 0.0) - elapsed, 0.0)
        return f", {rate:.1f}/s, about {duration_words(left)} left"
