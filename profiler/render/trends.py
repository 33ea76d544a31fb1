"""The page of a history: every cell's trend, its changes, and the runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from profiler.history.trends import History, Trend
from profiler.metrics.queries import label
from profiler.notices import counted
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import PANEL_COLUMNS, Mark
from profiler.render.html import render
from profiler.render.index import small_line
from profiler.render.runs.history import MOST_ROWS, history_figure
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.history import (
    CAUSE_WORDS,
    change_words,
    control_words,
    headline,
    since_words,
)


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
