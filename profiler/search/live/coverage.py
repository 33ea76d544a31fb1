"""How sure it is that a search missed nothing much better: from its random proposals alone."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.search.live.records import SearchRecord

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Coverage:
    """What was tried, and what may have been missed."""

    configurations: int
    tried: int
    random_draws: int
    """Tried configurations that were drawn at random."""
    better_share: float | None
    """With CONFIDENCE, the share of all configurations that are better than the best found is below
    this; None where nothing was drawn at random. 0 where all were tried."""

    @property
    def untried(self) -> int:
        """Configurations that were never tried."""
        return self.configurations - self.tried


def coverage(record: SearchRecord) -> Coverage:
    """What a search tried, and what its random draws say of the rest.

    Where a share p of all configurations is better than the best of n random draws, the chance of
    drawing none of them is at most (1 - p)^n. What else was tried only makes the best better.
    """
    tried = {evaluated.variant for evaluated in record.evaluations}
    count = len(record.random_draws & tried)
    untried_share = max(0.0, 1 - len(tried) / record.terms.configurations)
    share = None if untried_share else 0.0
    if count:
        share = min(1 - (1 - CONFIDENCE) ** (1 / count), untried_share)
    return Coverage(record.terms.configurations, len(tried), count, share)
