"""Which metrics ncu cannot count in the same pass over a kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import PassClass, pass_class
from profiler.metrics.raw_names import COMMONEST

_NAME_OF_RAW = {
    raw: metric.name
    for metric in CATALOGUE.values()
    for raw in metric.ncu.values()
    if raw is not None
}


def conflicts(capability: str | None) -> tuple[frozenset[str], ...]:
    """The smallest sets of metrics that do not fit in one pass, on this compute capability.

    A set of one metric needs several passes by itself. Of a GPU that is not known they are those of
    the newest one before it of its generation, else of the commonest. From
    `profiler.metrics.predicted_passes`.
    """
    known = _known()
    wanted = _number(capability or COMMONEST)
    older = [each for each in known if _number(each)[0] == wanted[0] and _number(each) <= wanted]
    return known[max(older, key=_number, default=COMMONEST)]


def is_replayed(names: Iterable[str], capability: str | None) -> bool:
    """Whether ncu needs several passes to count these, names or raw names, beside the duration."""
    asked = {_NAME_OF_RAW.get(name, name) for name in names}
    if any(pass_class(name) is PassClass.MULTI for name in asked):
        return True
    return any(together <= asked for together in conflicts(capability))


def contested(names: Iterable[str], capability: str | None) -> frozenset[str]:
    """Those of these metrics that do not fit in one pass with all others of them."""
    by_known_name = {_NAME_OF_RAW.get(name, name): name for name in names}
    return frozenset(
        by_known_name[name]
        for together in conflicts(capability)
        if together <= by_known_name.keys()
        for name in together
    )


@cache
def _known() -> Mapping[str, tuple[frozenset[str], ...]]:
    """Conflicts by compute capability."""
    text = (files("profiler.metrics") / "chips" / "conflicts.json").read_text(encoding="utf-8")
    return {
        capability: tuple(map(frozenset, sets)) for capability, sets in json.loads(text).items()
    }


def _number(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)
