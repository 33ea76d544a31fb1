"""Small multiples of ratios with their intervals; a panel for each problem, or for each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import POINTS, Axes, RowAxes, times_ticks
from profiler.render.figures.canvas import WIDTH_IN, fitted, text_width_in, widest_in
from profiler.render.figures.drawing import (
    ASCENT,
    DESCENT,
    TEXT_SIZE,
    Drawing,
    circle,
    dashed,
    line_style,
    text_style,
)
from profiler.render.figures.palette import colour_of
from profiler.render.figures.strips import ratio_ticks
from profiler.render.words import numbers

MOST_ROWS = 12
"""Rows of a panel, where panels stand in one row."""
_HEIGHT_IN = 4.5
_ROW_IN = 0.27
_TITLE_IN, _TICKS_IN = 0.24, 0.24
_LABEL_IN = 0.2
_SMALL = 8.0
_GAP_IN = 0.1
_TICK_GAP, _TEXT_GAP = 5.5, 4.0
"""From the axes to labels of ticks, and to the texts at the right, in points."""
_DOT = circle(2.24)
_MOST_NAME = 0.42
"""Share of a panel that names may take."""


@dataclass(frozen=True)
class PanelLayout:
    """Columns and rows of panels, and how many lines each panel has room for."""

    columns: int
    rows: int
    lines: int


def layout(panels: int) -> PanelLayout:
    """Places of up to 12 panels on a first screen."""
    columns = panels if panels <= 3 else math.ceil(panels / 2) if panels <= 8 else 4
    rows = math.ceil(panels / columns)
    height = (_HEIGHT_IN - _LABEL_IN) / rows - _TITLE_IN - _TICKS_IN
    return PanelLayout(columns, rows, min(MOST_ROWS, int(height / (_ROW_IN * 0.68))))


def interval_panels(table: pd.DataFrame, label: str, *, same_rows: bool = False) -> Drawing:
    """Dots with intervals, a row each; columns `panel name ratio low high text role mark cell`.

    Panels keep the order of their first row, and rows their order. `role` is that of a variant;
    `ink`: none. `same_rows`: all panels have the same names, which stand in the first column only.
    """
    panels = dict(list(table.groupby("panel", sort=False)))
    places = layout(len(panels))
    most = max(len(rows) for rows in panels.values())
    row_in = min(_ROW_IN, _room_for_rows(places) / most)
    pitch = row_in * most + _TITLE_IN + _TICKS_IN
    total = pitch * places.rows + _LABEL_IN
    drawing = Drawing(WIDTH_IN * POINTS, total * POINTS)
    width = WIDTH_IN / places.columns
    names_in = [_names_in(rows, width) for rows in panels.values()]
    texts_in = widest_in(table["text"], _SMALL) + 0.1
    ends = _ends(table)
    for number, rows in enumerate(panels.values()):
        line, column = divmod(number, places.columns)
        room = max(names_in) if same_rows else names_in[number]
        axes = Axes(
            drawing,
            (column * width + room) * POINTS,
            (line * pitch + _TITLE_IN) * POINTS,
            ((column + 1) * width - _GAP_IN - texts_in) * POINTS,
            ((line + 1) * pitch - _TICKS_IN) * POINTS,
            text_size=_SMALL,
            tick_gap=_TICK_GAP,
        )
        names = [fitted(str(name), room - 0.1, _SMALL) for name in rows["name"]]
        _draw(RowAxes(axes, most, 0.5), rows, ends if not same_rows else _ends(rows), names)
    for number, panel in enumerate(panels):
        line, column = divmod(number, places.columns)
        at = (column * width + 0.02) * POINTS, (line * pitch + 0.06) * POINTS + ASCENT * TEXT_SIZE
        drawing.text(fitted(str(panel), width - _GAP_IN), at, text_style("start", bold=True))
    below = (drawing.width / 2, drawing.height - 0.02 * POINTS - DESCENT * TEXT_SIZE)
    drawing.text(label, below, text_style("middle"))
    return drawing


def _room_for_rows(places: PanelLayout) -> float:
    return (_HEIGHT_IN - _LABEL_IN) / places.rows - _TITLE_IN - _TICKS_IN


def _names_in(rows: pd.DataFrame, width: float) -> float:
    return min(widest_in(rows["name"], _SMALL) + 0.12, _MOST_NAME * width)


def _ends(table: pd.DataFrame) -> tuple[float, float]:
    """Least and greatest of ratios, intervals and 1, at least 4 percent apart."""
    values = table[["ratio", "low", "high"]].to_numpy(dtype=float)
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = min(1.0, float(finite.min())), max(1.0, float(finite.max()))
    return (low, high) if high / low > 1.04 else (low / 1.02, high * 1.02)


def _draw(axes: RowAxes, rows: pd.DataFrame, ends: tuple[float, float], names: list[str]) -> None:
    low, high = ends
    room = (high / low) ** 0.05
    across = axes.axes.across((low / room, high * room), logarithmic=True)
    widest = text_width_in(f"0.00{numbers.TIMES}", _SMALL) + 0.1
    most = max(1, round((axes.axes.right - axes.axes.left) / POINTS / widest))
    ticks = ratio_ticks(low / room, high * room, most)
    axes.axes.grid_across(across, times_ticks(ticks))
    axes.axes.upright(across.at(1.0), dashed(palette.MUTED, 1.0))
    colours = [palette.INK if role == "ink" else colour_of(role) for role in rows["role"]]
    columns = (rows[name].tolist() for name in ("ratio", "low", "high", "mark", "cell"))
    for row, (ratio, least, greatest, mark, cell) in enumerate(zip(*columns, strict=True)):
        style = line_style(colours[row], 2.2, "stroke-opacity: 0.6")
        axes.span(across, row, least, greatest, style)
        if math.isfinite(ratio):
            dot = axes.dot(_DOT, across.at(ratio), row, colours[row])
            if mark >= 0:
                dot.set("id", svg.mark(mark, cell))
    axes.axes.spines()
    for row, text in enumerate(rows["text"]):
        axes.beside(row, text, gap=-_TEXT_GAP, size=_SMALL)
    for row, name in enumerate(names):
        axes.beside(row, name, size=_SMALL)
