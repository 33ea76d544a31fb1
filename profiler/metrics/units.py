"""Units as ncu writes them, in any of its versions, and their base units.

Base units: `ns` for time, `byte`, `hz`, `%`, and every countable thing (`inst`, `sector`, `cycle`,
`warp`, ...) as itself; rates are per `s`, per `cycle` or per whatever ncu divides by. Live runs
with `--csv` print base units, `--import` prints scaled ones (`us`, `Mbyte`, `Ghz`), and older
versions spell them out (`nsecond`, `Gbyte/second`, `cycle/nsecond`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class BaseUnit:
    """Base unit of a unit: `value_in_base = value * factor`, in `unit`."""

    unit: str
    factor: float


# ncu's own scale: 213,188 byte of dynamic shared memory and 1,024 of the driver appear as
# "214.212000 Kbyte/block", so K is 1000, not 1024.
_PREFIXES = {"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}

_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "msecond": 1e-3,
    "us": 1e-6, "usec": 1e-6, "usecond": 1e-6, "µs": 1e-6, "μs": 1e-6,
    "ns": 1e-9, "nsec": 1e-9, "nsecond": 1e-9, "nanosecond": 1e-9,
    "ps": 1e-12, "psec": 1e-12, "psecond": 1e-12,
}  # fmt: skip

_SYNONYMS = {
    "bytes": "byte", "B": "byte", "hertz": "hz", "percent": "%",
    "cycles": "cycle", "instructions": "inst",
    "sectors": "sector", "registers": "register", "warps": "warp", "threads": "thread",
    "blocks": "block", "requests": "request",
}  # fmt: skip

_SCALED_WORDS = frozenset(
    {"byte", "bit", "hz", "inst", "sector", "cycle", "warp", "thread", "request"}
)
"""Words that a prefix may stand before; `Mbyte` is scaled, but `Texture` is a word of its own."""

_NS_PER_S = 1e9


@lru_cache(maxsize=1024)
def base_unit(unit: str) -> BaseUnit:
    """Base unit and factor of a unit string; an unknown unit is its own base. Never raises."""
    text = unit.strip()
    numerator, slash, denominator = text.partition("/")
    if not slash:
        return _time(text) or _plain(text)
    top = _plain(numerator)
    if denominator in _SECONDS:
        return _per_second(top, denominator)
    if denominator == "":
        return BaseUnit(text, 1.0)
    bottom = _plain(denominator)
    return BaseUnit(f"{top.unit}/{bottom.unit}", top.factor / bottom.factor)


_DIMENSIONS = (
    (re.compile(r"__time_duration"), "ns"),
    (re.compile(r"__(\w+_)?bytes(_\w+)?\.(sum|avg|max|min)$"), "byte"),
    (re.compile(r"\.pct$|\.pct_of_peak_\w+$"), "%"),
)
"""What ncu's names say of the base unit of a metric."""


def factor_to_base(metric: str, unit: str) -> float:
    """Factor from the unit that a file gives a metric to its base unit.

    NaN where that cannot be a unit of the metric: a time in `uq` is no time in ns.
    """
    base = base_unit(unit)
    for name, dimension in _DIMENSIONS:
        if unit.strip() and name.search(metric) and base.unit != dimension:
            return math.nan
    return base.factor


def is_known(unit: str) -> bool:
    """Whether this is a unit that we would recognise beside a label, as in `duration [ns]`."""
    units = {"%", "block", "register", *_SCALED_WORDS}
    numerator = unit.strip().partition("/")[0]
    return numerator in _SECONDS or _plain(numerator).unit in units


def _time(text: str) -> BaseUnit | None:
    seconds = _SECONDS.get(text)
    # Rounded, because 1e-6 * 1e9 is 1000.0000000000001 in floating point.
    return None if seconds is None else BaseUnit("ns", float(f"{seconds * _NS_PER_S:.12g}"))


def _per_second(top: BaseUnit, denominator: str) -> BaseUnit:
    factor = float(f"{top.factor / _SECONDS[denominator]:.12g}")
    if top.unit == "cycle":
        return BaseUnit("hz", factor)
    return BaseUnit(f"{top.unit}/s", factor)


def _plain(text: str) -> BaseUnit:
    """Unit of something that is not a time, with its decimal prefix resolved."""
    word = _canonical(text)
    if word in _SCALED_WORDS:
        return BaseUnit(word, 1.0)
    prefix, rest = text[:1], _canonical(text[1:])
    if prefix in _PREFIXES and rest in _SCALED_WORDS:
        return BaseUnit(rest, _PREFIXES[prefix])
    return BaseUnit(word, 1.0)


def _canonical(word: str) -> str:
    lowered = word.lower()
    if lowered in ("hz", "byte", "bytes", "hertz"):
        return _SYNONYMS.get(lowered, lowered)
    return _SYNONYMS.get(word, word)
