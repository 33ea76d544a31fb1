"""Regular expressions of files: those that may take longer than anybody waits are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

MAX_TEXT = 1_000
"""Longest text that is matched: longer ones do not match."""
MAX_STEPS = 2e8
"""Most steps of a match on such a text, some seconds: three `.*` are within it."""


@cache
def bounded_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression; ValueError where it is none, or may take more than MAX_STEPS."""
    try:
        compiled = re.compile(pattern)
        steps = _steps(re._parser.parse(pattern))  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if steps > MAX_STEPS:
        raise ValueError(
            "may take too long: repeats inside repeats, alternatives inside repeats, more than "
            "three repeats without end, or a reference to a group (limit MAX_STEPS in "
            "profiler/parse/patterns)"
        )
    return compiled


@lru_cache(maxsize=65536)
def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that `bounded_pattern` takes matches a whole text."""
    return len(text) <= MAX_TEXT and bounded_pattern(pattern).fullmatch(text) is not None


def _steps(items: Iterable[tuple[Any, Any]]) -> float:
    """Ways in which parts that follow each other can share a text among them, at most."""
    ways, repeats = 1.0, 0
    for operation, argument in items:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            repeats += most > MAX_TEXT
            ways *= _repeated(_steps(body), min(int(least), MAX_TEXT), min(int(most), MAX_TEXT))
        elif name == "BRANCH":
            ways *= sum(map(_steps, argument[1]))
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            ways *= _steps(argument if name == "ATOMIC_GROUP" else argument[-1])
        elif name.startswith("GROUPREF"):
            return math.inf
    return ways / math.factorial(min(repeats, 3))


def _repeated(body: float, least: int, most: int) -> float:
    """Ways of a repeat whose body has some; each turn has them anew."""
    if body > 1:
        return math.inf if most * math.log(body) > math.log(MAX_STEPS) + 1 else body**most
    return most - least + 1.0
