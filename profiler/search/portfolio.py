"""Portfolio: aligned sizes, a model and random ones first, then model, TPE and local search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from profiler.search.history import History
from profiler.search.local_search import LocalSearch
from profiler.search.model_search import ModelSearch
from profiler.search.sampling import AlignedSizes, RandomSearch
from profiler.search.strategy import Strategy
from profiler.search.tpe import TreeParzen

ALIGNED = 2
"""Proposals by their sizes alone, before there is a result."""
EARLY = 9
"""Proposals of the model after these. In spaces with many good configurations they find one sooner
than random ones do; in rough ones they cost nothing that was noticed."""
RANDOM = 20
"""Without these the model may settle in a part of the space that is not the best one."""
JUMP_SHARE = 0.5
"""TPE and the model propose near the best already, so that half of the local search's turns are
jumps."""


class Portfolio:
    """Strategies that learn of each other's results, and propose in turn."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        for_random, for_tpe, for_local, for_model, for_aligned = rng.spawn(5)
        random_search = RandomSearch(history, for_random)
        aligned = AlignedSizes(history, for_aligned)
        tpe = TreeParzen(history, for_tpe)
        local = LocalSearch(history, for_local, jump_share=JUMP_SHARE)
        model = ModelSearch(history, for_model)
        self._members: tuple[Strategy, ...] = (tpe, local, model)
        self._turns: Iterator[Strategy] = itertools.chain(
            itertools.repeat(aligned, ALIGNED),
            itertools.repeat(model, EARLY),
            itertools.repeat(random_search, RANDOM),
            itertools.cycle((model, model, local, model, model, tpe)),
        )

    def ask(self) -> int:
        """The proposal of the member whose turn it is."""
        return next(self._turns).ask()

    def tell(self, configuration: int, value: float | None) -> None:
        """Tell every member."""
        for member in self._members:
            member.tell(configuration, value)
