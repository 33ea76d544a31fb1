"""Verdicts in cells of tables: word, symbol and colour, and the numbers behind them on hover."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.rulings import CSS, ORDER, Ruling, counted, counts, word
from profiler.model import Verdict
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers


def verdict_datum(ruling: Ruling, without: str = "no verdict") -> Datum:
    """The verdict of one comparison; `without` says why there is none. Sorts best first."""
    if ruling.verdict is None:
        return Datum(title=without, css="verdict none")
    place = str(ORDER.index(ruling.verdict)) if ruling.verdict is not Verdict.NO_DATA else None
    return Datum(ruling.word, place, ruling.details, f"verdict {CSS[ruling.verdict]}")


def counts_datum(rulings: Sequence[Ruling]) -> Datum:
    """The verdicts of several problems: one word where all agree, else how often each was given."""
    known = [one for one in rulings if one.verdict is not None]
    if not known:
        return Datum(title="no verdict", css="verdict none")
    verdicts = list(dict.fromkeys(one.verdict for one in known if one.verdict))
    title = "; ".join(part for part in (counts(known), _worst(known)) if part)
    if len(verdicts) == 1:
        return Datum(word(verdicts[0]), None, title, f"verdict {CSS[verdicts[0]]}")
    return Datum(counted(known), None, title, "verdict")


def _worst(rulings: Sequence[Ruling]) -> str:
    """The comparison with the highest ratio: what a mean hides."""
    known = [one for one in rulings if not numbers.is_missing(one.ratio)]
    if not known:
        return ""
    worst = max(known, key=lambda one: one.ratio)
    return f"worst: {numbers.ratio(worst.ratio)}, {worst.word} ({worst.why})"
