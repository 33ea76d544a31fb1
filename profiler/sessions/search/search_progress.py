"""Progress of a search on the console: a new best at once, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from profiler.model import Outcome
from profiler.search.live.records import Evaluated
from profiler.search.live.state import LiveSearch
from profiler.sessions.forecasts.duration_words import duration_words
from profiler.sessions.progress import LINE_EVERY_S, FailureLines, ProgressReporter


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

    def __post_init__(self) -> None:
        self._failures = FailureLines(self.reporter)
        self._began = self.clock()
        self._line_at = self._began + LINE_EVERY_S

    def end(self) -> None:
        """Print how many failed without a line."""
        self._failures.end("search")

    def evaluated(self, live: LiveSearch, evaluated: Evaluated, name: str) -> None:
        """Take the result of a configuration that the search has taken."""
        self._made += 1
        count = f"{len(live.record.evaluations)}/{self.evaluations or '…'}"
        where = f" on {evaluated.worker}" if evaluated.worker else ""
        if evaluated.outcome is not Outcome.MEASURED:
            head = f"[{count}] {name}  FAILED {evaluated.outcome}{where}: "
            self._failures.say(head, evaluated.cause)
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
        self._line_at = self.clock() + LINE_EVERY_S

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
