"""Figures of a ladder of versions; versions stand on the x axis, in the order of the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Handle,
    Scale,
    Ticks,
    decade_ticks,
    legend,
    linear_ticks,
    log_places,
    panel_axes,
    places,
    times_ticks,
)
from profiler.render.figures.drawing import (
    ROOM,
    WIDTH_IN,
    Drawing,
    circle,
    dashed,
    fitted,
    line_style,
    spans_decades,
    text_style,
    text_width_in,
    widest_in,
)
from profiler.render.figures.palette import colour_of
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_PLOT_IN = 2.9
_LEFT, _RIGHT = 0.09, 0.99
_HEAD_IN = 0.45
_TURN_DEGREES = 40
_LONGEST = 40
_MOST_TICKS = 8
"""Numbers that a small panel has room for."""
_ABOVE = 5.0
"""From a mark up to its text, in points."""
_MEAN_DOT, _TREAD_DOT, _PANEL_DOT = circle(3.32), circle(2.92), circle(2.35)
_MEAN = line_style(palette.INK, 1.8)
_PROBLEM = line_style(palette.OTHER, 0.9)
_REFERENCE = dashed(palette.BASELINE, 1.4)


def ratio_lines(means: pd.DataFrame, problems: pd.DataFrame, reference: str, label: str) -> Drawing:
    """A thin line for each problem and a thick one for the mean; 1 is a line of its own.

    `means`: columns `name mark role value`, one row a version. `problems`: `problem place value`,
    where `place` is the row of the version in `means`.
    """
    axes, across = _version_axes(means["name"].tolist())
    ratios = [*means["value"], *problems["value"], 1.0]
    scales = across, _ratio_axis(axes, ratios, shorten(label, 45))
    for _, rows in problems.groupby("problem", sort=False):
        axes.drawing.path(places(rows["place"], rows["value"], scales), _PROBLEM)
    axes.level(scales[1].at(1.0), _REFERENCE)
    present = means[means["value"].notna()]
    points = places(range(len(means)), means["value"], scales)
    axes.drawing.path(points, _MEAN)
    marks = map(svg.mark, present["mark"])
    axes.drawing.dots(_MEAN_DOT, points, map(colour_of, present["role"]), marks)
    axes.spines()
    tops = problems.groupby("place")["value"].max()
    for place, value in enumerate(means["value"].tolist()):
        if math.isfinite(value):
            top = scales[1].at(max(value, float(tops.get(place, value))))
            _write_above(axes, across.at(place), top, numbers.ratio(value))
    dot = (circle(2.5), palette.INK)
    legend(
        axes.drawing,
        [
            Handle("geometric mean", _MEAN, dot),
            Handle("one problem each", _PROBLEM),
            Handle(f"{shorten(reference, 30)}: 1", _REFERENCE),
        ],
    )
    return axes.drawing


def ladder(table: pd.DataFrame, label: str) -> Drawing:
    """Steps on a log axis; columns `name mark role value low high text`, no value missing.

    Each version is a tread at its value; `text` says what the step to it was.
    """
    axes, across = _version_axes(table["name"].tolist())
    value, low, high = (table[name].to_numpy(dtype=float) for name in ("value", "low", "high"))
    upwards = _ratio_axis(axes, [*value, *low, *high], label)
    heights = [upwards.at(float(height)) for height in value]
    edges = [across.at(edge - 0.5) for edge in range(len(value) + 1)]
    treads = [(x, y) for place, y in enumerate(heights) for x in edges[place : place + 2]]
    axes.drawing.path(treads, line_style(palette.INK, 1.6, "stroke-linejoin: miter"))
    points = [(across.at(place), y) for place, y in enumerate(heights)]
    colours = [colour_of(role) for role in table["role"]]
    for place in np.flatnonzero(np.isfinite(low) & np.isfinite(high)).tolist():
        span = [(across.at(place), upwards.at(float(end))) for end in (low[place], high[place])]
        axes.drawing.path(span, line_style(colours[place], 2.4, "stroke-opacity: 0.5"))
    axes.drawing.dots(_TREAD_DOT, points, colours, map(svg.mark, table["mark"]))
    axes.spines()
    for place, (top, text) in enumerate(zip(np.fmax(value, high), table["text"], strict=True)):
        _write_above(axes, across.at(place), upwards.at(float(top)), text)
    return axes.drawing


def _ratio_axis(axes: Axes, ratios: Sequence[float], label: str) -> Scale:
    """An upright axis of factors, from the least to the greatest of these ratios."""
    ends = (float(np.nanmin(ratios)) / 1.15, float(np.nanmax(ratios)) * 1.25)
    upwards = axes.upwards(ends, logarithmic=True)
    values = log_places(upwards, LogLocator(base=10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.grid_upwards(upwards, times_ticks(values), label)
    return upwards


def multiples(table: pd.DataFrame) -> Drawing:
    """One panel a metric over the versions; columns `panel unit place number mark role value`.

    All panels have the same x axis: `place` is the position of a version, `number` its name there.
    """
    panels = dict(list(table.groupby("panel", sort=False)))
    drawing, grid = panel_axes(len(panels))
    versions = table.drop_duplicates("place").sort_values("place")
    every = math.ceil(len(versions) / _MOST_TICKS)
    names = ["" if place % every else text for place, text in enumerate(versions["number"])]
    ticks = Ticks(versions["place"].tolist(), names)
    for axes, (panel, rows) in zip(grid, panels.items(), strict=True):
        across = axes.across((-0.5, float(versions["place"].max()) + 0.5))
        axes.grid_across(across, ticks)
        _draw_panel(axes, across, str(panel), rows)
    return drawing


def _draw_panel(axes: Axes, across: Scale, panel: str, rows: pd.DataFrame) -> None:
    present = rows.dropna(subset=["value"])
    divisor, unit = numbers.scale(float(present["value"].max()), str(rows["unit"].iloc[0]))
    values = present["value"] / divisor
    if spans_decades(values):
        upwards = axes.upwards((values.min() / ROOM, values.max() * ROOM), logarithmic=True)
        axes.grid_upwards(upwards, decade_ticks(upwards))
    else:
        upwards = axes.upwards((0.0, float(values.max()) * 1.12 or 1.0))
        axes.grid_upwards(upwards, linear_ticks(upwards))
    points = places(present["place"], values, (across, upwards))
    axes.drawing.path(points, line_style(palette.INK, 1.2))
    marks = map(svg.mark, present["mark"])
    axes.drawing.dots(_PANEL_DOT, points, map(colour_of, present["role"]), marks)
    axes.spines()
    title = f"{panel} ({unit})" if unit else panel
    axes.title(fitted(title, (axes.right - axes.left) / POINTS))


def _version_axes(names: Iterable[str]) -> tuple[Axes, Scale]:
    """Axes with a place on the x axis for each version, and that axis."""
    shown = [shorten(name, _LONGEST) for name in names]
    turn = math.radians(_TURN_DEGREES)
    foot = 0.2 + widest_in(shown) * math.sin(turn)
    # The first label reaches furthest to the left of its place.
    reach = 0.1 + text_width_in(shown[0]) * math.cos(turn)
    left = max(_LEFT * WIDTH_IN, reach - 0.6 * (WIDTH_IN - reach) / len(shown))
    drawing = Drawing(WIDTH_IN * POINTS, (_HEAD_IN + _PLOT_IN + foot) * POINTS)
    axes = Axes(
        drawing,
        left * POINTS,
        _HEAD_IN * POINTS,
        _RIGHT * WIDTH_IN * POINTS,
        (_HEAD_IN + _PLOT_IN) * POINTS,
    )
    across = axes.across((-0.6, len(shown) - 0.4))
    axes.slanted_labels(across, shown, _TURN_DEGREES)
    return axes, across


def _write_above(axes: Axes, x: float, y: float, text: str) -> None:
    if text:
        axes.drawing.text(text, (x, y - _ABOVE), text_style("middle", 8.0))
