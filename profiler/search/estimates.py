"""Values of configurations with their noise: which are behind, finalists, and coverage.

A value is a mean of logs of ratios: time divided by the baseline's in the same block. It varies
from block to block, and from look to look: clocks and temperature change within minutes. Both
variances are estimated, the second one from repeated looks at the best.

The importance of parameters comes from kernel ridge regression on the logs of the ratios, whose
kernel is a product over the parameters, so that it knows how they act together. A parameter is as
important as the predictions change when its values are permuted among the configurations.
Optuna's own evaluators need scikit-learn (fANOVA), or compare only the quickest with the rest
(PED-ANOVA).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.search.journal import SearchRecord
from profiler.search.space import Parameter, Value

GEOMEAN, WORST = "geomean", "worst"
PRIOR_WITHIN, PRIOR_BETWEEN = 0.02, 0.01
"""Standard deviations that are assumed until there are enough to estimate them from: an attention
kernel under CUDA events varied by 1 to 2 % from launch to launch on an H200."""
PRIOR_WEIGHT = 4
"""Degrees of freedom that an assumption counts for beside the measurements."""
BEHIND_ERRORS = 3.0
"""Standard errors of a difference from which on a configuration is clearly behind."""
INTERVAL_ERRORS = 1.96
"""Half of a 95 % interval."""

LogRatios = Mapping[str, Sequence[float]]


def block_values(log_ratios: LogRatios, objective: str) -> tuple[float, ...]:
    """Value of each block: mean or largest over the problems, or the value of one problem."""
    columns = list(log_ratios.values())
    if not columns:
        return ()
    combine = max if objective == WORST else statistics.fmean
    return tuple(combine(block) for block in zip(*columns, strict=False))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of values, in logs."""

    within: float
    """Standard deviation from block to block."""
    between: float
    """Standard deviation from look to look, beyond the deviation of blocks."""
    repeated_looks: int
    """Number of later looks at the best, which `between` comes from."""

    def error(self, looks: Sequence[Sequence[float]]) -> float:
        """Standard error of the mean of all blocks of looks."""
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

    def is_behind(self, best: Estimate, errors: float = BEHIND_ERRORS) -> bool:
        """Whether it is slower than the best by more than so many errors of their difference."""
        reserve = errors * math.hypot(self.error, best.error)
        return self.value - best.value > reserve


def looks_by_variant(record: SearchRecord) -> dict[str, list[tuple[float, ...]]]:
    """Values of the blocks of each look, by measured variant."""
    objective = record.terms.objective
    looks: dict[str, list[tuple[float, ...]]] = {}
    pairs = [(evaluated.variant, evaluated.log_ratios) for evaluated in record.evaluations]
    pairs += [(look.variant, look.log_ratios) for look in record.looks]
    for variant, log_ratios in pairs:
        if values := block_values(log_ratios, objective):
            looks.setdefault(variant, []).append(values)
    return looks


def estimate_noise(looks: Mapping[str, Sequence[Sequence[float]]]) -> Noise:
    """Noise of the looks at variants; assumptions count as a few measurements."""
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
    """Estimates by id of the measured variants."""
    looks = looks_by_variant(record)
    noise = estimate_noise(looks)
    return {variant: estimate(variant, values, noise) for variant, values in looks.items()}


def estimate(variant: str, looks: Sequence[Sequence[float]], noise: Noise) -> Estimate:
    """Estimate of one variant from its looks."""
    values = [value for look in looks for value in look]
    return Estimate(variant, statistics.fmean(values), noise.error(looks))


def is_behind(log_ratios: LogRatios, best: Estimate | None, objective: str, noise: Noise) -> bool:
    """Whether a configuration with these blocks is clearly behind the best."""
    values = block_values(log_ratios, objective)
    return best is not None and bool(values) and estimate("", [values], noise).is_behind(best)


FEWEST, MOST = 3, 8
"""Finalists by the objective. The quickest at single problems come on top."""
_FINALIST_ERRORS = 2.0
"""Standard errors of a difference up to which a configuration may be the best."""


def finalists(record: SearchRecord) -> tuple[str, ...]:
    """Ids of the variants to confirm, the best by the search first.

    The variants that may be the best, at least FEWEST and at most MOST, and the quickest at each
    problem.
    """
    ranked = sorted(estimates(record).values(), key=lambda estimate: estimate.value)
    if not ranked:
        return ()
    near = sum(not estimate.is_behind(ranked[0], _FINALIST_ERRORS) for estimate in ranked)
    count = min(max(near, FEWEST), MOST)
    first = [estimate.variant for estimate in ranked[:count]]
    return tuple(dict.fromkeys((*first, *_quickest_at_problems(record))))


def _quickest_at_problems(record: SearchRecord) -> Iterator[str]:
    """The variant with the smallest mean ratio at each problem."""
    for problem in record.terms.problems:
        means = {
            evaluation.variant: statistics.fmean(evaluation.log_ratios[problem])
            for evaluation in record.evaluations
            if evaluation.log_ratios.get(problem)
        }
        if means:
            yield min(means, key=means.__getitem__)


CONFIDENCE = 0.95


@dataclass(frozen=True)
class Coverage:
    """Tried configurations, and the share that may be better than the best."""

    configurations: int
    tried: int
    random_draws: int
    """Number of tried configurations that were drawn at random."""
    better_share: float | None
    """With CONFIDENCE, the share of all configurations that are better than the best found is below
    this; None without random draws, 0 where all were tried."""

    @property
    def untried(self) -> int:
        """Number of configurations that were never tried."""
        return self.configurations - self.tried

    @property
    def most_better(self) -> int:
        """Largest number of untried configurations that are better, with CONFIDENCE."""
        share = 1.0 if self.better_share is None else self.better_share
        return min(self.untried, math.floor(share * self.configurations + 1e-9))


def coverage(record: SearchRecord) -> Coverage:
    """Coverage of a search: its tried configurations, and a bound by its random draws.

    Where a share p of all configurations is better than the best of n random draws, the chance of
    drawing none of them is at most (1 - p)^n. Other proposals only make the best better.
    """
    tried_variants = {evaluated.variant for evaluated in record.evaluations}
    count = len(record.random_draws & tried_variants)
    untried_share = max(0.0, 1 - len(tried_variants) / record.terms.configurations)
    share = None if untried_share else 0.0
    if count:
        share = min(1 - (1 - CONFIDENCE) ** (1 / count), untried_share)
    return Coverage(record.terms.configurations, len(tried_variants), count, share)


FEWEST_MEASURED = 12
"""Measured configurations from which on a model is made."""
FEWEST_EXPLAINED = 0.3
"""Share of the variance of left-out configurations that the model must predict."""
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
_PERMUTATIONS = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Importance of each parameter, and the share of variance that the model explains."""

    explained: float
    """Share of the variance that the model predicts for left-out configurations."""
    shares: Mapping[str, float]
    """Shares by parameter, largest first, with sum 1. Empty where the model explains too little."""


def parameter_importance(
    parameters: Mapping[str, Sequence[Value]],
    configurations: Sequence[Mapping[str, Value]],
    values: Sequence[float],
) -> Importance | None:
    """Importance of each parameter with several values; None with too few measurements."""
    target = np.asarray(values, dtype=np.float64)
    if len(target) < FEWEST_MEASURED or float(target.std()) == 0:
        return None
    free = [Parameter.of(name, values) for name, values in parameters.items() if len(values) > 1]
    codes = np.array(
        [[p.values.index(config[p.name]) for p in free] for config in configurations], dtype=int
    )
    similarities = [_similarities(parameter) for parameter in free]
    kernel = _kernel(similarities, codes, codes)
    weights, explained = _fitted(kernel, target - target.mean())
    if explained < FEWEST_EXPLAINED:
        return Importance(explained, {})
    changes = {
        parameter.name: _prediction_change(similarities, codes, weights, number)
        for number, parameter in enumerate(free)
    }
    total = sum(changes.values())
    shares = sorted(changes.items(), key=lambda item: -item[1])
    return Importance(explained, {name: change / total for name, change in shares} if total else {})


def _similarities(parameter: Parameter) -> Floats:
    """Similarity of each pair of values: 1 for the same value down to 0 for the farthest."""
    rows = [1 - parameter.distances(code) for code in range(len(parameter.values))]
    return np.asarray(rows, dtype=np.float64)


def _kernel(
    similarities: Sequence[Floats], rows: NDArray[np.int_], columns: NDArray[np.int_]
) -> Floats:
    product = np.ones((len(rows), len(columns)))
    for number, similarity in enumerate(similarities):
        product *= (1 + similarity[np.ix_(rows[:, number], columns[:, number])]) / 2
    return product


def _fitted(kernel: Floats, target: Floats) -> tuple[Floats, float]:
    """Weights of the ridge that predicts left-out configurations best, and its share explained."""
    best_weights, best_explained = np.zeros_like(target), -np.inf
    identity = np.eye(len(target))
    for ridge in _RIDGES:
        inverse = np.linalg.inv(kernel + ridge * identity)
        weights = inverse @ target
        left_out = weights / np.diag(inverse)  # error at each one without it, in closed form
        explained = 1 - float(np.mean(left_out**2) / np.mean(target**2))
        if explained > best_explained:
            best_weights, best_explained = weights, explained
    return best_weights, best_explained


def _prediction_change(
    similarities: Sequence[Floats], codes: NDArray[np.int_], weights: Floats, number: int
) -> float:
    """Mean squared change of the predictions where the values of one parameter are permuted."""
    rng = np.random.default_rng(number)
    before = _kernel(similarities, codes, codes) @ weights
    changes = []
    for _ in range(_PERMUTATIONS):
        permuted = codes.copy()
        permuted[:, number] = rng.permutation(permuted[:, number])
        after = _kernel(similarities, permuted, codes) @ weights
        changes.append(float(np.mean((after - before) ** 2)))
    return float(np.mean(changes))
