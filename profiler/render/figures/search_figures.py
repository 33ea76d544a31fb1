"""Figures of a search: each takes a prepared table and only draws what stands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from profiler.render.figures import palette
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Scale,
    decade_ticks,
    limits,
    linear_ticks,
    places,
    times_ticks,
    whole_numbers,
)
from profiler.render.figures.drawing import (
    ASCENT,
    DESCENT,
    WIDTH_IN,
    Drawing,
    circle,
    fill_style,
    line_style,
    spans_decades,
    symbol_style,
    text_style,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_COURSE_IN, _LINES_IN = 3.2, 3.4
_LEFT_IN, _RIGHT_IN, _FOOT_IN, _HEAD_IN = 0.9, 0.2, 0.55, 0.3
_DOT = circle(1.87)
_SMALL = 8.0
_MIDDLE = (ASCENT - DESCENT) / 2
"""From the middle of letters down to their baseline, by their size."""
_SPREAD = 0.5
"""Share of the room of a value in which the lines through it lie beside each other."""


def course(table: pd.DataFrame, label: str) -> Drawing:
    """Every evaluation and the best so far; columns `number ratio best low high`.

    `low` and `high` are the interval of the best so far. `ratio` is NaN where it failed.
    """
    axes = _axes(_COURSE_IN)
    columns = ("number", "ratio", "best", "low", "high")
    number, ratio, best, low, high = (table[name].to_numpy(dtype=float) for name in columns)
    logarithmic = spans_decades(ratio.tolist())
    every = np.concatenate([ratio, best, low, high])
    ends = limits(every[np.isfinite(every)].tolist(), logarithmic=logarithmic)
    across = axes.across((0.5, max(number.max(), 2) + 0.5))
    upwards = axes.upwards(ends, logarithmic=logarithmic)
    axes.grid_across(across, linear_ticks(across, whole_numbers(12)), "evaluation")
    ticks = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
    axes.grid_upwards(upwards, times_ticks(ticks.values), label)
    scales = (across, upwards)
    for at in places(number, ratio, scales):
        axes.drawing.symbol(_DOT, at, symbol_style(palette.OTHER))
    lowest, highest = (places(*_steps(number, edge), scales) for edge in (low, high))
    axes.drawing.area([*lowest, *reversed(highest)], fill_style(palette.BEST, 0.25))
    axes.drawing.path(places(*_steps(number, best), scales), line_style(palette.BEST, 1.8))
    axes.spines()
    return axes.drawing


def _steps(xs: np.ndarray, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both coordinates of the corners of steps: each value holds until the next one."""
    return np.repeat(xs, 2)[1:], np.repeat(ys, 2)[:-1]


def parallel_lines(
    table: pd.DataFrame, axes_values: Sequence[tuple[str, Sequence[str]]]
) -> Drawing:
    """A line for each row through its value on every axis and its `ratio` on the last.

    `axes_values`: name and values of each axis; a column of the table has the place of the value.
    Rows are drawn in their order, those with `quick` in blue.
    """
    axes = _axes(_LINES_IN, left=0.3, right=0.7, head=0.5)
    scales = axes.across((-0.3, len(axes_values) + 0.4)), axes.upwards((-0.02, 1.02))
    heights = np.column_stack(
        [
            *(_heights(table[name].to_numpy(), len(values)) for name, values in axes_values),
            _scaled(np.log(table["ratio"].to_numpy(dtype=float))),
        ]
    )
    quick = table["quick"].to_numpy(dtype=bool)
    for rows, colour, width in ((~quick, palette.OTHER, 0.7), (quick, palette.BEST, 1.4)):
        style = line_style(colour, width, "stroke-opacity: 0.8")
        for row in heights[rows]:
            axes.drawing.path(places(range(len(row)), row, scales), style)
    for place, (name, values) in enumerate(axes_values):
        shown = [shorten(value, 12) for value in values]
        levels = [(code + 0.5) / len(values) for code in range(len(values))]
        _axis(axes, scales, (place, shorten(name, 16)), dict(zip(levels, shown, strict=True)))
    _ratio_axis(axes, scales, len(axes_values), table["ratio"])
    return axes.drawing


def _axes(
    panel_in: float,
    *,
    left: float = _LEFT_IN,
    right: float = _RIGHT_IN,
    head: float = _HEAD_IN,
) -> Axes:
    return Axes(
        Drawing(WIDTH_IN * POINTS, (head + panel_in + _FOOT_IN) * POINTS),
        left * POINTS,
        head * POINTS,
        (WIDTH_IN - right) * POINTS,
        (head + panel_in) * POINTS,
    )


def _heights(codes: np.ndarray, count: int) -> np.ndarray:
    """Height of each row on an axis of so many values, those of one value beside each other."""
    spread = np.linspace(-_SPREAD, _SPREAD, len(codes)) / 2
    heights: np.ndarray = (codes.astype(float) + 0.5 + spread) / count
    return heights


def _scaled(values: np.ndarray) -> np.ndarray:
    span = float(values.max() - values.min()) or 1.0
    scaled: np.ndarray = (values.max() - values) / span
    return scaled


def _axis(
    axes: Axes,
    scales: tuple[Scale, Scale],
    head: tuple[int, str],
    levels: Mapping[float, str],
    *,
    beside: float = -0.03,
) -> None:
    """An upright axis at a place under its name; texts by height, left of it or right."""
    (place, name), (across, upwards) = head, scales
    axes.drawing.path(places((place, place), (0.0, 1.0), scales), line_style(palette.GRID, 1.0))
    above = upwards.at(1.04) - DESCENT * _SMALL
    axes.drawing.text(name, (across.at(place), above), text_style("middle", _SMALL))
    style = text_style("end" if beside < 0 else "start", _SMALL)
    for height, text in levels.items():
        at = (across.at(place + beside), upwards.at(height) + _MIDDLE * _SMALL)
        axes.drawing.text(text, at, style)


def _ratio_axis(
    axes: Axes, scales: tuple[Scale, Scale], place: int, ratios: pd.Series[float]
) -> None:
    """The last axis: the smallest ratio on top, logarithmic."""
    low, high = float(np.log(ratios.min())), float(np.log(ratios.max()))
    parts = (0, 1 / 3, 2 / 3, 1) if high > low else (0,)
    levels = {1 - part: numbers.ratio(float(np.exp(low + part * (high - low)))) for part in parts}
    _axis(axes, scales, (place, "\u00f7 baseline"), levels, beside=0.03)
