"""Greedy iterated local search over valid neighbours: configurations with one other value."""

from __future__ import annotations

import numpy as np

from profiler.search.history import History
from profiler.search.space import Configurations

PARENTS = 20
"""A jump combines two of so many of the best configurations."""
CHANGED = 0.1
"""Share of the parameters whose value in a jump is drawn anew."""
STARTS = 5
"""A jump whose value is among so many of the best becomes the centre: descending from another
takes dozens of evaluations, and seldom ends better."""
TRIES = 20
"""Crossovers that are tried for a valid unseen one before the nearest such is taken."""


class LocalSearch:
    """Moves to a neighbour as soon as it is better; jumps by crossover from a local optimum."""

    def __init__(
        self, history: History, rng: np.random.Generator, *, jump_share: float = 0.0
    ) -> None:
        self._history = history
        self._rng = rng
        self._jump_share = jump_share
        """Share of the proposals that are jumps even where the centre has unseen neighbours."""
        self._centre: int | None = None
        """The configuration whose neighbours are proposed."""
        self._jumps: set[int] = set()

    def ask(self) -> int:
        """An unseen neighbour of the centre, or a jump."""
        configuration = self._propose()
        self._history.see(configuration)
        return configuration

    def tell(self, configuration: int, value: float | None) -> None:
        """Make a configuration the centre: the best of all, a better neighbour, or a good jump."""
        if value is None:
            return
        is_good_jump = configuration in self._jumps and self._rank(value) < STARTS
        if (
            self._centre is None
            or configuration == self._history.best
            or is_good_jump
            or self._is_better_neighbour(configuration, value)
        ):
            self._centre = configuration

    def _rank(self, value: float) -> int:
        return int(np.count_nonzero(self._history.values < value))

    def _is_better_neighbour(self, configuration: int, value: float) -> bool:
        codes = self._history.space.codes
        differing = np.count_nonzero(codes[configuration] != codes[self._centre])
        return bool(differing == 1 and value < self._history.values[self._centre])

    def _propose(self) -> int:
        history = self._history
        if self._centre is None:
            return int(self._rng.choice(np.flatnonzero(~history.seen)))
        if self._rng.random() >= self._jump_share:
            neighbours = history.unseen(history.space.neighbours(self._centre))
            if len(neighbours):
                return int(self._rng.choice(neighbours))
        configuration = self._jump()
        self._jumps.add(configuration)
        return configuration

    def _jump(self) -> int:
        """A crossover of two of the best configurations, or the nearest unseen valid one."""
        parents = self._best(PARENTS)
        codes: list[int] = []
        for _ in range(TRIES):
            codes = self._crossover(parents)
            configuration = self._history.space.find_codes(codes)
            if configuration is not None and not self._history.seen[configuration]:
                return configuration
        return self._history.nearest_unseen(codes, self._rng)

    def _best(self, count: int) -> Configurations:
        values = self._history.values
        measured = np.flatnonzero(np.isfinite(values))
        best: Configurations = measured[np.argsort(values[measured], kind="stable")][:count]
        return best

    def _crossover(self, parents: Configurations) -> list[int]:
        """Each value from one of two parents, or any of its parameter."""
        space = self._history.space
        first, second = space.codes[self._rng.choice(parents, 2)]
        codes = np.where(self._rng.random(len(first)) < 0.5, first, second)
        for number in space.free:
            if self._rng.random() < CHANGED:
                codes[number] = self._rng.integers(len(space.parameters[number].values))
        return [int(code) for code in codes]
