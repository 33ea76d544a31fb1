"""What a search has proposed and what came of it: what all strategies learn from."""

from __future__ import annotations

import numpy as np

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
