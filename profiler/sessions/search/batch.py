"""A batch of a search on one GPU: the incumbent first, then each candidate beside the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiler.model import Outcome
from profiler.search.live.noise import Estimate, Noise, block_values, estimate
from profiler.search.live.records import Evaluated
from profiler.sessions.search.bench import Bench, Subject
from profiler.sessions.search.evaluator import LogRatios, evaluate, look_again


@dataclass
class BestHere:
    """The best of a batch: candidates are compared with what the same GPU measured."""

    objective: str
    noise: Noise
    """Noise of the whole search."""
    _best: Estimate | None = None

    def take(self, variant: str, log_ratios: LogRatios) -> None:
        """Take what was measured of a variant."""
        if values := block_values(log_ratios, self.objective):
            measured = estimate(variant, [values], self.noise)
            if self._best is None or measured.value < self._best.value:
                self._best = measured

    def is_ahead(self, log_ratios: LogRatios) -> bool:
        """Whether a candidate of which these blocks were measured is clearly behind."""
        values = block_values(log_ratios, self.objective)
        if self._best is None or not values:
            return False
        return estimate("", [values], self.noise).is_behind(self._best)


def evaluate_batch(  # noqa: PLR0913 - all but the first by keyword
    bench: Bench,
    *,
    incumbent: Subject | None,
    candidates: Sequence[Subject],
    best: BestHere,
    on_look: Callable[[LogRatios], None],
    on_evaluated: Callable[[Evaluated], None],
) -> None:
    """Measure a batch; each result is given on as soon as it is there."""
    if incumbent is not None:
        looked = look_again(bench, incumbent)
        if looked is not None:
            best.take(incumbent.variant, looked)
            on_look(looked)
    for candidate in candidates:
        evaluated = evaluate(bench, candidate, best.is_ahead)
        if evaluated.outcome is Outcome.MEASURED:
            best.take(candidate.variant, evaluated.log_ratios)
        on_evaluated(evaluated)
