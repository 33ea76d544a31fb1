"""Which metrics ncu cannot count in the same pass over a kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from profiler.metrics.queries import PassClass, catalogue_name, pass_class
from profiler.metrics.raw_names import COMMONEST


def conflicts(capability: str | None) -> tuple[frozenset[str], ...]:
    """The smallest sets of metrics that do not fit in one pass, on this compute capability.

    A set of one metric needs several passes by itself. Of a GPU that is not known they are those of
    the newest one before it of its generation, else of the commonest. From
    `profiler.metrics.predicted_passes`.
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
