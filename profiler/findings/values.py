"""One number of a summary with everything around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAN = float("nan")


@dataclass(frozen=True)
class Value:
    """One metric of one cell, as in the summary; NaN where there is none."""

    n: int = 0
    median: float = NAN
    mean: float = NAN
    min: float = NAN
    max: float = NAN
    low: float = NAN
    high: float = NAN
    ratio: float = NAN
    ratio_low: float = NAN
    ratio_high: float = NAN
    rank: float = NAN

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return math.isfinite(self.median)


NOTHING = Value()
