"""Figures of a search: each takes a prepared table and only draws what stands in it."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import WIDTH_IN, log_ticks, spans_decades
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_COURSE_IN, _LINES_IN = 3.2, 3.4
_LEFT_IN, _RIGHT_IN, _FOOT_IN, _HEAD_IN = 0.9, 0.2, 0.55, 0.3
_SPREAD = 0.5
"""Share of the room of a value in which the lines through it lie beside each other."""


def course(table: pd.DataFrame, label: str) -> Figure:
    """Every evaluation and the best so far; columns `number ratio best low high`.

    `low` and `high` are the interval of the best so far. `ratio` is NaN where it failed.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _figure(_COURSE_IN)
        columns = ("number", "ratio", "best", "low", "high")
        number, ratio, best, low, high = (table[name].to_numpy(dtype=float) for name in columns)
        axes.scatter(number, ratio, s=14, color=svg.OTHER)
        axes.fill_between(number, low, high, step="post", color=svg.BEST, alpha=0.25, linewidth=0)
        axes.step(number, best, where="post", color=svg.BEST, linewidth=1.8)
        if spans_decades(table["ratio"]):
            axes.set_yscale("log")
            log_ticks(axes.yaxis, axes.get_ylim())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:.6g}{numbers.TIMES}")
        )
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axes.set_xlim(0.5, max(number.max(), 2) + 0.5)
        axes.set_xlabel("evaluation")
        axes.set_ylabel(label)
        axes.grid(visible=True)
    return figure


def parallel_lines(table: pd.DataFrame, axes_values: Sequence[tuple[str, Sequence[str]]]) -> Figure:
    """A line for each row through its value on every axis and its `ratio` on the last.

    `axes_values`: name and values of each axis; a column of the table has the place of the value.
    Rows are drawn in their order, those with `quick` in blue.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _figure(_LINES_IN, left=0.3, right=0.7, head=0.5)
        heights = np.column_stack(
            [
                *(_heights(table[name].to_numpy(), len(values)) for name, values in axes_values),
                _scaled(np.log(table["ratio"].to_numpy(dtype=float))),
            ]
        )
        places = np.arange(heights.shape[1])
        quick = table["quick"].to_numpy(dtype=bool)
        for chosen, colour, width in ((~quick, svg.OTHER, 0.7), (quick, svg.BEST, 1.4)):
            lines = [np.column_stack([places, row]) for row in heights[chosen]]
            axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, alpha=0.8))
        for place, (name, values) in enumerate(axes_values):
            _axis(axes, place, name, [shorten(value, 12) for value in values])
        _ratio_axis(axes, len(axes_values), table["ratio"])
        axes.set_xlim(-0.3, len(axes_values) + 0.4)
        axes.set_ylim(-0.02, 1.02)
        axes.set_axis_off()
    return figure


def _figure(
    panel_in: float,
    *,
    left: float = _LEFT_IN,
    right: float = _RIGHT_IN,
    head: float = _HEAD_IN,
) -> tuple[Figure, Axes]:
    height = head + panel_in + _FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height))
    size = ((WIDTH_IN - left - right) / WIDTH_IN, panel_in / height)
    return figure, figure.add_axes((left / WIDTH_IN, _FOOT_IN / height, *size))


def _heights(codes: np.ndarray, count: int) -> np.ndarray:
    """Height of each row on an axis of so many values, those of one value beside each other."""
    spread = np.linspace(-_SPREAD, _SPREAD, len(codes)) / 2
    heights: np.ndarray = (codes.astype(float) + 0.5 + spread) / count
    return heights


def _scaled(values: np.ndarray) -> np.ndarray:
    span = float(values.max() - values.min()) or 1.0
    scaled: np.ndarray = (values.max() - values) / span
    return scaled


def _axis(axes: Axes, place: int, name: str, values: Sequence[str]) -> None:
    axes.plot([place, place], [0, 1], color=svg.GRID, linewidth=1)
    axes.text(place, 1.04, shorten(name, 16), ha="center", va="bottom", fontsize=8)
    for code, value in enumerate(values):
        height = (code + 0.5) / len(values)
        axes.text(place - 0.03, height, value, ha="right", va="center", fontsize=8, color=svg.INK)


def _ratio_axis(axes: Axes, place: int, ratios: pd.Series[float]) -> None:
    """The last axis: the smallest ratio on top, logarithmic."""
    axes.plot([place, place], [0, 1], color=svg.GRID, linewidth=1)
    axes.text(place, 1.04, "\u00f7 baseline", ha="center", va="bottom", fontsize=8)
    low, high = float(np.log(ratios.min())), float(np.log(ratios.max()))
    for part in (0, 1 / 3, 2 / 3, 1) if high > low else (0,):
        text = numbers.ratio(float(np.exp(low + part * (high - low))))
        axes.text(place + 0.03, 1 - part, text, ha="left", va="center", fontsize=8)
