"""Greedy iterated local search over valid neighbours: configurations with one other value."""

from __future__ import annotations

import numpy as np

from profiler.search.history import History

STEPS_AWAY = 2
"""Parameters that are changed to leave a local optimum."""


class LocalSearch:
    """Moves to a neighbour as soon as it is better; leaves a local optimum by a random jump."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self._history = history
        self._rng = rng
        self._base: int | None = None
        """The best configuration that it met: jumps start here."""
        self._centre: int | None = None
        """The configuration whose neighbours are proposed; None until its value is known."""
        self._jumped_to: int | None = None

    def ask(self) -> int:
        """An unseen neighbour of the centre, or a jump where it has none."""
        configuration = self._propose()
        self._history.see(configuration)
        return configuration

    def tell(self, configuration: int, value: float | None) -> None:
        """Make a configuration the centre where it is better, or where the jump led."""
        if value is None:
            return
        values = self._history.values
        if self._base is None or value < values[self._base]:
            self._base = self._centre = configuration
        elif configuration == self._jumped_to or (
            self._centre is not None
            and value < values[self._centre]
            and self._is_near(configuration)
        ):
            self._centre = configuration

    def _is_near(self, configuration: int) -> bool:
        codes = self._history.space.codes
        return int(np.count_nonzero(codes[configuration] != codes[self._centre])) == 1

    def _propose(self) -> int:
        history = self._history
        if self._centre is not None:
            neighbours = history.unseen(history.space.neighbours(self._centre))
            if len(neighbours):
                return self._pick(neighbours)
        if self._base is None:
            return int(self._rng.choice(np.flatnonzero(~history.seen)))
        return self._jump(self._base)

    def _pick(self, neighbours):
        return int(self._rng.choice(neighbours))

    def _jump(self, base: int) -> int:
        """An unseen configuration some parameters away from a local optimum."""
        space = self._history.space
        codes = space.codes[base].copy()
        for number in self._rng.choice(space.free, min(STEPS_AWAY, len(space.free)), replace=False):
            codes[number] = self._rng.integers(len(space.parameters[number].values))
        configuration = self._history.nearest_unseen(codes.tolist(), self._rng)
        self._jumped_to = configuration
        return configuration
