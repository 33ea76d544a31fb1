"""Which metrics share a session: the groups of counters that together take ncu the least time.

What a launch takes by what it is asked for, in seconds, is of `benchmarks/speed/launch_costs.py` on
an H200 (ncu 2025.3.1), for a kernel that takes no time itself. Which metrics share no pass,
NVIDIA's own library says (`benchmarks/speed/predicted_passes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files

from profiler.metrics.catalogue import CATALOGUE, PassClass
from profiler.metrics.queries import (
    COMMONEST,
    catalogue_name,
    in_parts,
    ncu_name,
    ncu_names,
    of_operations,
    of_types,
    pass_class,
    with_needs,
)


def conflicts(capability: str | None) -> tuple[frozenset[str], ...]:
    """The smallest sets of metrics that do not fit in one pass, on this compute capability.

    A set of one metric needs several passes by itself. Of a GPU that is not known they are those of
    the newest one before it of its generation, else of the commonest. From
    `benchmarks/speed/predicted_passes.py`.
    """
    by_capability = _conflicts_by_capability()
    major, minor = _number(capability or COMMONEST)
    same_generation = (
        version for version in by_capability if (major, 0) <= _number(version) <= (major, minor)
    )
    return by_capability[max(same_generation, key=_number, default=COMMONEST)]


def is_replayed(names: Iterable[str], capability: str | None) -> bool:
    """Whether ncu needs several passes to count these, names or raw names, beside the duration."""
    metrics = set(map(catalogue_name, names))
    if any(pass_class(name) is PassClass.MULTI for name in metrics):
        return True
    return any(conflict <= metrics for conflict in conflicts(capability))


def contested(names: Iterable[str], capability: str | None) -> frozenset[str]:
    """Metrics, of the given ones, that do not fit in one pass with all other given ones."""
    given_names = {catalogue_name(name): name for name in names}
    return frozenset(
        given_names[name]
        for conflict in conflicts(capability)
        if conflict <= given_names.keys()
        for name in conflict
    )


@cache
def _conflicts_by_capability() -> Mapping[str, tuple[frozenset[str], ...]]:
    """Conflicts by compute capability, as they are shipped."""
    text = (files("profiler.metrics") / "chips" / "conflicts.json").read_text(encoding="utf-8")
    return {
        capability: tuple(map(frozenset, sets)) for capability, sets in json.loads(text).items()
    }


def _number(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)


_LAUNCH_S = 0.0083
"""With the duration alone."""
_UNIT_S = {
    "lts": 0.018,
    "gpc": 0.0076,
    "l1tex": 0.004,
    "sm": 0.0035,
    "smsp": 0.0035,
    "dram": 0.0017,
}
"""More for each unit of the GPU that something is counted of, by the beginnings of raw names."""
_BY_UNIT = (PassClass.TIMING, PassClass.SINGLE)
_FREE = ".peak_sustained"
"""End of the raw names of what is known of the chip without counting."""
_HGMMA, _HGMMA_S = "_op_hgmma_", 0.0215
"""More for operations of warpgroup instructions, and the part of a raw name that tells them."""
_REPLAY_S = 0.085
"""More where the kernel is replayed, in however few passes."""
_MULTI_S, _MOST_MULTI_S = 0.03, 0.3
"""More for each metric that needs several passes, and for all: of several that share passes a
launch with 15 passes takes 0.45 s."""
_REPLAYED_RUNS, _REWRITTEN_RUNS = 7.5, 25.0
"""How many times a kernel's own time a launch takes longer: where it is replayed, 7.0 to 8.0 in
recordings of attention, where its machine code is rewritten 22 to 50; else 1.0 to 1.1."""
_REWRITING = "smsp__sass_"
"""Beginning of the names of what ncu counts by rewriting the machine code."""


def ncu_launch_seconds(names: Iterable[str], capability: str | None = None) -> float:
    """Seconds of a launch that is asked for these metrics.

    Within 14 % of the 20 sets of one pass that were measured, and of 6 of 9 of metrics that need
    one each but several together. Of what needs several by itself it is a rough guess.
    """
    metrics = tuple(names)
    several = sum(pass_class(name) is PassClass.MULTI for name in metrics)
    raw_names = [
        ncu_name(name, capability) or "" for name in metrics if pass_class(name) in _BY_UNIT
    ]
    units = {raw.partition("__")[0] for raw in raw_names if not raw.endswith(_FREE)}
    return (
        _LAUNCH_S
        + sum(_UNIT_S.get(unit, 0.0) for unit in units)
        + _HGMMA_S * any(_HGMMA in raw for raw in raw_names)
        + _REPLAY_S * is_replayed(metrics, capability)
        + min(_MOST_MULTI_S, several * _MULTI_S)
    )


def kernel_runs(names: Iterable[str]) -> float:
    """How many times a kernel's own time a launch takes, beside its seconds.

    ncu replays a kernel whose counters need several passes, each time with its memory restored.
    """
    metrics = tuple(names)
    if any(raw.startswith(_REWRITING) for raw in ncu_names(metrics)):
        return _REWRITTEN_RUNS
    return _REPLAYED_RUNS if is_replayed(metrics, None) else 1.0


_MOST_STEPS = 10_000
"""Steps of a search, about 0.1 s: enough to try every way for what experiments ask for. Then the
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
    units = [unit for unit in (replayed, *placed, free) if unit]
    best = _cheapest_way(units, launches, session_s, capability)
    groups = (tuple(name for name in counted if name in group) for group in best)
    return tuple(sorted(groups, key=lambda group: counted.index(group[0])))


_PLACES = {name: place for place, name in enumerate(CATALOGUE)}


def _place(name: str) -> int:
    """Place of a metric in the catalogue; raw names come last, as they were asked for."""
    return _PLACES.get(name, len(_PLACES))


def _cheapest_way(
    units: Sequence[Group], launches: int, session_s: float, capability: str | None
) -> tuple[Group, ...]:
    """Branch and bound over all ways to put units of metrics into groups."""
    launch_s = cache(partial(ncu_launch_seconds, capability=capability))
    best: tuple[Group, ...] = ()
    best_cost = (float("inf"), 0)
    steps = 0

    def cost_of(groups: Sequence[Group]) -> tuple[float, int]:
        """Seconds of all launches and sessions, and the number of groups."""
        return len(groups) * session_s + launches * sum(map(launch_s, groups)), len(groups)

    def extend(groups: tuple[Group, ...], left: Sequence[Group]) -> None:
        """Try every group for the first unit that is left: a group that grows costs no less."""
        nonlocal best, best_cost, steps
        cost = cost_of(groups)
        steps += 1
        if cost >= best_cost or (steps > _MOST_STEPS and best):
            return
        if not left:
            best, best_cost = groups, cost
            return
        for extended in sorted(_with(left[0], groups), key=cost_of):
            extend(extended, left[1:])

    extend((), units)
    return best


def _with(unit: Group, groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """Groups with a unit in each of them in turn, or in one of its own."""
    for number, group in enumerate(groups):
        yield (*groups[:number], (*group, *unit), *groups[number + 1 :])
    yield (*groups, unit)


Types = tuple[str, ...]
"""Types of the inputs of tensor cores, as in `queries.tensor_types`."""

_TIMING = ("duration_ns",)
"""Metrics of every timing session."""
_CYCLES = ("cycles",)
"""What confirms a difference in time, where each timed launch counts them. Beside the duration they
cost a launch 8 ms on an H200, which alone takes 8 ms."""

SESSION_S = 1.1
"""Seconds that one more session takes on an H200 beside its visits, although its start overlaps
with the session before: 0.35 for its context, 0.7 until its first launch is profiled."""


@dataclass(frozen=True)
class CounterSession:
    """Metrics that are counted in the same launches."""

    suffix: str
    """End of the session's name: it tells a session from those of other groupings."""
    metrics: tuple[str, ...]
    """The first is the duration: percentages are weighted by time."""
    types: frozenset[Types]
    """Types that tensor cores work on in the launches that this is of."""


def timing_metrics(names: Iterable[str], *, with_cycles: bool) -> tuple[str, ...]:
    """Metrics of a timing session: the duration, what costs nothing, and cycles if wanted."""
    classes = (PassClass.TIMING, PassClass.STATIC)
    light = [name for name in _collected(names) if pass_class(name) in classes]
    first = (*_TIMING, *_CYCLES) if with_cycles else _TIMING
    left_out = frozenset(_CYCLES) - {*first}
    return tuple(dict.fromkeys((*first, *(name for name in light if name not in left_out))))


def confirmation_metrics(timing: Iterable[str]) -> tuple[str, ...]:
    """Metrics of the confirmation that follows a timing session: cycles in any case."""
    return tuple(dict.fromkeys((*_TIMING, *_CYCLES, *timing)))


def counting_cycles(
    sessions: Sequence[CounterSession], every: Iterable[Types]
) -> tuple[CounterSession, ...] | None:
    """Counter sessions of which the first of each types counts cycles; None where types have none.

    `every`: the types of all launches.
    """
    counting, without_session = in_first_of_types(sessions, _CYCLES, every)
    return None if without_session else counting


def in_first_of_types(
    sessions: Iterable[CounterSession], metrics: Iterable[str], every: Iterable[Types]
) -> tuple[tuple[CounterSession, ...], frozenset[Types]]:
    """Counter sessions of which the first of each types also has metrics; types without a session.

    `every`: the types of all launches.
    """
    left = frozenset(every)
    with_metrics = []
    for session in sessions:
        added = tuple(metrics) if left & session.types else ()
        together = tuple(dict.fromkeys((*session.metrics, *added)))
        with_metrics.append(replace(session, metrics=together))
        left -= session.types
    return tuple(with_metrics), left


def counter_sessions(
    names: Iterable[str],
    launches: Mapping[Types, int],
    session_s: float = SESSION_S,
    capability: str | None = None,
) -> tuple[CounterSession, ...]:
    """Counters in the sessions that together take the least time for so many launches of each.

    `launches`: how many, by the types that tensor cores work on in them. Operations on other types
    are not counted in a launch, unless sessions for each type take longer. Derived metrics are
    replaced by what they are computed from, and, on a GPU of this compute `capability`, metrics by
    their parts, if that is less. What costs nothing and what is of the build is left out. A metric
    brings those of its `beside` that are asked for.
    """
    named = frozenset(kind for types in launches for kind in types)
    metrics = of_types(_collected(names), named)
    layouts = (
        _layout(collected, launches, scopes, session_s, capability)
        for collected in dict.fromkeys((metrics, in_parts(metrics, capability)))
        for scopes in ([tuple(launches)], [(types,) for types in launches])
    )
    _, sessions = min(layouts, key=lambda layout: layout[0])
    return sessions


def together(
    names: Iterable[str], every: Iterable[Types], capability: str | None
) -> tuple[CounterSession, ...]:
    """Sessions with all counters, for a tool to which another pass is just another launch.

    `every`: the types of all launches. One session for all of them, or for each types one without
    operations on others, where that leaves out what would take a launch another pass. Metrics are
    counted by their parts on a GPU of this compute `capability`, as some take more passes whole.
    """
    collected = in_parts(_collected(names), capability)
    scopes = tuple(dict.fromkeys(every))
    counted = [tuple(filter(_is_counter, of_operations(collected, types))) for types in scopes]
    everything = tuple(n for n in collected if any(n in group for group in counted))
    if all(contested(group, capability) == contested(everything, capability) for group in counted):
        counted = [everything] * len(scopes)
    types_of: dict[Group, list[Types]] = {}
    for group, types in zip(counted, scopes, strict=True):
        types_of.setdefault(group, []).append(types)
    suffixes: list[str] = []
    for of_group in types_of.values():
        kinds = frozenset(kind for types in of_group for kind in types)
        suffixes.append(_free("", kinds, suffixes))
    return tuple(
        CounterSession(suffix, _with_beside(group, collected), frozenset(of_group))
        for suffix, (group, of_group) in zip(suffixes, types_of.items(), strict=True)
        if group
    )


def _layout(
    names: tuple[str, ...],
    launches: Mapping[Types, int],
    scopes: Iterable[tuple[Types, ...]],
    session_s: float,
    capability: str | None,
) -> tuple[float, tuple[CounterSession, ...]]:
    """Seconds of the cheapest sessions where launches of the types of a scope are asked the same.

    And these sessions, each a group of metrics.
    """
    types_of: dict[Group, tuple[Types, ...]] = {}
    suffixes: dict[Group, str] = {}
    seconds = 0.0
    for scope in scopes:
        kinds = frozenset(kind for types in scope for kind in types)
        count = sum(launches[types] for types in scope)
        counted = tuple(filter(_is_counter, of_operations(names, kinds)))
        groups = cheapest_groups(counted, count, session_s, capability)
        seconds += count * sum(ncu_launch_seconds(group, capability) for group in groups)
        for group in groups:
            types_of[group] = (*types_of.get(group, ()), *scope)
            suffix = _suffix(group, groups, counted, capability)
            suffixes.setdefault(group, _free(suffix, kinds, suffixes.values()))
    sessions = tuple(
        CounterSession(suffix, _with_beside(group, names), frozenset(types_of[group]))
        for group, suffix in suffixes.items()
    )
    return seconds + len(types_of) * session_s, sessions


def _collected(names: Iterable[str]) -> tuple[str, ...]:
    """What ncu is asked for: without derived metrics and those of the build."""
    return tuple(name for name in with_needs(names) if name not in CATALOGUE or CATALOGUE[name].ncu)


def _is_counter(name: str) -> bool:
    return pass_class(name) in (PassClass.SINGLE, PassClass.MULTI)


def _suffix(
    group: Group, groups: Sequence[Group], counted: Collection[str], capability: str | None
) -> str:
    """The end of a session's name.

    Empty where it has the first metric, else what it has that does not fit in one pass with all
    others that are counted.
    """
    if len(groups) == 1:
        return "-together" if len(group) > 1 and is_replayed(group, capability) else ""
    if group == groups[0]:
        return ""
    in_conflict = contested(counted, capability)
    names = [name for name in group if name in in_conflict or pass_class(name) is PassClass.MULTI]
    return "".join(f"-{_short(name)}" for name in names)


def _short(name: str) -> str:
    return name.removeprefix("tensor_").removesuffix("_ops") if name.endswith("_ops") else name


def _free(suffix: str, kinds: frozenset[str], taken: Collection[str]) -> str:
    """The end of a session's name, with the types where another session has the same end."""
    return "-".join((suffix, *sorted(kinds))) if suffix in taken else suffix


def _with_beside(group: Group, collected: Sequence[str]) -> tuple[str, ...]:
    """The duration, metrics of a group, and those that must be of the same launch."""
    beside = {name for metric in group if metric in CATALOGUE for name in CATALOGUE[metric].beside}
    return tuple(
        dict.fromkeys(("duration_ns", *group, *(name for name in collected if name in beside)))
    )
