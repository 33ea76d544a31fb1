"""Numbers and units as ncu writes them: separators of the machine's locale, words for "nothing".

Base units: `ns` for time, `byte`, `hz`, `%`, and every countable thing (`inst`, `sector`, `cycle`,
`warp`, ...) as itself; rates are per `s`, per `cycle` or per whatever ncu divides by. Live runs
with `--csv` print base units, `--import` prints scaled ones (`us`, `Mbyte`, `Ghz`), and older
versions spell them out (`nsecond`, `Gbyte/second`, `cycle/nsecond`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

MISSING = (
    "", "no data", "n/a", "N/A", "nan", "NaN", "-nan", "-nan(ind)", "(!) nan", "(!) n/a",
    "(!) no data", "(!)",
    # A ratio whose denominator was zero was not measured either.
    "inf", "-inf", "(!) inf", "(!) -inf",
)  # fmt: skip
"""Cells without a value; ncu marks a metric that failed with `(!)`."""

_MISSING = frozenset(MISSING)


@dataclass(frozen=True)
class NumberStyle:
    """Notation of numbers in one table; ncu follows the locale of the machine that it ran on."""

    thousands: str = ","
    decimal: str = "."
    spaced: bool = False
    """Whether thousands are separated by a space or an apostrophe."""


C_LOCALE = NumberStyle()
_MOST_TEXTS = 1 << 16
"""Texts whose numbers are kept."""
CONTINENTAL = NumberStyle(thousands=".", decimal=",")

# 0xff and 0xa0 are the no-break space of DOS and Windows code pages; decoded, they are U+FFFD.
_SPACES = " \u00a0\u2009\u202f'\u2019\ufffd"
_SPACED = re.compile(rf"-?\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?")
_SEPARATORS = re.compile(rf"(?<=\d)[{_SPACES}](?=\d{{3}}(?!\d))")


def _unambiguous_number(thousands: str, decimal: str) -> re.Pattern[str]:
    """Pattern of numbers with one reading: `1,234,567`, `1,234.5`, `73.20`, but not `117.344`."""
    t, d = re.escape(thousands), re.escape(decimal)
    return re.compile(
        rf"-?(?:\d{{1,3}}(?:{t}\d{{3}}){{2,}}(?:{d}\d+)?"
        rf"|\d{{1,3}}(?:{t}\d{{3}})+{d}\d+"
        rf"|\d+{d}(?:\d{{1,2}}|\d{{4,}}))"
    )


_C_EVIDENCE = _unambiguous_number(",", ".")
_CONTINENTAL_EVIDENCE = _unambiguous_number(".", ",")


def detect_style(cells: Iterable[str]) -> NumberStyle:
    """Notation by the numbers that have one reading only; the C locale without any such number."""
    votes, spaced = 0, False
    for text, count in Counter(cells).items():  # most cells of a page are one of few texts
        if not text.isdecimal():
            vote, is_spaced = _vote(text)
            votes += count * vote
            spaced |= is_spaced
    style = CONTINENTAL if votes > 0 else C_LOCALE
    return NumberStyle(style.thousands, style.decimal, spaced=True) if spaced else style


@lru_cache(maxsize=65536)
def _vote(text: str) -> tuple[int, bool]:
    """1 for a continental number, -1 for a number of the C locale, else 0; whether it is spaced."""
    spaced = _SPACED.fullmatch(text) is not None
    plain = _SEPARATORS.sub("", text) if spaced else text  # its decimal separator still votes
    continental, c_locale = _CONTINENTAL_EVIDENCE.fullmatch(plain), _C_EVIDENCE.fullmatch(plain)
    return bool(continental) - bool(c_locale), spaced


def parse_number(text: str, style: NumberStyle = C_LOCALE) -> float | None:
    """Number in a cell: NaN where ncu has no value, None where the cell is a text."""
    return number_parser(style)(text)


@cache
def number_parser(style: NumberStyle) -> Callable[[str], float | None]:
    """`parse_number` of one notation for many cells, most of which are one of few texts."""
    return lru_cache(_MOST_TEXTS)(partial(_parse_text, style))


def _parse_text(style: NumberStyle, text: str) -> float | None:
    plain = text.strip().removeprefix("(!)").strip()
    if plain in _MISSING:
        return math.nan
    if style.spaced:
        plain = _SEPARATORS.sub("", plain)
    if not _number(style.thousands, style.decimal).fullmatch(plain):
        return None
    value = float(plain.replace(style.thousands, "").replace(style.decimal, "."))
    return value if math.isfinite(value) else None  # beyond all floats: no number that ncu writes


@lru_cache
def _number(thousands: str, decimal: str) -> re.Pattern[str]:
    """Pattern of numbers as ncu writes them: not `90,45` where a comma separates thousands."""
    t, d = re.escape(thousands), re.escape(decimal)
    integer_part = rf"[1-9][0-9]{{0,2}}(?:{t}[0-9]{{3}})+|[0-9]+"
    return re.compile(
        rf"[+-]?(?:(?:{integer_part})(?:{d}[0-9]*)?|{d}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    )


# ---- units ---------------------------------------------------------------------------------------


BaseUnit = tuple[str, float]
"""A base unit, and the factor to it: `value_in_base = value * factor`."""


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
"""Words that may have a prefix: `Mbyte` is scaled, but `Texture` is a word by itself."""

_NS_PER_S = 1e9


@lru_cache(maxsize=1024)
def base_unit(unit: str) -> BaseUnit:
    """Base unit and factor of a unit string; an unknown unit is its own base unit. Never raises."""
    text = unit.strip()
    numerator, slash, denominator = text.partition("/")
    if not slash:
        return _time_unit(text) or _countable_unit(text)
    top = _countable_unit(numerator)
    if denominator in _SECONDS:
        return _rate_unit(*top, denominator)
    if denominator == "":
        return text, 1.0
    bottom = _countable_unit(denominator)
    return f"{top[0]}/{bottom[0]}", top[1] / bottom[1]


_DIMENSIONS = (
    (re.compile(r"__time_duration"), "ns"),
    (re.compile(r"__(\w+_)?bytes(_\w+)?\.(sum|avg|max|min)$"), "byte"),
    (re.compile(r"\.pct$|\.pct_of_peak_\w+$"), "%"),
)
"""Base units of metrics by patterns of their names."""


def factor_to_base(metric: str, unit: str) -> float:
    """Factor from the unit that a file gives a metric to its base unit.

    NaN where the unit cannot be one of the metric: a time in `uq` is no time in ns.
    """
    base, factor = base_unit(unit)
    for name, dimension in _DIMENSIONS:
        if unit.strip() and name.search(metric) and base != dimension:
            return math.nan
    return factor


def is_duration(metric: str) -> bool:
    """Whether the name of a metric says that it is a time, which ncu writes with its unit."""
    return _DIMENSIONS[0][0].search(metric) is not None


def is_known_unit(unit: str) -> bool:
    """Whether a text is a unit that may stand beside a label, as in `duration [ns]`."""
    units = {"%", "block", "register", *_SCALED_WORDS}
    numerator = unit.strip().partition("/")[0]
    return numerator in _SECONDS or _countable_unit(numerator)[0] in units


def _time_unit(text: str) -> BaseUnit | None:
    seconds = _SECONDS.get(text)
    # Rounded, because 1e-6 * 1e9 is 1000.0000000000001 in floating point.
    return None if seconds is None else ("ns", float(f"{seconds * _NS_PER_S:.12g}"))


def _rate_unit(unit: str, factor: float, denominator: str) -> BaseUnit:
    per_second = float(f"{factor / _SECONDS[denominator]:.12g}")
    return "hz" if unit == "cycle" else f"{unit}/s", per_second


def _countable_unit(text: str) -> BaseUnit:
    """Unit of something that is not a time, with its decimal prefix resolved."""
    word = _canonical_word(text)
    if word in _SCALED_WORDS:
        return word, 1.0
    prefix, unprefixed = text[:1], _canonical_word(text[1:])
    if prefix in _PREFIXES and unprefixed in _SCALED_WORDS:
        return unprefixed, _PREFIXES[prefix]
    return word, 1.0


def _canonical_word(word: str) -> str:
    lowered = word.lower()
    if lowered in ("hz", "byte", "bytes", "hertz"):
        return _SYNONYMS.get(lowered, lowered)
    return _SYNONYMS.get(word, word)
