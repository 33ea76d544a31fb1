"""What a launch under ncu takes by what it is asked for, and which metrics need several passes.

The seconds are those of `benchmarks/speed/launch_costs.py` on an H200 (ncu 2025.3.1), for a kernel
that takes no time itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from profiler.metrics.queries import PassClass, catalogue_name, ncu_name, ncu_names, pass_class
from profiler.metrics.raw_names import COMMONEST


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
