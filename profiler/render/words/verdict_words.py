"""Symbol and CSS class of each verdict, and that on a run against the one before."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.comparison.run_entries import BestChange, RunEntry
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
CSS: Mapping[Verdict, str] = {
    verdict: f"is-{verdict.value.replace(' ', '-')}" for verdict in Verdict
}
ORDER = (Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR, Verdict.SLOWER, Verdict.NO_DATA)
"""Order in which columns sort verdicts, and counts name them."""


def word(verdict: Verdict) -> str:
    """Symbol and word of a verdict: `▼ FASTER`."""
    return f"{SYMBOLS[verdict]} {verdict.word}"


# ---- a run against the one before it -------------------------------------------------------------


def change_words(change: BestChange) -> str:
    """Verdict on a run against the one before it, with the number of problems and the worst."""
    text = word(change.verdict)
    if change.slower:
        count = len(change.verdicts)
        places = f" at {change.slower} of {count} problems" if count > 1 else ""
        text += f"{places}, {numbers.ratio(change.worst)} of its time"
    return f"{text}, against {change.older.folder}"


def best_words(run: RunEntry) -> str:
    """Ratio of what a run recommends to its baseline, by name; empty where it has none."""
    return "" if run.ratio is None else f"{best_range(run)} the time of {run.baseline}"


def best_range(run: RunEntry) -> str:
    """Ratio of what a run recommends to its baseline, and the interval if it has one."""
    if run.ratio is None:
        return numbers.MISSING
    interval = numbers.interval(run.ratio_low, run.ratio_high)
    return f"{numbers.ratio(run.ratio)} {interval}".rstrip()
