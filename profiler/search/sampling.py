"""Strategies that look at no result: every configuration in order, or in random order."""

from __future__ import annotations

import numpy as np

from profiler.search.history import History


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

    def tell(self, configuration: int, value: float | None) -> None:
        """Change nothing: the order is fixed."""


class RandomSearch:
    """Configurations in random order, each once."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self._history = history
        self._order = iter(rng.permutation(len(history.space)).tolist())

    def ask(self) -> int:
        """The next unseen configuration of a random order."""
        configuration: int = next(c for c in self._order if not self._history.seen[c])
        self._history.see(configuration)
        return configuration

    def tell(self, configuration: int, value: float | None) -> None:
        """Change nothing: the order is fixed."""
