"""Verdicts in cells of tables: word, symbol and colour, and the numbers behind them on hover."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.verdicts import PairVerdict
from profiler.model import Verdict
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.verdict_words import CSS, ORDER
from profiler.render.words.verdicts import (
    counted,
    counts,
    details,
    reason_and_blocks,
    word_of,
    word_of_all,
)


def verdict_datum(pair: PairVerdict, without: str = "no verdict") -> Datum:
    """The verdict of one comparison; `without` is the reason for none. Sorts best first."""
    if pair.verdict is None:
        return Datum(title=without, css="verdict none")
    place = str(ORDER.index(pair.verdict)) if pair.verdict is not Verdict.NO_DATA else None
    return Datum(word_of(pair), place, details(pair), f"verdict {CSS[pair.verdict]}")


def counts_datum(pairs: Sequence[PairVerdict]) -> Datum:
    """The verdicts of several problems: one word where all agree, else how often each was given."""
    judged = [pair for pair in pairs if pair.verdict is not None]
    if not judged:
        return Datum(title="no verdict", css="verdict none")
    verdicts = list(dict.fromkeys(pair.verdict for pair in judged if pair.verdict))
    title = "; ".join(part for part in (counts(judged), _worst(judged)) if part)
    if len(verdicts) == 1:
        return Datum(word_of_all(judged), None, title, f"verdict {CSS[verdicts[0]]}")
    return Datum(counted(judged), None, title, "verdict")


def _worst(pairs: Sequence[PairVerdict]) -> str:
    """The comparison with the highest ratio: what a mean hides."""
    with_ratio = [pair for pair in pairs if not numbers.is_missing(pair.ratio)]
    if not with_ratio:
        return ""
    worst = max(with_ratio, key=lambda pair: pair.ratio)
    return f"worst: {numbers.ratio(worst.ratio)}, {word_of(worst)} ({reason_and_blocks(worst)})"
