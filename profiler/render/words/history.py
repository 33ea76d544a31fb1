"""Sentences of a history: since when a cell is as it is, what moved it, how the newest run is."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.history.trends import Cause, Change, Control, History, Trend, find_control
from profiler.notices import counted
from profiler.render.words import numbers

CAUSE_WORDS = {
    Cause.KERNEL: "the kernel",
    Cause.BASELINE: "the baseline's kernel",
    Cause.MACHINE: "machine, driver or versions",
}
_CAUSE_REASONS = {
    Cause.KERNEL: "its own level moved, and not that of the others",
    Cause.BASELINE: "the ratios of the others moved against it",
    Cause.MACHINE: "baseline and variants moved together",
}
_NOISIER = 2.0
MOST_NAMED = 3
MOST_LISTED = 30


def change_words(history: History, change: Change) -> str:
    """By how much a level moved, since when, and what moved it."""
    first, before = history.runs[change.first], history.runs[change.before]
    interval = numbers.interval(change.ratio_low, change.ratio_high)
    differs = ", ".join(history.differences(change.before, change.first))
    return (
        f"{numbers.ratio(change.ratio)} {interval} since {first.label}, after {before.label}: "
        f"{CAUSE_WORDS[change.cause]} ({_CAUSE_REASONS[change.cause]})"
        + (f"; also differs: {differs}" if differs else "")
    )


def since_words(history: History, trend: Trend) -> str:
    """Since when a cell has its level: `since 1a2b3c4d (2026-11-20)`, or in all its runs."""
    if not trend.changes:
        return f"in all {len(trend.answers)} runs" if len(trend.answers) > 1 else "in its only run"
    return f"since {history.runs[trend.since].label}"


def headline(history: History) -> str:
    """How many cells changed their level, and which moved last."""
    cells = sum(bool(trend.changes) for trend in history.trends)
    means = len(history.changed) - cells
    runs = counted(len(history.runs), "run")
    if not history.changed:
        return f"No level changed in {runs} of {len(history.trends)} cells."
    newest = max(history.changed, key=lambda trend: trend.changes[-1].first)
    also = f", and the means of {means} of {len(history.variants)} variants" if means else ""
    return (
        f"{cells} of {len(history.trends)} cells{also} changed their level in {runs}; the last: "
        f"{newest.variant}, {newest.problem}, {change_words(history, newest.changes[-1])}."
    )


def history_lines(history: History) -> Iterator[str]:
    """Lines for a console: headline, control, and the changes, the newest first."""
    yield headline(history)
    yield control_words(history)
    changes = sorted(
        ((change, trend) for trend in history.changed for change in trend.changes),
        key=lambda pair: -pair[0].first,
    )
    for change, trend in changes[:MOST_LISTED]:
        yield f"  {trend.variant}, {trend.problem}: {change_words(history, change)}"
    if len(changes) > MOST_LISTED:
        yield f"  {len(changes) - MOST_LISTED} older changes are on the page."


def control_words(history: History) -> str:
    """Whether the machine became slower, or kernels did: the newest run against its own past."""
    control = find_control(history)
    if control is None:
        return "There is no run before this one to compare it with."
    return " ".join(_control_sentences(history, control))


def _control_sentences(history: History, control: Control) -> Iterator[str]:
    newest = len(history.runs) - 1
    past = f"in the {counted(control.past_runs, 'run')} before it"
    cause, baseline = control.cause, control.baseline
    count = f"{len(control.moved_cells)} of {control.cells} cells"
    took = "" if baseline is None else f"takes {numbers.ratio(baseline)} its usual time"
    if cause is None:
        beside = "" if baseline is None else f" (the baseline {took})"
        yield f"The newest run is as usual{beside}: no cell is off what it was {past}."
    elif cause is Cause.MACHINE:
        subject = f"The baseline {took}" if baseline is not None else f"{count} moved together"
        differs = ", ".join(history.differences(newest - 1, newest)) or "nothing that is recorded"
        with_variants = (
            "" if baseline is None else f", and the variants with it ({count} are off by more)"
        )
        yield (
            f"{subject}{with_variants}: the machine, its driver or versions changed, not the "
            f"kernels. Differs from the run before: {differs}."
        )
    elif cause is Cause.BASELINE:
        yield f"The baseline alone {took}; {count} moved against it: its own kernel changed."
    else:
        beside = "" if baseline is None else f" The baseline {took}: not the machine."
        kernel_changes = ", ".join(
            f"{trend.variant}, {trend.problem}: {numbers.ratio(ratio)}"
            for trend, ratio in control.moved_cells[:MOST_NAMED]
        )
        yield (
            f"{count} are off what they were {past}: their kernels changed ({kernel_changes})."
            f"{beside}"
        )
    floor, usual = control.noise_floor, control.usual_noise_floor
    if floor is not None and usual is not None and floor > max(_NOISIER * usual, 0.01):
        yield (
            f"The baseline varies by {100 * floor:.1f}\u202f% in this run (A/A), "
            f"usually by {100 * usual:.1f}\u202f%: this run is noisier."
        )
