"""Symbol, word and CSS class of each verdict."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.model import Verdict
from profiler.render.words import numbers

SYMBOLS: Mapping[Verdict, str] = {
    Verdict.FASTER: "\u25bc",
    Verdict.SLOWER: "\u25b2",
    Verdict.SAME: "=",
    Verdict.UNCLEAR: "?",
    Verdict.NO_DATA: numbers.MISSING,
}
"""Time goes down, goes up, stays."""
WORDS: Mapping[Verdict, str] = {verdict: verdict.value.upper() for verdict in Verdict}
CSS: Mapping[Verdict, str] = {
    verdict: f"is-{verdict.value.replace(' ', '-')}" for verdict in Verdict
}
ORDER = (Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR, Verdict.SLOWER, Verdict.NO_DATA)
"""As columns sort and as counts are said."""


def word(verdict: Verdict) -> str:
    """Symbol and word of a verdict: `▼ FASTER`."""
    return f"{SYMBOLS[verdict]} {WORDS[verdict]}"
