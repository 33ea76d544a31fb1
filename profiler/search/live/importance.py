"""Importance of parameters by permutation, over a model of what a search measured.

The model is kernel ridge regression on the logs of the ratios: its kernel is a product over the
parameters, so that it also knows how they act together. The importance of a parameter is how much
the model's predictions change when that parameter's values are dealt out anew among the
configurations. Optuna's own evaluators need scikit-learn (fANOVA), or compare only the quickest
with the rest (PED-ANOVA).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.search.space import Parameter, Value

FEWEST = 12
"""Measured configurations from which on a model is made."""
FEWEST_EXPLAINED = 0.3
"""Share of the variance that the model must predict of configurations that it was not told of."""
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
_PERMUTATIONS = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """How much each parameter matters, and how far that can be believed."""

    explained: float
    """Share of the variance that the model predicts of a configuration left out of it."""
    shares: Mapping[str, float]
    """By parameter, largest first; they add up to 1. Empty where the model explains too little."""


def parameter_importance(
    parameters: Mapping[str, Sequence[Value]],
    configurations: Sequence[Mapping[str, Value]],
    values: Sequence[float],
) -> Importance | None:
    """Importance of each parameter that differs; None where too little was measured."""
    target = np.asarray(values, dtype=np.float64)
    if len(target) < FEWEST or float(target.std()) == 0:
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
        parameter.name: _change(similarities, codes, weights, number)
        for number, parameter in enumerate(free)
    }
    total = sum(changes.values())
    shares = sorted(changes.items(), key=lambda item: -item[1])
    return Importance(explained, {name: change / total for name, change in shares} if total else {})


def _similarities(parameter: Parameter) -> Floats:
    """1 for the same value down to 0 for the farthest, of each pair of values."""
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


def _change(
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
