"""Strategies by name, and the history of a search that they read.

The default is expected improvement by a Gaussian process, in a portfolio with random draws.

The kernel and its use are a few dozen lines over SciPy: Optuna's sampler of this kind needs torch,
and cannot be limited to valid configurations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from profiler.errors import UsageError
from profiler.search import REMOVED_STRATEGIES
from profiler.search.gaussian_process import (
    Floats,
    GaussianProcess,
    standardised_logs,
)
from profiler.search.space import Configurations, SearchSpace

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


class SearchHistory:
    """Values by configuration; smaller is better. A proposal is seen before its value comes."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.seen = np.zeros(len(space), dtype=bool)
        self.values = np.full(len(space), np.nan)
        """NaN without a value so far, infinity for a failed configuration."""
        self.best: int | None = None
        self.unseen_count = len(space)
        self.random_draws: set[int] = set()
        """Configurations that were drawn from all unseen ones with equal chances."""

    def mark_proposed(self, configuration: int) -> None:
        """Mark a configuration as proposed."""
        if not self.seen[configuration]:
            self.seen[configuration] = True
            self.unseen_count -= 1

    def mark_random_draw(self, configuration: int) -> None:
        """Mark a configuration as proposed, independently of results and values."""
        self.mark_proposed(configuration)
        self.random_draws.add(configuration)

    def tell(self, configuration: int, value: float | None) -> None:
        """Record the value of a configuration; None: it failed."""
        self.mark_proposed(configuration)
        self.values[configuration] = np.inf if value is None else value
        if value is not None and value < self.best_value:
            self.best = configuration

    @property
    def best_value(self) -> float:
        """Smallest value; infinity without values."""
        return float("inf") if self.best is None else float(self.values[self.best])

    def unseen(self, configurations: Configurations) -> Configurations:
        """Given configurations that were not proposed yet."""
        unseen: Configurations = configurations[~self.seen[configurations]]
        return unseen


WARP = 32
"""Threads of a warp: a parameter of at least so many counts threads, or their shared data."""
DRAWS = 8
"""Random configurations of which the one with the best aligned sizes is proposed."""


Strategy = Iterator[int]
"""Configurations that are valid and were not proposed before, by a history's values.

Several proposals may be drawn before a value comes. The history may hold values of other
configurations: a baseline, or results of an earlier search. The next proposal is drawn only where a
configuration is unseen.
"""


def exhaustive(history: SearchHistory, _: np.random.Generator) -> Strategy:
    """Every configuration, in the order of the space."""
    first = 0
    while True:
        while history.seen[first]:
            first += 1
        history.mark_proposed(first)
        yield first


def random_search(history: SearchHistory, rng: np.random.Generator) -> Strategy:
    """Configurations in random order, each once."""
    for configuration in rng.permutation(len(history.space)).tolist():
        if not history.seen[configuration]:
            history.mark_random_draw(configuration)
            yield configuration


def aligned_sizes(history: SearchHistory, rng: np.random.Generator) -> Strategy:
    """Proposals by sizes alone: of a few random ones, the one whose sizes 2 divides most often.

    Warps, vectors, banks and sectors are powers of two: a size with many factors of two fills them.
    Among equal sizes the choice is random.
    """
    factors = _factors_of_two(history.space)
    while True:
        unseen = np.flatnonzero(~history.seen)
        drawn = rng.choice(unseen, min(DRAWS, len(unseen)), replace=False)
        configuration = int(drawn[np.argmax(factors[drawn])])
        history.mark_proposed(configuration)
        yield configuration


def _factors_of_two(space: SearchSpace) -> NDArray[np.int64]:
    """Number of factors of 2 in all large sizes together, by configuration."""
    total = np.zeros(len(space), dtype=np.int64)
    for number, parameter in enumerate(space.parameters):
        factors, largest = parameter.factors_of_two, parameter.values[-1]
        if factors is not None and isinstance(largest, int | float) and largest >= WARP:
            total += factors[space.codes[:, number]]
    return total


MOST_CANDIDATES = 3000
"""Number of unseen configurations that are compared, drawn at each fit, beside neighbours of the
best."""
MOST_OBSERVATIONS = 200
"""Most observations of a model: half of them the best, the others drawn at random."""
CENTRES = 5
"""Number of the best whose neighbours are candidates."""
FIRST_FIT = 5
"""Observations from which on lengths and variances are fitted."""
GROWTH, MOST_ADDED = 0.1, 20
"""Share of added observations, and their number, after which the model is fitted again."""


@cache
def _thread_pools() -> ThreadpoolController:
    """Thread pools of SciPy's and NumPy's BLAS.

    One thread is faster here: matrices have a few hundred rows, more threads wait for each other,
    and builds and measurements need the cores.
    """
    names = set(os.environ)
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - it sets a variable of OpenMP

    for name in set(os.environ) - names:  # such variables are in the keys of cells
        del os.environ[name]
    return ThreadpoolController()


class ModelSearch:
    """Proposes where the expected improvement of the logarithm is largest."""

    def __init__(self, history: SearchHistory, rng: np.random.Generator) -> None:
        self._history = history
        self._rng = rng
        self._model = GaussianProcess(history.space)
        self._observed: list[int] = []
        self._is_observed = np.zeros(len(history.space), dtype=bool)
        self._candidates: Configurations = np.empty(0, dtype=np.int64)
        self._until = 0
        """Number of observations at which the model is fitted again."""

    def __iter__(self) -> Strategy:
        return self

    def __next__(self) -> int:
        """The most promising candidate; any unseen configuration while nothing has a value."""
        if self._history.best is None:
            configuration = int(self._rng.choice(np.flatnonzero(~self._history.seen)))
        else:
            with _thread_pools().limit(limits=1, user_api="blas"):
                configuration = self._most_promising()
        self._history.mark_proposed(configuration)
        return configuration

    def _most_promising(self) -> int:
        new_observations = np.flatnonzero(self._history.seen & ~self._is_observed)
        is_outdated = len(self._observed) + len(new_observations) > self._until
        if is_outdated or self._history.seen[self._candidates].all():
            self._refit()
        else:
            for configuration in new_observations.tolist():
                self._model.add(configuration)
            self._observed += new_observations.tolist()
            self._is_observed[new_observations] = True
        values = standardised_logs(self._history.values[self._observed])
        means, deviations = self._model.predict(values)
        gains = log_expected_improvement(means, deviations, float(np.nanmin(values)))
        gains[self._history.seen[self._candidates]] = -np.inf
        return int(self._candidates[np.argmax(gains)])

    def _refit(self) -> None:
        """Fit the model again and draw candidates."""
        values = self._history.values
        observed = np.flatnonzero(self._history.seen)
        self._is_observed[observed] = True
        ranked = observed[np.argsort(values[observed], kind="stable")]
        if len(observed) > MOST_OBSERVATIONS:
            best, worse = np.split(ranked, [MOST_OBSERVATIONS // 2])
            drawn = self._rng.choice(worse, MOST_OBSERVATIONS - len(best), replace=False)
            observed = np.concatenate([best, drawn])
        self._observed = observed.tolist()
        measured = observed[~np.isnan(values[observed])]
        if len(measured) >= FIRST_FIT:
            self._model.fit(measured, standardised_logs(values[measured]))
        self._candidates = self._draw(ranked[:CENTRES])
        most_added = min(int(GROWTH * len(observed)), MOST_ADDED)
        self._until = len(observed) + most_added
        self._model.start(observed, self._candidates, most_added)

    def _draw(self, centres: Configurations) -> Configurations:
        unseen = np.flatnonzero(~self._history.seen)
        if len(unseen) <= MOST_CANDIDATES:
            return unseen
        neighbours = [self._history.space.neighbours(int(centre)) for centre in centres]
        near = self._history.unseen(np.concatenate(neighbours))
        drawn = self._rng.choice(unseen, MOST_CANDIDATES, replace=False)
        candidates: Configurations = np.union1d(drawn, near)
        return candidates


def log_expected_improvement(means: Floats, deviations: Floats, best: float) -> Floats:
    """Log of the mean of max(best - value, 0) for normal values: it ranks unlikely ones, too."""
    z = (best - means) / deviations
    near = np.maximum(z, -5.0)
    density = np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi)
    gains = np.log(density + near * ndtr(near))
    # For z far below 0 it is density / z^2, whose log needs no exponential; made continuous at -5.
    tail = -(z**2) / 2 - 2 * np.log(np.maximum(-z, 1.0))
    tail_at_5 = -12.5 - 2 * np.log(5.0)
    logs: Floats = np.log(deviations) + np.where(z < -5.0, gains + tail - tail_at_5, gains)
    return logs


ALIGNED = 2
"""Proposals by their sizes alone, before there is a result."""
EARLY = 9
"""Number of the model's proposals after these. In spaces with many good configurations they find
one sooner than random proposals; in rough spaces they cost nothing measurable."""
RANDOM = 20
"""Number of random proposals, without which the model may settle in a worse part of the space."""


def portfolio(history: SearchHistory, rng: np.random.Generator) -> Strategy:
    """Proposals by aligned sizes, the model and random draws at first; then by the model alone."""
    for_random, for_model, for_aligned = rng.spawn(3)
    model = ModelSearch(history, for_model)
    yield from islice(aligned_sizes(history, for_aligned), ALIGNED)
    yield from islice(model, EARLY)
    yield from islice(random_search(history, for_random), RANDOM)
    yield from model


STRATEGIES: Mapping[str, Callable[[SearchHistory, np.random.Generator], Strategy]] = {
    "portfolio": portfolio,
    "model": ModelSearch,
    "random": random_search,
    "exhaustive": exhaustive,
}


def make_strategy(name: str, history: SearchHistory, seed: int) -> Strategy:
    """The strategy of a name; the same seed gives the same proposals to the same values.

    Raises UsageError for another name.
    """
    if name not in STRATEGIES:
        fault = REMOVED_STRATEGIES.get(name, f"there are {', '.join(STRATEGIES)}")
        raise UsageError(f"--strategy {name}: {fault}.")
    return STRATEGIES[name](history, np.random.default_rng(seed))
