"""Runs over time in words: the best of a run, and its verdict against the run before."""

from __future__ import annotations

from profiler.comparison.run_entries import RunEntry
from profiler.findings.runs.history import BestChange
from profiler.render.words import numbers
from profiler.render.words.verdict_words import word


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
