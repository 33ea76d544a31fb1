"""One number of a cell with everything around it."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

NAN = float("nan")

NumberSource = Literal["blocks", "final"]
BLOCKS: NumberSource = "blocks"
"""Source of a number: the blocks in which every cell was measured."""
FINAL: NumberSource = "final"
"""Source of a number: the blocks in which the finalists were measured again."""


class Value(NamedTuple):
    """One metric of one cell; NaN where there is none.

    A tuple, because a report makes one for each cell and metric, and columns of them. It is in
    `summary.json` as it stands here.
    """

    n: int = 0
    """blocks"""
    median: float = NAN
    mean: float = NAN
    min: float = NAN
    max: float = NAN
    low: float = NAN
    """95 % interval of the median"""
    high: float = NAN
    baseline_median: float = NAN
    """of the baseline at this problem, in the same session and blocks"""
    ratio: float = NAN
    """median by baseline_median"""
    ratio_low: float = NAN
    """95 % interval, of the ratios paired by block"""
    ratio_high: float = NAN
    rank: float = NAN
    """1 is best in its problem; null without a direction"""
    source: NumberSource = BLOCKS

    @property
    def present(self) -> bool:
        """Whether there is a number at all."""
        return math.isfinite(self.median)


NOTHING = Value()
