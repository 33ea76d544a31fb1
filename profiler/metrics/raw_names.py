"""Raw names of ncu's metrics, against the list that ncu gives of a chip.

`chips/<chip>.txt.gz` holds what `ncu --query-metrics --chips <chip>` printed (2025.3.1): the name
of each metric without its suffixes, and the first letter of its type. Names of `launch__`, of
single instructions and a few others are in no such list, so that one which is like none of them is
left alone.
"""

from __future__ import annotations

import difflib
import gzip
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from profiler.metrics.catalogue import CATALOGUE

CHIPS: Mapping[str, str] = {
    "7.5": "tu102",
    "8.0": "ga100",
    "8.6": "ga102",
    "8.9": "ad102",
    "9.0": "gh100",
    "10.0": "gb100",
    "12.0": "gb202",
}
"""Chips whose lists are here, by compute capability."""
COMMONEST = "9.0"

_ROLLUPS = ("sum", "avg", "min", "max")
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "C": _ROLLUPS,
    "T": _ROLLUPS,
    "R": ("pct", "ratio", "max_rate"),
}
"""First suffixes by the type: counters, throughputs and ratios (Nsight Compute's profiling guide,
metrics decoder)."""
_OF_PEAK = "pct_of_peak_sustained_elapsed"
_MISTYPED = 0.9
"""How much alike two names are (difflib) of which one is the other, mistyped."""


@cache
def listed(capability: str) -> Mapping[str, str]:
    """Type of each metric of a chip by its name without suffixes; empty for other chips."""
    chip = CHIPS.get(capability)
    if chip is None:
        return {}
    packed = (files("profiler.metrics") / "chips" / f"{chip}.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    pairs = (line.partition(" ") for line in lines)
    return {name: kind for name, _, kind in pairs}


def misspelling(name: str, capability: str) -> str | None:
    """What is wrong with a raw name (`smsp__inst_executed.sum`) on a chip; None where nothing is.

    Names that the catalogue has are right.
    """
    base, *suffixes = name.split(".")
    metrics = listed(capability)
    if not metrics or name in _known():
        return None
    if base not in metrics:
        close = difflib.get_close_matches(base, metrics, n=1, cutoff=_MISTYPED)
        return f"; did you mean '{'.'.join([close[0], *suffixes])}'?" if close else None
    wanted = _SUFFIXES[metrics[base]]
    if not suffixes or suffixes[0] not in wanted:
        rest = f".{_OF_PEAK}" if metrics[base] == "T" else ""
        return f"; it is followed by {' or '.join(f'.{suffix}{rest}' for suffix in wanted)}"
    return None


@cache
def _known() -> frozenset[str]:
    return frozenset(
        name for metric in CATALOGUE.values() for name in metric.ncu.values() if name is not None
    )
