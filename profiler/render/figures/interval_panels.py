"""Small multiples of ratios with their intervals; a panel for each problem, or for each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import (
    WIDTH_IN,
    colour_of,
    fitted,
    name_rows,
    text_width_in,
    widest_in,
)
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


def interval_panels(table: pd.DataFrame, label: str, *, same_rows: bool = False) -> Figure:
    """Dots with intervals, a row each; columns `panel name ratio low high text role mark cell`.

    Panels keep the order of their first row, and rows their order. `role` is that of a variant;
    `ink`: none. `same_rows`: all panels have the same names, which stand in the first column only.
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("panel", sort=False)))
        places = layout(len(panels))
        most = max(len(rows) for rows in panels.values())
        row_in = min(_ROW_IN, _room_for_rows(places) / most)
        pitch = row_in * most + _TITLE_IN + _TICKS_IN
        total = pitch * places.rows + _LABEL_IN
        figure = Figure(figsize=(WIDTH_IN, total))
        width = WIDTH_IN / places.columns
        names_in = [_names_in(rows, width) for rows in panels.values()]
        ends = _ends(table)
        for number, (panel, rows) in enumerate(panels.items()):
            column, line = number % places.columns, number // places.columns
            left = column * width + (max(names_in) if same_rows else names_in[number])
            texts_in = widest_in(table["text"], _SMALL) + 0.1
            right = (column + 1) * width - _GAP_IN - texts_in
            bottom = total - (line + 1) * pitch + _TICKS_IN
            axes = figure.add_axes(
                (
                    left / WIDTH_IN,
                    bottom / total,
                    (right - left) / WIDTH_IN,
                    row_in * most / total,
                )
            )
            axes.set_ylim(most - 0.5, -0.5)
            _draw(axes, rows, ends if not same_rows else _ends(rows))
            room = left - column * width - 0.1
            name_rows(axes, [fitted(str(name), room, _SMALL) for name in rows["name"]], _SMALL)
            title = fitted(str(panel), width - _GAP_IN)
            figure.text(
                (column * width + 0.02) / WIDTH_IN,
                (total - line * pitch - 0.06) / total,
                title,
                va="top",
                fontweight="bold",
            )
        figure.text(0.5, 0.02 / total, label, ha="center", va="bottom")
    return figure


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


def _draw(axes: Axes, rows: pd.DataFrame, ends: tuple[float, float]) -> None:
    places = np.arange(len(rows))
    colours = [svg.INK if role == "ink" else colour_of(role) for role in rows["role"]]
    axes.axvline(1.0, color=svg.MUTED, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.hlines(places, rows["low"], rows["high"], color=colours, linewidth=2.2, alpha=0.6)
    points = axes.scatter(rows["ratio"], places, c=colours, s=20, zorder=3)
    if (rows["mark"] >= 0).all():
        points.set_gid(svg.marks(rows["mark"], rows["cell"]))
    low, high = ends
    room = (high / low) ** 0.05
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    for place, text in zip(places, rows["text"], strict=True):
        axes.annotate(
            text,
            (1, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=_SMALL,
        )
    width_in = axes.get_position().width * WIDTH_IN
    widest = text_width_in(f"0.00{numbers.TIMES}", _SMALL) + 0.1
    ticks = ratio_ticks(low / room, high * room, max(1, round(width_in / widest)))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{numbers.TIMES}"))
    axes.tick_params(axis="x", labelsize=_SMALL, pad=2)
    axes.grid(visible=True, axis="x")
