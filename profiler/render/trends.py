"""The page of a history: every cell's trend, its changes, and the runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from profiler.history.trends import (
    ChangeCause,
    Control,
    History,
    LevelChange,
    Trend,
    find_control,
    is_usual,
)
from profiler.metrics.queries import label
from profiler.notices import counted, first_names
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import PANEL_COLUMNS, Mark
from profiler.render.html import render
from profiler.render.index import small_line
from profiler.render.runs.history import MOST_ROWS, history_figure
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers


def render_history(history: History) -> str:
    """HTML of a history; raises nothing: what has no number is left out."""
    ordered = sorted(history.trends, key=_by_change)
    parts = {
        "title": f"{history.experiment}: {counted(len(history.runs), 'run')}",
        "metric": label(history.metric),
        "machine": history.machine,
        "others": history.other_machines,
        "headline": headline(history),
        "control": control_words(history),
        "chart": _chart(history, ordered),
        "rows": [_row(history, trend) for trend in ordered[:MOST_ROWS]],
        "left_out": max(0, len(ordered) - MOST_ROWS),
        "changes": [
            (trend.variant, trend.problem, change_words(history, change))
            for trend in sorted(history.changed, key=_by_change)
            for change in trend.changes
        ][:MOST_ROWS],
        "runs": tuple(enumerate(history.runs, start=1)),
    }
    return render("history.html", parts)


def _by_change(trend: Trend) -> tuple[bool, float]:
    """Sorting key: trends that changed come first, by how much."""
    moved = max((abs(change.ratio - 1) for change in trend.changes), default=0.0)
    return not trend.changes, -moved


def _row(history: History, trend: Trend) -> dict[str, Any]:
    """Row of a cell: its newest number, that by the baseline of its run, and its last change."""
    newest = trend.answers[max(trend.answers)]
    unit = label(history.metric).unit
    interval = numbers.interval(newest.low, newest.high, unit)
    last = trend.changes[-1] if trend.changes else None
    return {
        "variant": trend.variant,
        "problem": trend.problem,
        "is_baseline": trend.is_baseline,
        "line": _line(trend),
        "newest": Datum.quantity(newest.value, unit, "", interval),
        "ratio": Datum.times(newest.ratio, "no baseline"),
        "change": Datum.times(last.ratio, "no change") if last else Datum(title="no change"),
        "cause": CAUSE_WORDS[last.cause] if last else "",
        "since": since_words(history, trend),
    }


def _line(trend: Trend) -> Markup:
    """Line of a cell's numbers over the runs, as large as two lines of text."""
    points = [_ends(trend, run) for run in trend.answers]
    order = f"the oldest of {len(points)} runs first" if len(points) > 1 else "one run"
    return small_line(points, f"{trend.variant}, {trend.problem}: {order}")


def _ends(trend: Trend, run: int) -> tuple[float, float, float]:
    """Low end, number and high end of a cell in a run."""
    low, value, high = trend.ends(run)
    return (value if low is None else low, value, value if high is None else high)


def _chart(history: History, ordered: list[Trend]) -> Chart | None:
    """A row of panels, of the cells that changed most; None where there are no two runs."""
    shown_trends = [trend for trend in ordered if len(trend.answers) > 1][:PANEL_COLUMNS]
    if not shown_trends:
        return None
    panels = {
        f"{trend.variant}\n{trend.problem}": list(_marks(number, trend))
        for number, trend in enumerate(shown_trends)
    }
    ticks = _ticks(len(history.runs))
    reading = (
        "The number by which a cell is followed, with its 95\u202f% interval: the ratio to the "
        "baseline of its run; of a baseline, and where there is none, its time by that of its "
        "first run. Runs from left to right, numbered as in their table; triangles stand where a "
        "level begins. Scales do not begin at 0."
    )
    drawing = history_figure(panels, ticks, unit=None)
    return make_chart("trends", "Cells over the runs", reading, drawing)


def _ticks(runs: int) -> list[str]:
    """Numbers of runs, every one or so few that they do not touch."""
    every = 1 + runs // 12
    return [str(run + 1) if run % every == 0 else "" for run in range(runs)]


def _marks(number: int, trend: Trend) -> Iterator[Mark]:
    """Numbers of a cell in each run; where a level begins, the role says in which direction."""
    roles = {change.first: "baseline" if change.ratio > 1 else "best" for change in trend.changes}
    first = 1.0 if trend.is_relative else trend.value(next(iter(trend.answers))) or 1.0
    for run in trend.answers:
        low, value, high = (end / first for end in _ends(trend, run))
        yield Mark("", value, low, high, role=roles.get(run, "other"), variant=number, place=run)


# ---- sentences -----------------------------------------------------------------------------------


CAUSE_WORDS = {
    ChangeCause.KERNEL: "the kernel",
    ChangeCause.BASELINE: "the baseline's kernel",
    ChangeCause.MACHINE: "machine, driver or versions",
}
_CAUSE_REASONS = {
    ChangeCause.KERNEL: "its own level moved, and not that of the others",
    ChangeCause.BASELINE: "the ratios of the others moved against it",
    ChangeCause.MACHINE: "baseline and variants moved together",
}
_NOISIER = 2.0
MOST_NAMED = 3
MOST_LISTED = 30


def change_words(history: History, change: LevelChange) -> str:
    """Words on how much a level moved, since when, and what moved it."""
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
    """Sentence on how many cells changed their level, and which moved last."""
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
    return " ".join(_control_sentences(history, find_control(history)))


def _control_sentences(history: History, control: Control | None) -> Iterator[str]:
    if history.redefined:
        names = first_names(history.redefined, MOST_NAMED)
        yield f"Runs in which a problem had other parameters are not compared there: {names}."
    if control is None:
        yield "There is no run before this one to compare it with."
        return
    newest = len(history.runs) - 1
    past = f"in the {counted(control.past_runs, 'run')} before it"
    cause, baseline = control.cause, control.baseline
    count = f"{len(control.moved_cells)} of {control.cells} cells"
    is_near = baseline is None or is_usual(baseline)
    scatter = "" if is_near or control.baseline_moved else ", which is within its scatter"
    took = "" if baseline is None else f"takes {numbers.ratio(baseline)} its usual time{scatter}"
    if cause is None:
        beside = "" if baseline is None else f" (the baseline {took})"
        yield f"The newest run is as usual{beside}: no cell is off what it was {past}."
    elif cause is ChangeCause.MACHINE:
        subject = f"The baseline {took}" if baseline is not None else f"{count} moved together"
        differs = ", ".join(history.differences(newest - 1, newest)) or "nothing that is recorded"
        with_variants = (
            "" if baseline is None else f", and the variants with it ({count} are off by more)"
        )
        yield (
            f"{subject}{with_variants}: the machine, its driver or versions changed, not the "
            f"kernels. Differs from the run before: {differs}."
        )
    elif cause is ChangeCause.BASELINE:
        yield f"The baseline alone {took}; {count} moved against it: its own kernel changed."
    else:
        beside = "" if baseline is None else f" The baseline {took}: not the machine."
        changed = "their kernels changed"
        if not is_near:
            beside, changed = f" The baseline {took}.", "their kernels or the machine changed"
        kernel_changes = ", ".join(
            f"{trend.variant}, {trend.problem}: {numbers.ratio(ratio)}"
            for trend, ratio in control.moved_cells[:MOST_NAMED]
        )
        yield (f"{count} are off what they were {past}: {changed} ({kernel_changes}).{beside}")
    floor, usual = control.noise_floor, control.usual_noise_floor
    if floor is not None and usual is not None and floor > max(_NOISIER * usual, 0.01):
        yield (
            f"The baseline varies by {100 * floor:.1f}\u202f% in this run (A/A), "
            f"usually by {100 * usual:.1f}\u202f%: this run is noisier."
        )
