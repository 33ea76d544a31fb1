"""Which metrics share a session: what a launch costs under ncu, and which grouping costs least."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import (
    PassClass,
    in_parts,
    ncu_names,
    of_operations,
    of_types,
    pass_class,
    with_needs,
)

Types = tuple[str, ...]
"""Types of the inputs of tensor cores, as in `queries.tensor_types`."""

_TIMING = ("duration_ns",)
"""Of every timing session."""
_CYCLES = ("cycles",)
"""What confirms a difference in time. Beside the duration they cost a launch 8 ms on an H200, which
alone takes 8 ms: a cell's clock hardly moves, so one launch of it tells cycles from its durations
(`analyse/clocks.py: cell_clocks`)."""

_LAUNCH_S = 0.01
_REPLAY_S = 0.09
_SINGLE_S, _ALONE_S, _MULTI_S = 0.04, 0.02, 0.03
"""Seconds of a launch under ncu on an H200, for a kernel that takes no time itself: with the
duration alone; more where the kernel is replayed, in however few passes; with all of class SINGLE,
with what has a pass ALONE, and with each of class MULTI. Measured: SINGLE 0.040, hits of L2 0.026,
operations on bf16 0.012, SINGLE with these 0.123 and with both 0.141 (three passes), operations on
fp16 0.114 (three passes), FP32 operations 0.090 (three passes), both 0.122, with SINGLE and hits
of L2 0.187. A kernel of 25 ms took 0.05, 0.05, 0.05, 0.20, 0.22, 0.20, 1.59, 1.66 and 1.74 s: to
count FP32 operations ncu rewrites its machine code."""
_HGMMA = "tensor_fp16_hgmma_ops"
_HMMA_TO_FP32, _HMMA_TO_FP16 = "tensor_fp16_hmma_to_fp32_ops", "tensor_fp16_hmma_to_fp16_ops"
_SHARE_A_PASS = (
    frozenset({"l2_hit_sectors", "tensor_bf16_ops"}),
    frozenset({"l2_hit_sectors", _HGMMA, _HMMA_TO_FP32}),
    frozenset({"l2_hit_sectors", _HMMA_TO_FP16}),
)
"""Of class ALONE, but with one another: a launch took 0.031 s with the first two, 0.048 with the
second three and 0.032 with the last two, 0.026 with hits of L2; of one pass all."""
_OF_ALONE_S = {
    "tensor_bf16_ops": 0.004,
    _HGMMA: 0.025,
    _HMMA_TO_FP32: 0.004,
    _HMMA_TO_FP16: 0.004,
}
"""Seconds in place of those of ALONE."""
_REPLAYED_RUNS, _REWRITTEN_RUNS = 7.5, 25.0
"""How many times a kernel's own time a launch takes longer: where it is replayed, 7.0 to 8.0 in
recordings of attention, where its machine code is rewritten 22 to 50; else 1.0 to 1.1."""
_REWRITING = "smsp__sass_"
"""Beginning of the names of what ncu counts by rewriting the machine code."""
_MOST_MULTI_S = 0.3
"""Of several that share passes: a launch with the default counters (15 passes) takes 0.45 s."""
SESSION_S = 0.8
"""Seconds that one more session takes there beside its visits, although its start overlaps with the
session before: its context, and the end of the ncu before."""


@dataclass(frozen=True)
class CounterSession:
    """Metrics that are counted in the same launches."""

    suffix: str
    """End of the session's name: it tells a session from those of other groupings."""
    metrics: tuple[str, ...]
    """The first is the duration: percentages are weighted by time."""
    types: frozenset[Types]
    """Of which launches: by the types that tensor cores work on in them."""


@dataclass(frozen=True)
class _Unit:
    """Metrics that fit in one pass, or all that need several: what is grouped."""

    name: str
    metrics: tuple[str, ...]
    seconds: float
    """What it adds to a launch."""
    is_replayed: bool = False


_Group = tuple[_Unit, ...]


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
    whole = of_types(_collected(names), named)
    layouts = (
        _layout(collected, launches, scopes, session_s)
        for collected in dict.fromkeys((whole, in_parts(whole, capability)))
        for scopes in ([tuple(launches)], [(types,) for types in launches])
    )
    layout = min(layouts, key=lambda layout: layout.seconds)
    return tuple(
        CounterSession(suffix, _with_beside(group, layout.names), frozenset(layout.types[group]))
        for group, suffix in layout.suffixes.items()
    )


@dataclass
class _Layout:
    """Sessions, each a group of units, with the types of the launches that are asked for them."""

    names: tuple[str, ...]
    """Metrics that are counted."""
    types: dict[_Group, tuple[Types, ...]]
    suffixes: dict[_Group, str]
    seconds: float


def _layout(
    names: tuple[str, ...],
    launches: Mapping[Types, int],
    scopes: Iterable[tuple[Types, ...]],
    session_s: float,
) -> _Layout:
    """The cheapest sessions where launches of the types of one scope are asked for the same."""
    layout = _Layout(names, {}, {}, 0.0)
    for scope in scopes:
        kinds = frozenset(kind for types in scope for kind in types)
        count = sum(launches[types] for types in scope)
        units = tuple(_units(of_operations(names, kinds)))
        groups = _cheapest(units, count, session_s)
        layout.seconds += count * sum(_launch_s(group) for group in groups)
        for group in groups:
            layout.types[group] = (*layout.types.get(group, ()), *scope)
            layout.suffixes.setdefault(group, _free_suffix(group, units, kinds, layout.suffixes))
    layout.seconds += len(layout.types) * session_s
    return layout


def _cheapest(units: Sequence[_Unit], launches: int, session_s: float) -> tuple[_Group, ...]:
    """The grouping that takes the least time for so many launches; the fewest groups of equal."""

    def cost(groups: tuple[_Group, ...]) -> tuple[float, int]:
        visits_s = sum(_launch_s(group) for group in groups)
        return len(groups) * session_s + launches * visits_s, len(groups)

    return min(_partitions(units), key=cost)


def counter_visit_seconds(names: Iterable[str]) -> float:
    """Rough duration of a visit of a counter session, on a GPU like an H200.

    For a kernel that takes no time itself.
    """
    return _launch_s(_counted(names))


def kernel_runs(names: Iterable[str]) -> float:
    """How many times a kernel's own time a visit of a counter session takes, beside those seconds.

    ncu replays a kernel whose counters need several passes, each time with its memory restored.
    """
    counted = tuple(names)
    if any(raw.startswith(_REWRITING) for raw in ncu_names(counted)):
        return _REWRITTEN_RUNS
    return _REPLAYED_RUNS if _is_replayed(_counted(counted)) else 1.0


def _counted(names: Iterable[str]) -> _Group:
    """What a session of these metrics is asked for; what comes `beside` another costs nothing."""
    counted = tuple(names)
    beside = {other for name in counted if name in CATALOGUE for other in CATALOGUE[name].beside}
    return tuple(_units([name for name in counted if name not in beside]))


def _collected(names: Iterable[str]) -> tuple[str, ...]:
    """What ncu is asked for: without derived metrics and those of the build."""
    return tuple(name for name in with_needs(names) if name not in CATALOGUE or CATALOGUE[name].ncu)


def _units(names: Sequence[str]) -> Iterator[_Unit]:
    """What shares a pass, what has one alone, and what is replayed; none where there is nothing."""
    single = tuple(name for name in names if pass_class(name) is PassClass.SINGLE)
    multi = tuple(name for name in names if pass_class(name) is PassClass.MULTI)
    if single:
        yield _Unit("single", single, _SINGLE_S)
    for name in names:
        if pass_class(name) is PassClass.ALONE:
            yield _Unit(name, (name,), _OF_ALONE_S.get(name, _ALONE_S))
    if multi:
        yield _Unit("replayed", multi, min(_MOST_MULTI_S, len(multi) * _MULTI_S), is_replayed=True)


def _launch_s(group: Sequence[_Unit]) -> float:
    """Seconds of a launch that is asked for all of these."""
    return _LAUNCH_S + _is_replayed(group) * _REPLAY_S + sum(unit.seconds for unit in group)


def _is_replayed(group: Sequence[_Unit]) -> bool:
    """Whether these need more than one pass."""
    names = {unit.name for unit in group}
    several = len(group) > 1 and not any(names <= shared for shared in _SHARE_A_PASS)
    return several or any(unit.is_replayed for unit in group)


def _partitions(units: Sequence[_Unit]) -> Iterator[tuple[_Group, ...]]:
    """Every way to put units into groups; groups are in the order of their first units."""
    if not units:
        yield ()
        return
    *others, last = units
    for groups in _partitions(others):
        yield (*groups, (last,))
        for number, group in enumerate(groups):
            yield (*groups[:number], (*group, last), *groups[number + 1 :])


def _suffix(group: Sequence[_Unit], units: Sequence[_Unit]) -> str:
    """What a session's name ends in; nothing where it has no unit but the first of all."""
    if tuple(group) == tuple(units[:1]):
        return ""
    if len(group) == len(units):
        return "-together"
    names = (unit.name.removeprefix("tensor_").removesuffix("_ops") for unit in group)
    return "".join(f"-{name}" for name in names)


def _free_suffix(
    group: _Group, units: Sequence[_Unit], kinds: frozenset[str], taken: Mapping[_Group, str]
) -> str:
    """What a session's name ends in; with the types where another session has the same end."""
    suffix = _suffix(group, units)
    if suffix not in taken.values():
        return suffix
    return "-".join((suffix, *sorted(kinds)))


def _with_beside(group: Sequence[_Unit], collected: Sequence[str]) -> tuple[str, ...]:
    """The duration, metrics of a group, and those that must be of the same launch."""
    metrics = [name for unit in group for name in unit.metrics]
    beside = {name for each in metrics if each in CATALOGUE for name in CATALOGUE[each].beside}
    return tuple(
        dict.fromkeys(("duration_ns", *metrics, *(name for name in collected if name in beside)))
    )
