"""Figures of steps and of what launches need: each takes a prepared table and only draws it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    Handle,
    Scale,
    Ticks,
    at_most,
    decade_ticks,
    legend,
    limits,
    linear_ticks,
    log_places,
    panel_axes,
    places,
    row_axes,
    shortened,
    times_ticks,
)
from profiler.render.figures.canvas import ROOM, Axis, spans_decades
from profiler.render.figures.drawing import Drawing, circle, line_style
from profiler.render.figures.palette import COLOURS, colour_of
from profiler.render.words.names import shorten

_NARROWEST = 0.02
"""Half of the least width of a ratio axis, in natural logarithms: noise shall look like noise."""
_DOT = circle(2.55)
_MARGIN = 0.08


def effect_dots(table: pd.DataFrame, label: str) -> Drawing:
    """Ratios on a log axis with their ranges; columns `name ratio low high text`.

    A vertical line stands at 1: nothing changed.
    """
    names = shortened(table["name"].tolist())
    rows = row_axes(names)
    ratio, low, high = (table[name].to_numpy(dtype=float) for name in ("ratio", "low", "high"))
    left = min(-_NARROWEST, math.log(np.fmin.reduce([*ratio, *low])))
    right = max(_NARROWEST, math.log(np.fmax.reduce([*ratio, *high])))
    room = (right - left) * 0.04
    ends = (math.exp(left - room), math.exp(right + 5 * room))
    across = rows.axes.across(ends, logarithmic=True)
    rows.axes.grid_across(across, _ratio_ticks(across), label)
    rows.axes.upright(across.at(1.0), line_style(palette.INK, 1.2))
    for row, ends in enumerate(zip(low, high, strict=True)):
        rows.span(across, row, *ends, line_style(palette.INK, 2.4, "stroke-opacity: 0.4"))
    for row in np.flatnonzero(np.isfinite(ratio)).tolist():
        rows.dot(_DOT, across.at(float(ratio[row])), row, palette.INK)
    rows.axes.spines()
    rows.names(names)
    for row, (end, text) in enumerate(zip(np.fmax(ratio, high), table["text"], strict=True)):
        rows.text(across.at(float(end) * math.exp(room / 4)), row, text)
    return rows.drawing


def _ratio_ticks(scale: Scale) -> Ticks:
    """Ticks at round ratios, as many as the axis is wide."""
    if scale.high / scale.low < 4:
        values = linear_ticks(scale, at_most(8)).values
    else:
        values = log_places(scale, LogLocator(base=2, numticks=12))
    return times_ticks(values)


def scatter(table: pd.DataFrame, axis: Axis) -> Drawing:
    """A panel for each `panel`, in order; columns `panel name role mark x value`, none missing."""
    panels = dict(list(table.groupby("panel", sort=False)))
    drawing, grid = panel_axes(len(panels))
    logarithmic = spans_decades(table["value"])
    divisor, label = axis.scaled(float(table["value"].median()))
    ends = (table["value"].min() / divisor / ROOM, table["value"].max() / divisor * ROOM)
    for axes, (panel, of_panel) in zip(grid, panels.items(), strict=True):
        rows = of_panel.sort_values("role", key=lambda roles: roles.isin(COLOURS), kind="stable")
        values = rows["value"] / divisor
        across = axes.across(limits(rows["x"].tolist(), margin=_MARGIN))
        upwards = axes.upwards(
            ends if logarithmic else limits(values.tolist(), margin=_MARGIN),
            logarithmic=logarithmic,
        )
        axes.grid_across(across, linear_ticks(across), str(panel))
        ticks = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
        axes.grid_upwards(upwards, ticks, label if axes is grid[0] else "")
        points = places(rows["x"], values, (across, upwards))
        drawing.dots(_DOT, points, map(colour_of, rows["role"]), map(svg.mark, rows["mark"]))
        axes.spines()
    named = dict(zip(table["role"], table["name"], strict=True))
    legend(
        drawing,
        [
            Handle(shorten(named[role]), symbol=(circle(3.0), COLOURS[role]))
            for role in COLOURS
            if role in named
        ],
    )
    return drawing
