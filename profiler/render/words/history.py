"""Runs over time in words: the best of a run, and its verdict against the run before."""

from __future__ import annotations

from profiler.comparison.run_entries import RunEntry
from profiler.findings.runs.history import BestChange, BestPoint, point_of
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


def best_words(point: BestPoint) -> str:
    """The best of a run relative to its baseline, with the interval."""
    count = len(point.entry.best)
    mean = f", geometric mean of {count} problems" if count > 1 else ""
    return f"{_range(point)} of the time of {point.entry.baseline}{mean}"


def best_range(run: RunEntry) -> str:
    """The best of a run relative to its baseline: ratio and interval."""
    return _range(point_of(run)) if run.best else numbers.MISSING


def _range(point: BestPoint) -> str:
    low, high = numbers.ratio(point.low), numbers.ratio(point.high)
    return f"{numbers.ratio(point.ratio)} [{low}, {high}]"
