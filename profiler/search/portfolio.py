"""Portfolio: some random configurations, then TPE and local search in turn, on one history."""

from __future__ import annotations

import itertools

import numpy as np

from profiler.search.history import History
from profiler.search.local_search import LocalSearch
from profiler.search.sampling import RandomSearch
from profiler.search.strategy import Strategy
from profiler.search.tpe import TreeParzen

RANDOM_FIRST = 20


class Portfolio:
    """Strategies that learn of each other's results, and propose in turn."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        first, tpe, local = rng.spawn(3)
        self._first = RandomSearch(history, first)
        self._members: tuple[Strategy, ...] = (
            TreeParzen(history, tpe),
            LocalSearch(history, local),
        )
        self._turns = itertools.chain(
            itertools.repeat(self._first, RANDOM_FIRST), itertools.cycle(self._members)
        )

    def ask(self) -> int:
        """The proposal of the member whose turn it is."""
        return next(self._turns).ask()

    def tell(self, configuration: int, value: float | None) -> None:
        """Tell every member."""
        for member in self._members:
            member.tell(configuration, value)
