"""Portfolio: random configurations and a model first, then model, TPE and local search in turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from profiler.search.history import History
from profiler.search.local_search import LocalSearch
from profiler.search.model_search import ModelSearch
from profiler.search.portfolio_turns import EARLY, RANDOM
from profiler.search.sampling import RandomSearch
from profiler.search.strategy import Strategy
from profiler.search.tpe import TreeParzen

JUMP_SHARE = 0.5
"""TPE and the model propose near the best already, so that half of the local search's turns are
jumps."""


class Portfolio:
    """Strategies that learn of each other's results, and propose in turn."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        first, for_tpe, for_local, for_model = rng.spawn(4)
        random_search = RandomSearch(history, first)
        tpe = TreeParzen(history, for_tpe)
        local = LocalSearch(history, for_local, jump_share=JUMP_SHARE)
        model = ModelSearch(history, for_model)
        self._members: tuple[Strategy, ...] = (tpe, local, model)
        self._turns: Iterator[Strategy] = itertools.chain(
            [random_search],
            itertools.repeat(model, EARLY),
            itertools.repeat(random_search, RANDOM - 1),
            itertools.cycle((model, model, local, model, model, tpe)),
        )

    def ask(self) -> int:
        """The proposal of the member whose turn it is."""
        return next(self._turns).ask()

    def tell(self, configuration: int, value: float | None) -> None:
        """Tell every member."""
        for member in self._members:
            member.tell(configuration, value)
