"""Values of configurations with their noise, and who is clearly behind.

A value is a mean of logs of ratios: time divided by the baseline's in the same block. It varies
from block to block, and from look to look: clocks and temperature are others minutes later. Both
variances are estimated, the second one from repeated looks at the best.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.search.live.records import SearchRecord

GEOMEAN, WORST = "geomean", "worst"
PRIOR_WITHIN, PRIOR_BETWEEN = 0.02, 0.01
"""Standard deviations that are assumed until there are enough to estimate them from: an attention
kernel under CUDA events varied by 1 to 2 % from launch to launch on an H200."""
PRIOR_WEIGHT = 4
"""Degrees of freedom that an assumption counts for beside what was measured."""
BEHIND_ERRORS = 3.0
"""Standard errors of a difference from which on a configuration is clearly behind."""
INTERVAL_ERRORS = 1.96
"""Half of a 95 % interval."""

LogRatios = Mapping[str, Sequence[float]]


def block_values(log_ratios: LogRatios, objective: str) -> tuple[float, ...]:
    """Value of each block: mean over problems, the largest of them, or that of one problem."""
    columns = list(log_ratios.values())
    if not columns:
        return ()
    combine = max if objective == WORST else statistics.fmean
    return tuple(combine(block) for block in zip(*columns, strict=False))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of values, in logs."""

    within: float
    """From block to block."""
    between: float
    """From look to look, beyond what the blocks explain."""
    repeated_looks: int
    """Looks at the best beyond its first, that `between` comes from."""

    def error(self, looks: Sequence[Sequence[float]]) -> float:
        """Standard error of the mean of all blocks of some looks."""
        blocks = sum(map(len, looks))
        if not blocks:
            return math.inf
        return math.sqrt(self.between**2 / len(looks) + self.within**2 / blocks)


@dataclass(frozen=True)
class Estimate:
    """Value of a configuration over all looks at it."""

    variant: str
    value: float
    """Log of the ratio to the baseline."""
    error: float

    @property
    def ratio(self) -> float:
        """Time divided by the baseline's."""
        return math.exp(self.value)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the ratio."""
        half = INTERVAL_ERRORS * self.error
        return math.exp(self.value - half), math.exp(self.value + half)

    def is_behind(self, best: Estimate) -> bool:
        """Whether it is slower than the best by more than the noise of their difference."""
        reserve = BEHIND_ERRORS * math.hypot(self.error, best.error)
        return self.value - best.value > reserve


def looks_by_variant(record: SearchRecord) -> dict[str, list[tuple[float, ...]]]:
    """Values of the blocks of each look at each variant that was measured."""
    objective = record.terms.objective
    looks: dict[str, list[tuple[float, ...]]] = {}
    pairs = [(evaluated.variant, evaluated.log_ratios) for evaluated in record.evaluations]
    pairs += [(look.variant, look.log_ratios) for look in record.looks]
    for variant, log_ratios in pairs:
        if values := block_values(log_ratios, objective):
            looks.setdefault(variant, []).append(values)
    return looks


def estimate_noise(looks: Mapping[str, Sequence[Sequence[float]]]) -> Noise:
    """Noise of the looks at some variants; assumptions count as a few measurements."""
    squares, freedom = PRIOR_WEIGHT * PRIOR_WITHIN**2, float(PRIOR_WEIGHT)
    for values in (values for looks_at_one in looks.values() for values in looks_at_one):
        mean = statistics.fmean(values)
        squares += sum((value - mean) ** 2 for value in values)
        freedom += len(values) - 1
    within = math.sqrt(squares / freedom)
    between_squares, between_freedom = PRIOR_WEIGHT * PRIOR_BETWEEN**2, PRIOR_WEIGHT
    repeated = 0
    for looks_at_one in looks.values():
        means = [statistics.fmean(values) for values in looks_at_one]
        centre = statistics.fmean(means)
        explained = statistics.fmean(within**2 / len(values) for values in looks_at_one)
        if len(means) > 1:
            repeated += len(means) - 1
            excess = sum((mean - centre) ** 2 for mean in means) - explained * (len(means) - 1)
            between_squares += max(excess, 0.0)
            between_freedom += len(means) - 1
    return Noise(within, math.sqrt(between_squares / between_freedom), repeated)


def estimates(record: SearchRecord) -> dict[str, Estimate]:
    """Estimate of each variant that was measured, by its id."""
    looks = looks_by_variant(record)
    noise = estimate_noise(looks)
    return {variant: estimate(variant, values, noise) for variant, values in looks.items()}


def estimate(variant: str, looks: Sequence[Sequence[float]], noise: Noise) -> Estimate:
    """Estimate of one variant from its looks."""
    values = [value for look in looks for value in look]
    return Estimate(variant, statistics.fmean(values), noise.error(looks))
