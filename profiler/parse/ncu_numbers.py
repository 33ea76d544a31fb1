"""Numbers as ncu writes them: separators of the machine's locale, and words for "nothing"."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np
import numpy.typing as npt

MISSING = (
    "", "no data", "n/a", "N/A", "nan", "NaN", "-nan", "-nan(ind)", "(!) nan", "(!) n/a",
    "(!) no data", "(!)",
    # A ratio whose denominator was zero was not measured either.
    "inf", "-inf", "(!) inf", "(!) -inf",
)  # fmt: skip
"""Cells that say that there is no value; `(!)` is how ncu marks a metric that went wrong."""

_MISSING = frozenset(MISSING)
_GROUP = 3
"""Digits between two separators of thousands."""


@dataclass(frozen=True)
class NumberStyle:
    """Notation of numbers in one table; ncu follows the locale of the machine that it ran on."""

    thousands: str = ","
    decimal: str = "."
    spaced: bool = False
    """Thousands are set apart by a space or an apostrophe."""


C_LOCALE = NumberStyle()
CONTINENTAL = NumberStyle(thousands=".", decimal=",")

# 0xff and 0xa0 are the no-break space of DOS and Windows code pages; decoded, they are U+FFFD.
_SPACES = " \u00a0\u2009\u202f'\u2019\ufffd"
SPACED_BYTES = re.compile(
    rb"(?<=\d)(?:\xe2\x80\xaf|\xe2\x80\x89|\xe2\x80\x99|\xc2\xa0|[ '\xa0\xff])"
    rb"(?=\d{3}(?!\d))"
)
"""A separator of thousands that is a space or an apostrophe, in UTF-8 or a code page."""

_SPACED = re.compile(rf"-?\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?")
_SEPARATORS = re.compile(rf"(?<=\d)[{_SPACES}](?=\d{{3}}(?!\d))")


def _evidence(thousands: str, decimal: str) -> re.Pattern[str]:
    """Numbers that can only be read one way: `1,234,567`, `1,234.5`, `73.20`, but not `117.344`."""
    t, d = re.escape(thousands), re.escape(decimal)
    return re.compile(
        rf"-?(?:\d{{1,3}}(?:{t}\d{{3}}){{2,}}(?:{d}\d+)?"
        rf"|\d{{1,3}}(?:{t}\d{{3}})+{d}\d+"
        rf"|\d+{d}(?:\d{{1,2}}|\d{{4,}}))"
    )


_C_EVIDENCE = _evidence(",", ".")
_CONTINENTAL_EVIDENCE = _evidence(".", ",")


def detect_style(cells: Iterable[str]) -> NumberStyle:
    """Notation by the numbers that allow one reading only; the C locale where none does."""
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
    """1 for a continental number, -1 for one of the C locale, else 0; whether it is spaced."""
    spaced = _SPACED.fullmatch(text) is not None
    plain = _SEPARATORS.sub("", text) if spaced else text  # the rest of the cell still votes
    continental, c_locale = _CONTINENTAL_EVIDENCE.fullmatch(plain), _C_EVIDENCE.fullmatch(plain)
    return bool(continental) - bool(c_locale), spaced


def parse_number(text: str, style: NumberStyle = C_LOCALE) -> float | None:
    """Number in a cell: NaN where ncu writes that it has none, None where it is a text."""
    return number_parser(style)(text)


@cache
def number_parser(style: NumberStyle) -> Callable[[str], float | None]:
    """`parse_number` of one notation, for many cells: most of them are one of few texts."""
    return lru_cache(maxsize=65536)(partial(_parsed, style))


def _parsed(style: NumberStyle, text: str) -> float | None:
    plain = text.strip().removeprefix("(!)").strip()
    if plain in _MISSING:
        return math.nan
    if style.spaced:
        plain = _SEPARATORS.sub("", plain)
    if not _number(style.thousands, style.decimal).fullmatch(plain):
        return None
    value = float(plain.replace(style.thousands, "").replace(style.decimal, "."))
    return value if math.isfinite(value) else math.nan


@lru_cache
def _number(thousands: str, decimal: str) -> re.Pattern[str]:
    """Numbers as ncu writes them: `90,45` is none where a comma sets thousands apart."""
    t, d = re.escape(thousands), re.escape(decimal)
    whole = rf"[1-9][0-9]{{0,2}}(?:{t}[0-9]{{3}})+|[0-9]+"
    return re.compile(rf"[+-]?(?:(?:{whole})(?:{d}[0-9]*)?|{d}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?")


def misplaced_separators(data: bytes, thousands: str) -> npt.NDArray[np.intp]:
    """Places in a page where digits are set apart otherwise than by thousands.

    In arrays: a regular expression takes as long as all else of a page.
    """
    zero, separator = ord("0"), ord(thousands)
    letters = np.frombuffer(b"%b%b%b" % (bytes(_GROUP), data, bytes(_GROUP + 1)), dtype=np.uint8)
    digits = (letters >= zero) & (letters <= ord("9"))
    at = np.flatnonzero(letters == separator)
    at = at[digits[at - 1]]
    before = [digits[at - place] for place in range(1, _GROUP + 2)]
    after = [digits[at + place] for place in range(1, _GROUP + 2)]
    is_group = np.logical_and.reduce(after[:_GROUP]) & ~after[_GROUP]
    zero_first = (letters[at - 1] == zero) & ~before[1] & (letters[at - 2] != separator)
    places: npt.NDArray[np.intp] = at[~is_group | np.logical_and.reduce(before) | zero_first]
    return places - _GROUP
