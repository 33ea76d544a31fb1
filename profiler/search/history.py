"""What a search has proposed and what came of it, and the strategies that look at no result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from profiler.search.space import Configurations, SearchSpace


class History:
    """Values by configuration; smaller is better. A proposed one is seen before its value is."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.seen = np.zeros(len(space), dtype=bool)
        self.values = np.full(len(space), np.nan)
        """NaN where nothing was told yet, infinity where the configuration failed."""
        self.best: int | None = None
        self.unseen_count = len(space)
        self.random_draws: set[int] = set()
        """Configurations that were drawn from all unseen ones with the same chance for each."""

    def see(self, configuration: int) -> None:
        """Mark a configuration as proposed."""
        if not self.seen[configuration]:
            self.seen[configuration] = True
            self.unseen_count -= 1

    def see_random_draw(self, configuration: int) -> None:
        """Mark a configuration as proposed, and that no result or value had a say in it."""
        self.see(configuration)
        self.random_draws.add(configuration)

    def tell(self, configuration: int, value: float | None) -> None:
        """Record the value of a configuration; None: it failed."""
        self.see(configuration)
        self.values[configuration] = np.inf if value is None else value
        if value is not None and value < self.best_value:
            self.best = configuration

    @property
    def best_value(self) -> float:
        """Smallest value; infinity where there is none."""
        return float("inf") if self.best is None else float(self.values[self.best])

    def unseen(self, configurations: Configurations) -> Configurations:
        """Configurations, of the given ones, that were not proposed yet."""
        unseen: Configurations = configurations[~self.seen[configurations]]
        return unseen


WARP = 32
"""Threads of a warp: a parameter that reaches this counts threads, or what they share."""
DRAWS = 8
"""Random configurations of which the one with the best aligned sizes is proposed."""


class Exhaustive:
    """Every configuration, in the order of the space."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        del rng  # there is one order
        self._history = history
        self._next = 0

    def ask(self) -> int:
        """The first unseen configuration."""
        while self._history.seen[self._next]:
            self._next += 1
        self._history.see(self._next)
        return self._next


class RandomSearch:
    """Configurations in random order, each once."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self._history = history
        self._order = iter(rng.permutation(len(history.space)).tolist())

    def ask(self) -> int:
        """The next unseen configuration of a random order."""
        configuration: int = next(c for c in self._order if not self._history.seen[c])
        self._history.see_random_draw(configuration)
        return configuration


class AlignedSizes:
    """Proposals by sizes alone: of a few random ones that whose large sizes two divides most often.

    Warps, vectors, banks and sectors are powers of two: a size with many factors of two fills them.
    """

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self._history = history
        self._rng = rng
        self._factors = _factors_of_two(history.space)

    def ask(self) -> int:
        """The unseen configuration of those drawn; where sizes are equal, any of them."""
        unseen = np.flatnonzero(~self._history.seen)
        drawn = self._rng.choice(unseen, min(DRAWS, len(unseen)), replace=False)
        configuration = int(drawn[np.argmax(self._factors[drawn])])
        self._history.see(configuration)
        return configuration


def _factors_of_two(space: SearchSpace) -> NDArray[np.int64]:
    """How often 2 divides the large sizes of each configuration, all of them together."""
    total = np.zeros(len(space), dtype=np.int64)
    for number, parameter in enumerate(space.parameters):
        factors, largest = parameter.factors_of_two, parameter.values[-1]
        if factors is not None and isinstance(largest, int | float) and largest >= WARP:
            total += factors[space.codes[:, number]]
    return total
