"""Gaussian process over the configurations of a space: mean and uncertainty of unmeasured ones.

Matérn 5/2 kernel with a length for each property of the values, and a nugget: the variance that
each configuration has of its own, which its neighbours do not predict. Cliffs, bank conflicts and
occupancy make a tuning space rough, while measured values repeat well, so that the nugget is no
noise of measurements: it counts as uncertainty of unmeasured configurations. Else an optimum whose
neighbours are slow is predicted to be slow, and never tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts are imported where they are used: reports need none of them
from numpy.typing import NDArray

from profiler.search.space import Codes, Configurations, Parameter, SearchSpace

Floats = NDArray[np.float64]

LOG_NUGGET, LOG_NUGGET_SPREAD = -1.5, 0.3
"""Prior of the log of the nugget, by mean and standard deviation: a quarter to a fifth of the
variance of all values. Left free, it is estimated too low from a few dozen configurations."""
LOG_SPREAD = 1.5
"""Standard deviation of the prior of the other logs: parameters differ much in their effect."""
FIT_STEPS = 10
"""Steps of one fit: the next fit starts from its result."""
JITTER = 1e-8
_BOUND = 7.0


def _properties(parameter: Parameter) -> list[Floats]:
    """Coordinates of each value, 0 to 1: its rank, and by how often 2 divides it.

    Widths of warps, vectors and banks are powers of two: 96 and 128 have something in common that
    100 lacks.
    """
    count = len(parameter.values)
    if not parameter.is_ordered:
        return [np.eye(count) / np.sqrt(2)]
    properties = [np.arange(count, dtype=np.float64)]
    factors = parameter.factors_of_two
    if factors is not None:
        properties.append(factors.astype(np.float64))
    return [
        (column / np.ptp(column) - column.min() / np.ptp(column))[:, None]
        for column in properties
        if np.ptp(column)
    ]


class GaussianProcess:
    """Gaussian process that is conditioned step by step, for a fixed set of candidates."""

    def __init__(self, space: SearchSpace) -> None:
        self._codes = space.codes
        self._tables = [
            (number, table)
            for number in space.free
            for table in _properties(space.parameters[number])
        ]
        """Numbers of parameters, and coordinates of their values: each table has a length."""
        self._groups = np.repeat(
            np.arange(len(self._tables)), [table.shape[1] for _, table in self._tables]
        )
        self._logs = np.zeros(len(self._tables) + 2)
        """Logs of the inverse squared lengths, of the smooth variance, and of the nugget."""
        self._logs[-1] = LOG_NUGGET
        self._observations = np.empty((0, 0))
        self._lower = np.empty((0, 0))
        self._candidates = np.empty((0, 0))
        self._projected = np.empty((0, 0))
        self._variances = np.empty(0)

    def fit(self, configurations: Configurations, values: Floats) -> None:
        """Move lengths and variances towards the most probable ones, by a few steps."""
        rows = self._coordinates(configurations)
        squares = np.zeros((len(self._tables), len(rows), len(rows)))
        for column, group in zip(rows.T, self._groups, strict=True):
            squares[group] += (column[:, None] - column[None]) ** 2
        result = scipy.optimize.minimize(
            _negative_log_posterior,
            self._logs,
            args=(squares.reshape(len(squares), -1), values),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-_BOUND, _BOUND)] * len(self._logs),
            options={"maxiter": FIT_STEPS},
        )
        self._logs = result.x

    def start(self, observed: Configurations, candidates: Configurations, capacity: int) -> None:
        """Condition on observations; `capacity` more of them may be added."""
        count = len(observed)
        self._observations = self._scaled(observed)
        self._candidates = self._scaled(candidates)
        covariance = self._covariance(self._observations, self._observations)
        self._lower = np.zeros((count + capacity, count + capacity))
        self._lower[:count, :count] = scipy.linalg.cholesky(
            covariance + self._nugget * np.eye(count), lower=True, check_finite=False
        )
        self._projected = np.zeros((count + capacity, len(candidates)))
        self._projected[:count] = scipy.linalg.solve_triangular(
            self._lower[:count, :count],
            self._covariance(self._observations, self._candidates),
            lower=True,
            check_finite=False,
        )
        total = self._smooth_variance + self._nugget
        self._variances = total - np.sum(self._projected[:count] ** 2, axis=0)

    def add(self, configuration: int) -> None:
        """Condition on one more observation."""
        count = len(self._observations)
        row = self._scaled(np.array([configuration]))
        projected = scipy.linalg.solve_triangular(
            self._lower[:count, :count],
            self._covariance(self._observations, row)[:, 0],
            lower=True,
            check_finite=False,
        )
        total = self._smooth_variance + self._nugget
        residual = np.sqrt(max(float(total - projected @ projected), JITTER))
        self._lower[count, :count], self._lower[count, count] = projected, residual
        shared = self._covariance(row, self._candidates)[0]
        self._projected[count] = (shared - projected @ self._projected[:count]) / residual
        self._variances -= self._projected[count] ** 2
        self._observations = np.vstack([self._observations, row])

    def predict(self, values: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each candidate; NaN: an observation without a value yet.

        Such an observation counts as predicted, so that only the uncertainty around it shrinks.
        """
        count = len(self._observations)
        innovations = np.zeros(count)
        for i, value in enumerate(values):
            if not np.isnan(value):
                row = self._lower[i]
                innovations[i] = (value - row[:i] @ innovations[:i]) / row[i]
        means: Floats = innovations @ self._projected[:count]
        return means, np.sqrt(np.maximum(self._variances, JITTER))

    @property
    def _smooth_variance(self) -> float:
        return float(np.exp(self._logs[-2]))

    @property
    def _nugget(self) -> float:
        return float(np.exp(self._logs[-1])) + JITTER

    def _coordinates(self, configurations: Configurations) -> Floats:
        """Coordinates by configuration, a row for each."""
        rows: Codes = self._codes[configurations]
        return np.hstack([table[rows[:, number]] for number, table in self._tables])

    def _scaled(self, configurations: Configurations) -> Floats:
        scales = np.exp(self._logs[self._groups] / 2)
        scaled: Floats = self._coordinates(configurations) * scales
        return scaled

    def _covariance(self, rows: Floats, columns: Floats) -> Floats:
        squares = (rows**2).sum(axis=1)[:, None] + (columns**2).sum(axis=1) - 2 * rows @ columns.T
        distances = np.sqrt(5 * np.maximum(squares, 0))
        covariance: Floats = (1 + distances + distances**2 / 3) * np.exp(-distances)
        return self._smooth_variance * covariance


def _negative_log_posterior(logs: Floats, squares: Floats, values: Floats) -> tuple[float, Floats]:
    """Value and gradient at some hyperparameters; `squares`: squared distances by property."""
    count = len(values)
    weights, smooth, nugget = np.exp(logs[:-2]), np.exp(logs[-2]), np.exp(logs[-1])
    distances = np.sqrt(5 * (weights @ squares).reshape(count, count))
    decay = np.exp(-distances)
    correlation = (1 + distances + distances**2 / 3) * decay
    lower = scipy.linalg.cholesky(
        smooth * correlation + (nugget + JITTER) * np.eye(count), lower=True, check_finite=False
    )
    inverse = scipy.linalg.cho_solve((lower, True), np.eye(count), check_finite=False)
    solved = inverse @ values
    half = (inverse - np.outer(solved, solved)) / 2
    slope = -(5 / 6) * smooth * half * (1 + distances) * decay
    gradient = np.concatenate(
        [
            (squares @ slope.ravel()) * weights,
            [np.sum(half * correlation) * smooth, np.trace(half) * nugget],
        ]
    )
    # Priors: a length as the range of the values, the variance of standardised values.
    expected, spread = np.zeros(len(logs)), np.full(len(logs), LOG_SPREAD)
    expected[-1], spread[-1] = LOG_NUGGET, LOG_NUGGET_SPREAD
    deviations = (logs - expected) / spread
    value = values @ solved / 2 + np.log(np.diag(lower)).sum() + deviations @ deviations / 2
    return float(value), gradient + deviations / spread


def standardised_logs(values: Sequence[float] | Floats) -> Floats:
    """Logs of values with mean 0 and variance 1; infinity counts as the largest, NaN stays."""
    array = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(array)
    largest = array[finite].max()
    logs = np.log(np.maximum(np.where(np.isinf(array), largest, array), np.finfo(float).tiny))
    deviation = np.nanstd(logs)
    standardised: Floats = (logs - np.nanmean(logs)) / (deviation if deviation > 0 else 1.0)
    return standardised
