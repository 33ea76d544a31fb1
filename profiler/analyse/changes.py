"""Comparisons without a test: static facts, means of ratios."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ExactChange:
    """A static fact on both sides: registers, shared memory, instructions. None is not known."""

    before: float | None
    after: float | None
    difference: float | None
    ratio: float | None
    """None also where it was 0 before."""

    @property
    def changed(self) -> bool | None:
        """Whether the two differ at all; None where one is not known."""
        return None if self.difference is None else self.difference != 0


def exact_change(before: float | None, after: float | None) -> ExactChange:
    """Difference and ratio of a fact that does not scatter. NaN counts as not known."""
    before, after = _finite(before), _finite(after)
    if before is None or after is None:
        return ExactChange(before, after, None, None)
    return ExactChange(before, after, after - before, after / before if before else None)


def _finite(value: float | None) -> float | None:
    """The value; None for NaN."""
    return None if value is None or np.isnan(value) else value


@dataclass(frozen=True)
class MeanRatio:
    """Geometric mean of ratios, with the smallest and the largest of them."""

    mean: float
    smallest: float
    largest: float
    count: int


def mean_ratio(ratios: Iterable[float]) -> MeanRatio | None:
    """Geometric mean of the ratios that are positive; None without any."""
    positive = [ratio for ratio in ratios if ratio > 0]
    if not positive:
        return None
    mean = float(np.exp(np.mean(np.log(positive))))
    return MeanRatio(mean, min(positive), max(positive), len(positive))
