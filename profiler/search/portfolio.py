"""Portfolio: some random configurations, then TPE and local search in turn, on one history."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from profiler.search.history import History
from profiler.search.local_search import LocalSearch
from profiler.search.sampling import RandomSearch
from profiler.search.strategy import Strategy
from profiler.search.tpe import TreeParzen

RANDOM_FIRST = 30
JUMP_SHARE = 0.5
"""TPE proposes near the best already, so that half of the local search's turns are jumps."""


class Portfolio:
    """Strategies that learn of each other's results, and propose in turn."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        first, tpe, local = rng.spawn(3)
        random_search = RandomSearch(history, first)
        self._members: tuple[Strategy, ...] = (
            TreeParzen(history, tpe),
            LocalSearch(history, local, jump_share=JUMP_SHARE),
        )
        self._turns: Iterator[Strategy] = itertools.chain(
            itertools.repeat(random_search, RANDOM_FIRST), itertools.cycle(self._members)
        )

    def ask(self) -> int:
        """The proposal of the member whose turn it is."""
        return next(self._turns).ask()

    def tell(self, configuration: int, value: float | None) -> None:
        """Tell every member."""
        for member in self._members:
            member.tell(configuration, value)
