"""The figure of a grid page that no other page has; it takes a prepared table and only draws it."""

from __future__ import annotations

import pandas as pd

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Handle,
    decade_ticks,
    legend,
    places,
)
from profiler.render.figures.canvas import ROOM
from profiler.render.figures.drawing import Drawing, dashed, line_style, marker, symbol_style
from profiler.render.figures.palette import MARKERS, colour_of
from profiler.render.words.names import shorten

_WIDTH_IN, _HEIGHT_IN = 8.0, 4.2
_SYMBOL, _LEGEND_SYMBOL = 4.47, 6.0
_DIAGONAL = dashed(palette.MUTED, 1.0, 4.0, 3.0)


def saved(table: pd.DataFrame, baseline: str) -> Drawing:
    """Speed-up against bytes saved, both axes logarithmic.

    Columns `name role mark bytes speed`: factors of the baseline over the variant, all above 0. On
    the dashed line the time falls as the bytes do.
    """
    width, height = _WIDTH_IN * POINTS, _HEIGHT_IN * POINTS
    drawing = Drawing(width, height)
    axes = Axes(drawing, 0.09 * width, 0.1 * height, 0.98 * width, 0.87 * height)
    across = axes.across(_limits(table["bytes"]), logarithmic=True)
    upwards = axes.upwards(_limits(table["speed"]), logarithmic=True)
    bytes_label = f"DRAM bytes of {shorten(baseline, 30)} / variant (right: fewer are moved)"
    axes.grid_across(across, decade_ticks(across), bytes_label)
    axes.grid_upwards(upwards, decade_ticks(upwards), f"time of {shorten(baseline, 20)} / variant")
    ends = (max(across.low, upwards.low), min(across.high, upwards.high))
    drawing.path(places(ends, ends, (across, upwards)), _DIAGONAL)
    axes.level(upwards.at(1.0), line_style(palette.BASELINE, 1.0))
    axes.upright(across.at(1.0), line_style(palette.BASELINE, 1.0))
    axes.spines()
    handles = []
    for (name, role), rows in table.groupby(["name", "role"], sort=False):
        kind, colour = MARKERS.get(str(role), "o"), colour_of(str(role))
        points = places(rows["bytes"], rows["speed"], (across, upwards))
        marks = map(svg.mark, rows["mark"])
        drawing.dots(marker(kind, _SYMBOL), points, [colour] * len(points), marks, _faint)
        symbol = (marker(kind, _LEGEND_SYMBOL), colour)
        handles.append(Handle(shorten(str(name)), symbol=symbol))
    legend(drawing, [*handles, Handle("time falls as bytes do", _DIAGONAL)])
    return drawing


def _faint(colour: str) -> str:
    return symbol_style(colour, 0.75)


def _limits(values: pd.Series[float]) -> tuple[float, float]:
    """Ends of an axis that shows all values and 1."""
    return min(float(values.min()), 1.0) / ROOM, max(float(values.max()), 1.0) * ROOM
