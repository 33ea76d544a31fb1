"""One number of a cell with everything around it."""

from __future__ import annotations

import math
from typing import NamedTuple

NAN = float("nan")

BLOCKS = "blocks"
"""Source of a number: the blocks in which every cell was measured."""
FINAL = "final"
"""Source of a number: the blocks in which the finalists were measured again."""


class Value(NamedTuple):
    """One metric of one cell; NaN where there is none.

    A tuple, because a report makes one for each cell and metric, and columns of them.
    """

    n: int = 0
    """Blocks."""
    median: float = NAN
    mean: float = NAN
    min: float = NAN
    max: float = NAN
    low: float = NAN
    high: float = NAN
    """95 % interval of the median."""
    baseline_median: float = NAN
    """Of the baseline at the same problem, in the same session and blocks."""
    ratio: float = NAN
    ratio_low: float = NAN
    ratio_high: float = NAN
    """`median` ÷ `baseline_median`, and the 95 % interval of that."""
    rank: float = NAN
    source: str = BLOCKS

    @property
    def present(self) -> bool:
        """Whether there is a number at all."""
        return math.isfinite(self.median)


NOTHING = Value()
