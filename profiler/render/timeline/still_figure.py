"""The still figure of a timeline: how busy the GPU was over the visit, and one unit in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.timelines.bars import GPU
from profiler.model import SessionStep, Span
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    TICK_GAP,
    Axes,
    Handle,
    RowAxes,
    Scale,
    Ticks,
    legend,
    places,
    sheet,
)
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import WIDTH_IN, Drawing, Point
from profiler.render.timeline.picture import PictureRow
from profiler.render.words import numbers
from profiler.render.words.names import shorten

PHASE_NAMES = tuple(styles.COLOURS)
"""Names of the colours of the first phases, in their order; all others are grey."""

_LEFT_IN, _RIGHT_IN = 1.75, 0.15
_ROW_IN, _HEAD_IN, _AXIS_IN, _OVERVIEW_IN = 0.24, 0.24, 0.42, 0.5
_LEGEND_IN = 0.25
_CHARACTER_IN = 0.066
_FEWEST_LETTERS = 3
_BAR = 0.41
"""Half the height of a bar, in rows."""
_BAR_TEXT = 7.5
_TINT = 0.3
"""Opacity of a bar that words stand on."""
_TICKS = 8


@dataclass(frozen=True)
class TimelinePanel:
    """Rows over one time axis. `bars`: `start_ns end_ns short row phase`; `window`: its ends."""

    title: str
    rows: tuple[PictureRow, ...]
    first: int
    """Number of the first row."""
    bars: pd.DataFrame
    window: tuple[int, int]


Shares = tuple[str, tuple[int, int], npt.NDArray[np.float64]]
"""A title, a time, and the busy share of equal stretches of it."""


def timeline_figure(
    panels: Sequence[TimelinePanel],
    shares: Shares | None = None,
    keys: Sequence[Handle] = (),
    row_in: float = _ROW_IN,
) -> Drawing:
    """Draw a legend and shares of busy time where there are any, and panels of bars below."""
    heights = [_HEAD_IN + row_in * max(len(panel.rows), 1) + _AXIS_IN for panel in panels]
    top = _LEGEND_IN if keys else 0.0
    overview = 0.0 if shares is None else _HEAD_IN + _OVERVIEW_IN + _AXIS_IN
    drawing = sheet(top + overview + sum(heights))
    if keys:
        legend(drawing, keys)
    if shares is not None:
        _draw_shares(_axes(drawing, top + _HEAD_IN, _OVERVIEW_IN), shares, panels)
    top += overview
    for panel, height in zip(panels, heights, strict=True):
        _draw_panel(_axes(drawing, top + _HEAD_IN, height - _HEAD_IN - _AXIS_IN), panel)
        top += height
    return drawing


def _axes(drawing: Drawing, top_in: float, height_in: float) -> Axes:
    return Axes.in_inches(drawing, _LEFT_IN, top_in, WIDTH_IN - _RIGHT_IN, top_in + height_in)


def _draw_shares(axes: Axes, shares: Shares, panels: Sequence[TimelinePanel]) -> None:
    title, span, values = shares
    across, upwards = axes.across(span), axes.upwards((0.0, 1.0))
    _time_axis(axes, across, span, 0)
    at = (axes.left - TICK_GAP, axes.top + styles.TEXT_DROP * styles.TEXT_SIZE)
    axes.drawing.text("100\u202f%", at, styles.text("end"))
    edges = np.linspace(*span, len(values) + 1)
    stairs = places(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), (across, upwards))
    ends = [(axes.right, axes.bottom), (axes.left, axes.bottom)]
    axes.drawing.area([*stairs, *ends], styles.fill(styles.OTHER))
    for panel in panels[-1:]:  # the last is that of the device, and so are the shares
        start, end = map(across.at, panel.window)
        tint = styles.fill(styles.BEST, _TINT)
        axes.drawing.rectangle((start, axes.top), (end, axes.bottom), tint)
    axes.spines()
    _unit_and_title(axes, span, title)


def _draw_panel(axes: Axes, panel: TimelinePanel) -> None:
    across = axes.across(panel.window)
    rows = RowAxes(axes, max(len(panel.rows), 1), 0.5)
    _time_axis(axes, across, panel.window, panel.window[0])
    rows.names([shorten(label, 26) for _, label in panel.rows])
    _draw_bars(rows, across, panel)
    axes.spines()
    _unit_and_title(axes, panel.window, panel.title)


def _draw_bars(rows: RowAxes, across: Scale, panel: TimelinePanel) -> None:
    per_inch = max(panel.window[1] - panel.window[0], 1) / (WIDTH_IN - _LEFT_IN - _RIGHT_IN)
    names = panel.bars["short"].astype(object).tolist()
    columns = (panel.bars[name].tolist() for name in ("start_ns", "end_ns", "row", "phase"))
    texts: list[tuple[str, Point]] = []
    for name, start, end, number, phase in zip(names, *columns, strict=True):
        row = number - panel.first
        room = int((end - start) / per_inch / _CHARACTER_IN) - 1
        written = bool(name) and room >= _FEWEST_LETTERS
        corner = (across.at(start), rows.y(row - _BAR))
        opposite = (across.at(end), rows.y(row + _BAR))
        style = styles.symbol(phase_colour(phase), _TINT if written else 1.0)
        rows.drawing.rectangle(corner, opposite, f"{style}; stroke-width: 0.5")
        if written:
            at = ((corner[0] + opposite[0]) / 2, rows.y(row) + styles.TEXT_DROP * _BAR_TEXT)
            texts.append((_fitting(str(name), room), at))
    for text, at in texts:
        rows.drawing.text(text, at, styles.text("middle", _BAR_TEXT))


def phase_colour(phase: int) -> str:
    """Colour of a phase by its number; those without one are grey."""
    return styles.colour_of(phase_name(phase))


def phase_name(phase: int) -> str:
    """Name of the colour of a phase among the page's variables; empty where it is grey."""
    return PHASE_NAMES[phase] if 0 <= phase < len(PHASE_NAMES) else ""


def _fitting(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: max(room - 1, 1)]}\u2026"


def _unit_and_title(axes: Axes, window: tuple[int, int], title: str) -> None:
    _, unit = numbers.scale(max(window[1] - window[0], 1), "ns")
    at = (axes.left - 5, axes.bottom + 3 + styles.ASCENT * styles.TEXT_SIZE)
    axes.drawing.text(unit, at, styles.text("end", colour=styles.MUTED))
    if title:
        at = (axes.left, axes.top - 4)
        axes.drawing.text(title, at, styles.text("start", 8.5, styles.MUTED))


def _time_axis(axes: Axes, across: Scale, window: tuple[int, int], origin: int) -> None:
    length = window[1] - window[0]
    divisor, _ = numbers.scale(max(length, 1), "ns")
    step = _round_step(length / divisor / _TICKS)
    first = np.ceil((window[0] - origin) / divisor / step) * step
    ticks = np.arange(first, (window[1] - origin) / divisor + step / 1e6, step)
    labels = [f"{tick:g}" for tick in np.round(ticks, 9)]
    axes.grid_across(across, Ticks((ticks * divisor + origin).tolist(), labels))


def _round_step(step: float) -> float:
    """1, 2 or 5 of a decade, at least as large as `step`."""
    if step <= 0:
        return 1.0
    decade = 10.0 ** np.floor(np.log10(step))
    return float(next(size * decade for size in (1, 2, 5, 10) if size * decade >= step * 0.999))


# ---- where the seconds of a run went -------------------------------------------------------------


_PHASES: dict[str, int] = {
    SessionStep.MEASURES: 0,
    SessionStep.CONTEXT: 1,
    SessionStep.STARTS: 2,
    SessionStep.ENDS: 3,
}
"""Number of the colour of a step; what has none is grey."""

_NS = 1e9
_MOST_ROWS = 40
"""An external command has a process for each visit, hundreds in a long run."""


def run_chart(findings: Findings) -> Chart | None:
    """Steps of the sessions of the newest execution over time; None where none were recorded."""
    spans = findings.report.execution.seconds
    if not spans:
        return None
    rows = list(dict.fromkeys(span.row for span in spans))
    shown_rows = rows[:_MOST_ROWS]
    drawn = spans if shown_rows == rows else _spans_of(shown_rows, spans)
    measured = sum(span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES)
    whole_s = max(span.end_s for span in spans)
    left_out = (
        f" The first {len(shown_rows)} of {len(rows)} rows are shown." if shown_rows != rows else ""
    )
    reading = (
        f"Visits were made for {numbers.seconds(measured)} of {numbers.seconds(whole_s)}. Each "
        "row is a process: it starts (the tool, Python, torch, the workload), waits for its turn, "
        f"creates its context (orange), measures until its last launch (blue), and ends.{left_out}"
    )
    return make_chart("seconds", "Where the seconds went", reading, seconds_figure({"": drawn}))


def seconds_figure(runs: Mapping[str, Sequence[Span]]) -> Drawing:
    """Steps of the sessions of runs over one time axis, a panel for each title."""
    end_ns = max(round(span.end_s * _NS) for spans in runs.values() for span in spans)
    window = (0, max(end_ns, 1))
    panels, first = [], 0
    for title, spans in runs.items():
        panels.append(_panel_of_spans(title, spans, first, window))
        first += len(panels[-1].rows)
    return timeline_figure(panels)


def _panel_of_spans(
    title: str, spans: Sequence[Span], first: int, window: tuple[int, int]
) -> TimelinePanel:
    rows = list(dict.fromkeys(span.row for span in spans))
    bars = pd.DataFrame(
        {
            "start_ns": [round(span.begin_s * _NS) for span in spans],
            "end_ns": [round(span.end_s * _NS) for span in spans],
            "short": [span.step for span in spans],
            "row": [first + rows.index(span.row) for span in spans],
            "phase": [_PHASES.get(span.step, -1) for span in spans],
        }
    )
    return TimelinePanel(title, tuple((GPU, row) for row in rows), first, bars, window)


def _spans_of(rows: Sequence[str], spans: Sequence[Span]) -> list[Span]:
    """Spans of some processes, and what the profiler did until the last of them ended."""
    of_rows = [span for span in spans if span.row in rows]
    until_s = max(span.end_s for span in of_rows if span.step in frozenset(SessionStep))
    return [span for span in of_rows if span.begin_s <= until_s]
