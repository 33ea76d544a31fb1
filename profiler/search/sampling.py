"""Strategies that look at no result: in order, in random order, or by the sizes alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from profiler.search.history import History
from profiler.search.space import SearchSpace

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
