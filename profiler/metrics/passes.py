"""Sessions of counters: the groups of metrics that together take ncu the least time.

Seconds of a launch by its metrics are from `benchmarks/speed/launch_costs.py` on an H200 (ncu
2025.3.1), for a kernel that takes no time itself. The metrics that share no pass are by NVIDIA's
own library (`benchmarks/speed/predicted_passes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files

from profiler.metrics.catalogue import CATALOGUE, PassClass
from profiler.metrics.queries import (
    COMMONEST_CAPABILITY,
    catalogue_name,
    ncu_name,
    ncu_names,
    pass_class,
    replaced_by_parts,
    with_needed_metrics,
    without_other_operations,
    without_other_types,
)


def conflicts(capability: str | None) -> tuple[frozenset[str], ...]:
    """The smallest sets of metrics that do not fit in one pass, on this compute capability.

    A set of one metric needs several passes by itself. An unknown GPU has the sets of the newest
    GPU before it of its generation, else of the commonest. From
    `benchmarks/speed/predicted_passes.py`.
    """
    by_capability = _conflicts_by_capability()
    major, minor = _version_key(capability or COMMONEST_CAPABILITY)
    same_generation = (
        version
        for version in by_capability
        if (major, 0) <= _version_key(version) <= (major, minor)
    )
    return by_capability[max(same_generation, key=_version_key, default=COMMONEST_CAPABILITY)]


def is_replayed(names: Iterable[str], capability: str | None) -> bool:
    """Whether ncu needs several passes to count these metrics (or raw names) and the duration."""
    metrics = set(map(catalogue_name, names))
    if any(pass_class(name) is PassClass.MULTI for name in metrics):
        return True
    return any(conflict <= metrics for conflict in conflicts(capability))


def conflicting_metrics(names: Iterable[str], capability: str | None) -> frozenset[str]:
    """Metrics of `names` that do not fit in one pass with all others of `names`."""
    name_by_metric = {catalogue_name(name): name for name in names}
    return frozenset(
        name_by_metric[name]
        for conflict in conflicts(capability)
        if conflict <= name_by_metric.keys()
        for name in conflict
    )


@cache
def _conflicts_by_capability() -> Mapping[str, tuple[frozenset[str], ...]]:
    """Conflicts by compute capability, from the file of this package."""
    text = (files("profiler.metrics") / "chips" / "conflicts.json").read_text(encoding="utf-8")
    return {
        capability: tuple(map(frozenset, sets)) for capability, sets in json.loads(text).items()
    }


def _version_key(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)


_LAUNCH_S = 0.0083
"""Seconds of a launch with the duration alone."""
_UNIT_S = {
    "lts": 0.018,
    "gpc": 0.0076,
    "l1tex": 0.004,
    "sm": 0.0035,
    "smsp": 0.0035,
    "dram": 0.0017,
}
"""Seconds more for each counted unit of the GPU, by the beginnings of raw names."""
_BY_UNIT = (PassClass.TIMING, PassClass.SINGLE)
_UNCOUNTED = ".peak_sustained"
"""End of the raw names of facts of the chip, which need no counting."""
_HGMMA, _HGMMA_S = "_op_hgmma_", 0.0215
"""Part of the raw names of operations of warpgroup instructions, and seconds more for them."""
_REPLAY_S = 0.085
"""Seconds more where the kernel is replayed, in any number of passes."""
_MULTI_S, _MOST_MULTI_S = 0.03, 0.3
"""Seconds more for each metric that needs several passes, and at most: metrics share passes, and a
launch with 15 passes takes 0.45 s."""
_REPLAYED_RUNS, _REWRITTEN_RUNS = 7.5, 25.0
"""Time of a launch under ncu ÷ time of its kernel: where it is replayed, 7.0 to 8.0 in recordings
of attention, where its machine code is rewritten 22 to 50; else 1.0 to 1.1."""
_REWRITING = "smsp__sass_"
"""Beginning of the names of counters for which ncu rewrites the machine code."""


def ncu_launch_seconds(names: Iterable[str], capability: str | None = None) -> float:
    """Seconds of a launch under ncu with these metrics.

    Within 14 % of the measured time for 20 sets of one pass, and for 6 of 9 sets whose metrics need
    one pass each but several together. A rough guess for metrics that need several by themselves.
    """
    metrics = tuple(names)
    multi_pass_count = sum(pass_class(name) is PassClass.MULTI for name in metrics)
    raw_names = [
        ncu_name(name, capability) or "" for name in metrics if pass_class(name) in _BY_UNIT
    ]
    units = {raw.partition("__")[0] for raw in raw_names if not raw.endswith(_UNCOUNTED)}
    return (
        _LAUNCH_S
        + sum(_UNIT_S.get(unit, 0.0) for unit in units)
        + _HGMMA_S * any(_HGMMA in raw for raw in raw_names)
        + _REPLAY_S * is_replayed(metrics, capability)
        + min(_MOST_MULTI_S, multi_pass_count * _MULTI_S)
    )


def runs_of_kernel(names: Iterable[str]) -> float:
    """Number of times that ncu runs a kernel in a launch with these metrics.

    ncu replays a kernel whose counters need several passes, each time with its memory restored.
    """
    metrics = tuple(names)
    if any(raw.startswith(_REWRITING) for raw in ncu_names(metrics)):
        return _REWRITTEN_RUNS
    return _REPLAYED_RUNS if is_replayed(metrics, None) else 1.0


_MOST_STEPS = 10_000
"""Steps of a search, about 0.1 s: enough to try every grouping of the metrics of an experiment.
Then the best grouping so far stands; each step tries the cheapest group first."""
Group = tuple[str, ...]
"""Metrics that are counted in the same launches, in the order of the catalogue."""


def cheapest_groups(
    names: Sequence[str], launches: int, session_s: float, capability: str | None
) -> tuple[Group, ...]:
    """Counters in the groups that take the least time, each a session of `launches` launches.

    `session_s`: seconds of one more session beside its launches. Groups are in the order of their
    first metrics; of equally cheap groupings, the one with fewest groups. For very many metrics
    that do not fit in one pass, a cheap grouping, if not the cheapest.
    """
    counters = sorted(dict.fromkeys(names), key=_catalogue_place)
    in_conflict = conflicting_metrics(counters, capability)
    replayed = tuple(name for name in counters if pass_class(name) is PassClass.MULTI)
    single_units = [(name,) for name in counters if name in in_conflict and name not in replayed]
    unconflicted = tuple(
        name for name in counters if name not in in_conflict and name not in replayed
    )
    units = [unit for unit in (replayed, *single_units, unconflicted) if unit]
    best = _cheapest_way(units, launches, session_s, capability)
    groups = (tuple(name for name in counters if name in group) for group in best)
    return tuple(sorted(groups, key=lambda group: counters.index(group[0])))


_PLACES = {name: place for place, name in enumerate(CATALOGUE)}


def _catalogue_place(name: str) -> int:
    """Place of a metric in the catalogue; raw names come last, in their order."""
    return _PLACES.get(name, len(_PLACES))


def _cheapest_way(
    units: Sequence[Group], launches: int, session_s: float, capability: str | None
) -> tuple[Group, ...]:
    """Groups of units of metrics with the least cost, by branch and bound."""
    launch_s = cache(partial(ncu_launch_seconds, capability=capability))
    best_groups: tuple[Group, ...] = ()
    best_cost = (float("inf"), 0)
    steps = 0

    def cost_of(groups: Sequence[Group]) -> tuple[float, int]:
        """Seconds of all launches and sessions, and the number of groups."""
        return len(groups) * session_s + launches * sum(map(launch_s, groups)), len(groups)

    def extend(groups: tuple[Group, ...], remaining: Sequence[Group]) -> None:
        """Try every group for the first remaining unit: a group that grows costs no less."""
        nonlocal best_groups, best_cost, steps
        cost = cost_of(groups)
        steps += 1
        if cost >= best_cost or (steps > _MOST_STEPS and best_groups):
            return
        if not remaining:
            best_groups, best_cost = groups, cost
            return
        for extended_groups in sorted(_extended_groups(remaining[0], groups), key=cost_of):
            extend(extended_groups, remaining[1:])

    extend((), units)
    return best_groups


def _extended_groups(unit: Group, groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """Groups with a unit added to each group in turn, or as a group by itself."""
    for number, group in enumerate(groups):
        yield (*groups[:number], (*group, *unit), *groups[number + 1 :])
    yield (*groups, unit)


Types = tuple[str, ...]
"""Types of the inputs of tensor cores, as in `queries.tensor_types`."""

_TIMING = ("duration_ns",)
"""Metrics of every timing session."""
_CYCLES = ("cycles",)
"""Metrics that confirm a difference in time, where each timed launch counts them. They cost a
launch 8 ms on an H200, which takes 8 ms with the duration alone."""

SESSION_S = 1.1
"""Seconds that one more session takes on an H200 beside its visits, although its start overlaps
with the session before: 0.35 for its context, 0.7 until its first launch is profiled."""


@dataclass(frozen=True)
class CounterSession:
    """Metrics that are counted in the same launches."""

    suffix: str
    """End of the session's name, by which it differs from sessions of other groupings."""
    metrics: tuple[str, ...]
    """The first is the duration: percentages are weighted by time."""
    types: frozenset[Types]
    """Types that tensor cores work on in the launches of this session."""


def timing_metrics(names: Iterable[str], *, with_cycles: bool) -> tuple[str, ...]:
    """Metrics of a timing session: the duration, metrics without a cost, and cycles if asked."""
    classes = (PassClass.TIMING, PassClass.STATIC)
    cheap_metrics = [name for name in _collected_metrics(names) if pass_class(name) in classes]
    required = (*_TIMING, *_CYCLES) if with_cycles else _TIMING
    excluded = frozenset(_CYCLES) - {*required}
    return tuple(
        dict.fromkeys((*required, *(name for name in cheap_metrics if name not in excluded)))
    )


def confirmation_metrics(timing: Iterable[str]) -> tuple[str, ...]:
    """Metrics of the confirmation that follows a timing session: cycles in any case."""
    return tuple(dict.fromkeys((*_TIMING, *_CYCLES, *timing)))


def with_cycles_counted(
    sessions: Sequence[CounterSession], every: Iterable[Types]
) -> tuple[CounterSession, ...] | None:
    """Counter sessions, of which the first of each types counts cycles; None if any types lack one.

    `every`: the types of all launches.
    """
    counting, without_session = with_metrics_in_first_session(sessions, _CYCLES, every)
    return None if without_session else counting


def with_metrics_in_first_session(
    sessions: Iterable[CounterSession], metrics: Iterable[str], every: Iterable[Types]
) -> tuple[tuple[CounterSession, ...], frozenset[Types]]:
    """Counter sessions with `metrics` in the first of each types; then types without a session.

    `every`: the types of all launches.
    """
    types_without_session = frozenset(every)
    extended_sessions = []
    for session in sessions:
        added = tuple(metrics) if types_without_session & session.types else ()
        all_metrics = tuple(dict.fromkeys((*session.metrics, *added)))
        extended_sessions.append(replace(session, metrics=all_metrics))
        types_without_session -= session.types
    return tuple(extended_sessions), types_without_session


def counter_sessions(
    names: Iterable[str],
    launches: Mapping[Types, int],
    session_s: float = SESSION_S,
    capability: str | None = None,
) -> tuple[CounterSession, ...]:
    """Sessions of counters that together take the least time.

    `launches`: number of launches by the types that tensor cores work on in them. Operations on
    other types are not counted in a launch, unless sessions for each type take longer. Derived
    metrics are replaced by the metrics of their formulas, and, on a GPU of this compute
    `capability`, metrics by their parts, if that takes less. Metrics without a cost, and metrics of
    the build, are left out. A metric brings the requested metrics of its `beside`.
    """
    all_types = frozenset(kind for types in launches for kind in types)
    metrics = without_other_types(_collected_metrics(names), all_types)
    layouts = (
        _layout(collected, launches, scopes, session_s, capability)
        for collected in dict.fromkeys((metrics, replaced_by_parts(metrics, capability)))
        for scopes in ([tuple(launches)], [(types,) for types in launches])
    )
    _, sessions = min(layouts, key=lambda layout: layout[0])
    return sessions


def shared_sessions(
    names: Iterable[str], every: Iterable[Types], capability: str | None
) -> tuple[CounterSession, ...]:
    """Sessions with all counters, for a tool to which another pass is just another launch.

    `every`: the types of all launches. One session for all, or one for each types without
    operations on other types, where leaving these out saves a pass. Metrics are counted by their
    parts on a GPU of this compute `capability`, as some sums take more passes.
    """
    collected = replaced_by_parts(_collected_metrics(names), capability)
    scopes = tuple(dict.fromkeys(every))
    counters_by_scope = [
        tuple(filter(_is_counter, without_other_operations(collected, types))) for types in scopes
    ]
    all_counters = tuple(n for n in collected if any(n in group for group in counters_by_scope))
    if all(
        conflicting_metrics(group, capability) == conflicting_metrics(all_counters, capability)
        for group in counters_by_scope
    ):
        counters_by_scope = [all_counters] * len(scopes)
    types_of: dict[Group, list[Types]] = {}
    for group, types in zip(counters_by_scope, scopes, strict=True):
        types_of.setdefault(group, []).append(types)
    suffixes: list[str] = []
    for group_types in types_of.values():
        kinds = frozenset(kind for types in group_types for kind in types)
        suffixes.append(_unique_suffix("", kinds, suffixes))
    return tuple(
        CounterSession(suffix, _with_beside(group, collected), frozenset(group_types))
        for suffix, (group, group_types) in zip(suffixes, types_of.items(), strict=True)
        if group
    )


def _layout(
    names: tuple[str, ...],
    launches: Mapping[Types, int],
    scopes: Iterable[tuple[Types, ...]],
    session_s: float,
    capability: str | None,
) -> tuple[float, tuple[CounterSession, ...]]:
    """Seconds of the cheapest sessions, and these sessions, each a group of metrics.

    All launches of the types of one scope have the same metrics.
    """
    types_of: dict[Group, tuple[Types, ...]] = {}
    suffixes: dict[Group, str] = {}
    seconds = 0.0
    for scope in scopes:
        kinds = frozenset(kind for types in scope for kind in types)
        count = sum(launches[types] for types in scope)
        counters = tuple(filter(_is_counter, without_other_operations(names, kinds)))
        groups = cheapest_groups(counters, count, session_s, capability)
        seconds += count * sum(ncu_launch_seconds(group, capability) for group in groups)
        for group in groups:
            types_of[group] = (*types_of.get(group, ()), *scope)
            suffix = _suffix(group, groups, counters, capability)
            suffixes.setdefault(group, _unique_suffix(suffix, kinds, suffixes.values()))
    return seconds + len(types_of) * session_s, tuple(
        CounterSession(suffix, _with_beside(group, names), frozenset(types_of[group]))
        for group, suffix in suffixes.items()
    )


def _collected_metrics(names: Iterable[str]) -> tuple[str, ...]:
    """Metrics that ncu collects: without derived metrics and metrics of the build."""
    return tuple(
        name for name in with_needed_metrics(names) if name not in CATALOGUE or CATALOGUE[name].ncu
    )


def _is_counter(name: str) -> bool:
    return pass_class(name) in (PassClass.SINGLE, PassClass.MULTI)


def _suffix(
    group: Group, groups: Sequence[Group], counters: Collection[str], capability: str | None
) -> str:
    """End of a session's name.

    Empty where the session has the first metric, else the short names of its metrics that do not
    fit in one pass with all other counters.
    """
    if len(groups) == 1:
        return "-together" if len(group) > 1 and is_replayed(group, capability) else ""
    if group == groups[0]:
        return ""
    in_conflict = conflicting_metrics(counters, capability)
    names = [name for name in group if name in in_conflict or pass_class(name) is PassClass.MULTI]
    return "".join(f"-{_short_name(name)}" for name in names)


def _short_name(name: str) -> str:
    return name.removeprefix("tensor_").removesuffix("_ops") if name.endswith("_ops") else name


def _unique_suffix(suffix: str, kinds: frozenset[str], used_suffixes: Collection[str]) -> str:
    """End of a session's name, with the types where another session has the same end."""
    return "-".join((suffix, *sorted(kinds))) if suffix in used_suffixes else suffix


def _with_beside(group: Group, collected: Sequence[str]) -> tuple[str, ...]:
    """The duration, metrics of a group, and metrics that must be of the same launch."""
    beside = {name for metric in group if metric in CATALOGUE for name in CATALOGUE[metric].beside}
    return tuple(
        dict.fromkeys(("duration_ns", *group, *(name for name in collected if name in beside)))
    )
