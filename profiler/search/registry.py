"""The strategies by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np

from profiler.errors import UsageError
from profiler.search.history import History
from profiler.search.model_search import ModelSearch
from profiler.search.sampling import AlignedSizes, Exhaustive, RandomSearch
from profiler.search.strategy_names import REMOVED

ALIGNED = 2
"""Proposals by their sizes alone, before there is a result."""
EARLY = 9
"""Proposals of the model after these. In spaces with many good configurations they find one sooner
than random ones do; in rough ones they cost nothing that was noticed."""
RANDOM = 20
"""Without these the model may settle in a part of the space that is not the best one."""


class Strategy(Protocol):
    """Proposes configurations that are valid and were not proposed before, by a history's values.

    It may be asked several times before a value comes. Its history may hold values of
    configurations that it did not propose: a baseline, or what an earlier search measured.
    """

    def ask(self) -> int:
        """The next configuration; there must be an unseen one."""
        ...


class Portfolio:
    """Aligned sizes, the model and random draws at first; from there on the model alone."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        for_random, for_model, for_aligned = rng.spawn(3)
        model = ModelSearch(history, for_model)
        self._turns: Iterator[Strategy] = itertools.chain(
            itertools.repeat(AlignedSizes(history, for_aligned), ALIGNED),
            itertools.repeat(model, EARLY),
            itertools.repeat(RandomSearch(history, for_random), RANDOM),
            itertools.repeat(model),
        )

    def ask(self) -> int:
        """The proposal of the strategy whose turn it is."""
        return next(self._turns).ask()


STRATEGIES: Mapping[str, Callable[[History, np.random.Generator], Strategy]] = {
    "portfolio": Portfolio,
    "model": ModelSearch,
    "random": RandomSearch,
    "exhaustive": Exhaustive,
}


def make_strategy(name: str, history: History, seed: int) -> Strategy:
    """The strategy of a name; the same seed gives the same proposals to the same values.

    Raises UsageError for another name.
    """
    if name not in STRATEGIES:
        fault = REMOVED.get(name, f"there are {', '.join(STRATEGIES)}")
        raise UsageError(f"--strategy {name}: {fault}.")
    return STRATEGIES[name](history, np.random.default_rng(seed))
