r"""Text from outside made safe to show: on a terminal, in SVG, in HTML, in JSON.

Names of kernels, ranges and variants, causes of failures, messages of tools: all can hold half
of a character, which no file can, a code point that no XML can, an escape sequence that a terminal
obeys, or a mark that turns the text after it around. Such code points become their escapes
(`\\x1b`), so that two names which differ stay different. Text is made safe where a run or an
imported file has been read, before any analysis, and where a text is printed at once.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from operator import is_
from typing import Any, TypeVar

T = TypeVar("T")

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION_MARKS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINE_ENDS = r"\u2028\u2029"
_INVISIBLE = r"\u206a-\u206f\ufff9-\ufffb\U000e0000-\U000e007f"
"""Deprecated code points, annotations and tags: an invisible text inside a text."""
_SURROGATES = r"\ud800-\udfff"
_NO_CHARACTERS = r"\ufdd0-\ufdef" + "".join(
    rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(17)
)
_UNSAFE = re.compile(
    f"[{_CONTROLS}{_DIRECTION_MARKS}{_LINE_ENDS}{_INVISIBLE}{_SURROGATES}{_NO_CHARACTERS}]"
)
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
"""Code points for bytes of a file's name that are no UTF-8, as Python decodes them."""


def safe(text: str) -> str:
    """Text with every unsafe code point as its escape; the same object where all are safe.

    Tabs and newlines stay; line ends of Windows become newlines.
    """
    if (text.isascii() and text.isprintable()) or _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def safe_values(value: T, leaf: Callable[[Any], Any] = lambda value: value) -> T:
    """Copy of a value with every text safe, at any depth; the same object where all texts are safe.

    Goes through mappings with their keys, lists, tuples and dataclasses; `leaf` makes anything else
    safe.
    """
    safe_value: T = _SafeCopies(leaf).copy_of(value)
    return safe_value


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if _FIRST_BYTE <= code <= _LAST_BYTE:
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class _SafeCopies:
    """Safe copies of the parts of one value; a part that occurs many times is copied once."""

    def __init__(self, leaf: Callable[[Any], Any]) -> None:
        self._leaf = leaf
        self._copies: dict[int, Any] = {}

    def copy_of(self, value: Any) -> Any:
        if isinstance(value, str):
            return safe(value)
        if value is None or isinstance(value, int | float):
            return value
        copy = self._copies.get(id(value))
        if copy is None:
            copy = self._copies[id(value)] = self._copy_of_container(value)
        return copy

    def _copy_of_container(self, value: Any) -> Any:
        kind: type = type(value)
        names = _field_names(kind)
        if names is not None:
            return self._dataclass(value, names)
        if isinstance(value, Mapping):
            pairs = [(self.copy_of(key), self.copy_of(item)) for key, item in value.items()]
            return value if _is_same_mapping(value.items(), pairs) else dict(pairs)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            items = [self.copy_of(item) for item in value]
            return value if all(map(is_, value, items)) else type(value)(items)
        return self._leaf(value)

    def _dataclass(self, value: Any, names: tuple[str, ...]) -> Any:
        changed = {
            name: copy
            for name in names
            if (copy := self.copy_of(item := getattr(value, name))) is not item
        }
        return dataclasses.replace(value, **changed) if changed else value


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Names of a dataclass's fields that its constructor takes; None for other types."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)


def _is_same_mapping(items: Any, pairs: list[tuple[Any, Any]]) -> bool:
    return all(
        key is new_key and item is new_item
        for (key, item), (new_key, new_item) in zip(items, pairs, strict=True)
    )


# ---- regular expressions of files ----------------------------------------------------------------

MAX_MATCHED = 1_000
"""Longest text that a pattern from a file is matched with: longer texts do not match."""
MAX_STEPS = 2e8
"""Most steps of a match on a text of MAX_MATCHED letters, some seconds: three `.*` need fewer."""


@cache
def bounded_pattern(pattern: str) -> re.Pattern[str]:
    """Compiled regular expression; ValueError for an invalid one, or for more than MAX_STEPS."""
    try:
        compiled = re.compile(pattern)
        steps = _steps(re._parser.parse(pattern))  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if steps > MAX_STEPS:
        raise ValueError(
            "may take too long: repeats inside repeats, alternatives inside repeats, more than "
            "three repeats without end, or a reference to a group (limit MAX_STEPS in "
            "profiler/outside_text)"
        )
    return compiled


@lru_cache(maxsize=65536)
def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that `bounded_pattern` takes matches a whole text."""
    return len(text) <= MAX_MATCHED and bounded_pattern(pattern).fullmatch(text) is not None


def _steps(items: Iterable[tuple[Any, Any]]) -> float:
    """Most ways in which consecutive parts of a pattern can divide a text among them."""
    ways, repeats = 1.0, 0
    for operation, argument in items:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            repeats += most > MAX_MATCHED
            ways *= _repeated(
                _steps(body), min(int(least), MAX_MATCHED), min(int(most), MAX_MATCHED)
            )
        elif name == "BRANCH":
            ways *= sum(map(_steps, argument[1]))
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            ways *= _steps(argument if name == "ATOMIC_GROUP" else argument[-1])
        elif name.startswith("GROUPREF"):
            return math.inf
    return ways / math.factorial(min(repeats, 3))


def _repeated(body: float, least: int, most: int) -> float:
    """Ways of a repeat, given the ways of its body, which every repetition has anew."""
    if body > 1:
        return math.inf if most * math.log(body) > math.log(MAX_STEPS) + 1 else body**most
    return most - least + 1.0


# ---- Markdown ------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINE_END = re.compile(r"\s*\n\s*")


def escaped_markdown(text: str) -> str:
    """Text with Markdown's special characters escaped, in one line."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", _LINE_END.sub(" ", text))
