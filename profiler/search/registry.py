"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from profiler.errors import UsageError
from profiler.search.history import History
from profiler.search.local_search import LocalSearch
from profiler.search.model_search import ModelSearch
from profiler.search.portfolio import Portfolio
from profiler.search.sampling import Exhaustive, RandomSearch
from profiler.search.strategy import Strategy
from profiler.search.tpe import TreeParzen

DEFAULT = "portfolio"
STRATEGIES: Mapping[str, Callable[[History, np.random.Generator], Strategy]] = {
    "portfolio": Portfolio,
    "model": ModelSearch,
    "tpe": TreeParzen,
    "local": LocalSearch,
    "random": RandomSearch,
    "exhaustive": Exhaustive,
}


def make_strategy(name: str, history: History, seed: int) -> Strategy:
    """The strategy of a name; the same seed gives the same proposals to the same values.

    Raises UsageError for another name, EnvironmentUnusable where it needs Optuna and that is not
    installed.
    """
    if name not in STRATEGIES:
        raise UsageError(f"--strategy {name}: there are {', '.join(STRATEGIES)}.")
    return STRATEGIES[name](history, np.random.default_rng(seed))
