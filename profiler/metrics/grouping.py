"""The groups of counters that together take ncu the least time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.conflicts import contested
from profiler.metrics.launch_costs import ncu_launch_seconds
from profiler.metrics.queries import PassClass, pass_class

_MOST_STEPS = 10_000
"""Of a search, about 0.1 s: enough to try every way for what experiments ask for. Beyond it the
best way found stands; each step tries the cheapest group first."""
Group = tuple[str, ...]
"""Metrics that are counted in the same launches, in the order of the catalogue."""


def cheapest_groups(
    names: Sequence[str], launches: int, session_s: float, capability: str | None
) -> tuple[Group, ...]:
    """Counters in the groups that take the least time, each a session with so many launches.

    `session_s`: seconds of one more session beside its launches. Groups are in the order of their
    first metrics; of equally cheap ways the fewest groups. Of very many metrics that do not fit in
    one pass a cheap way, if not the cheapest.
    """
    counted = sorted(dict.fromkeys(names), key=_place)
    in_conflict = contested(counted, capability)
    replayed = tuple(name for name in counted if pass_class(name) is PassClass.MULTI)
    placed = [(name,) for name in counted if name in in_conflict and name not in replayed]
    free = tuple(name for name in counted if name not in in_conflict and name not in replayed)
    search = _Search(launches, session_s, capability)
    search.extend((), [unit for unit in (replayed, *placed, free) if unit])
    groups = (tuple(name for name in counted if name in group) for group in search.best)
    return tuple(sorted(groups, key=lambda group: counted.index(group[0])))


_PLACES = {name: place for place, name in enumerate(CATALOGUE)}


def _place(name: str) -> int:
    """Place of a metric in the catalogue; raw names come last, as they were asked for."""
    return _PLACES.get(name, len(_PLACES))


@dataclass
class _Search:
    """Branch and bound over all ways to put units of metrics into groups."""

    launches: int
    session_s: float
    capability: str | None
    best: tuple[Group, ...] = ()
    best_cost: tuple[float, int] = (float("inf"), 0)
    seconds: dict[Group, float] = field(default_factory=dict)
    """Of a launch, by what it is asked for."""
    steps: int = 0

    def extend(self, groups: tuple[Group, ...], left: Sequence[Group]) -> None:
        """Try every group for the first unit that is left: a group that grows costs no less."""
        cost = self._cost(groups)
        self.steps += 1
        if cost >= self.best_cost or (self.steps > _MOST_STEPS and self.best):
            return
        if not left:
            self.best, self.best_cost = groups, cost
            return
        for extended in sorted(_with(left[0], groups), key=self._cost):
            self.extend(extended, left[1:])

    def _cost(self, groups: Sequence[Group]) -> tuple[float, int]:
        """Seconds of all launches and sessions, and the number of groups."""
        launch_s = sum(map(self._launch_s, groups))
        return len(groups) * self.session_s + self.launches * launch_s, len(groups)

    def _launch_s(self, group: Group) -> float:
        if group not in self.seconds:
            self.seconds[group] = ncu_launch_seconds(group, self.capability)
        return self.seconds[group]


def _with(unit: Group, groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """Groups with a unit in each of them in turn, or in one of its own."""
    for number, group in enumerate(groups):
        yield (*groups[:number], (*group, *unit), *groups[number + 1 :])
    yield (*groups, unit)
