"""Figures of a search: each takes what it draws, and only draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Scale,
    decade_ticks,
    limits,
    linear_ticks,
    places,
    points_of,
    sheet,
    times_ticks,
    whole_numbers,
)
from profiler.render.figures.drawing import WIDTH_IN, Drawing, Mark, ends_of, spans_decades
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_COURSE_IN, _LINES_IN = 3.2, 3.4
_LEFT_IN, _RIGHT_IN, _FOOT_IN, _HEAD_IN = 0.9, 0.2, 0.55, 0.3
_DOT = styles.circle(1.87)
_SMALL = 8.0
_MIDDLE = (styles.ASCENT - styles.DESCENT) / 2
"""From the middle of letters down to their baseline, by their size."""
_SPREAD = 0.5
"""Share of the room of a value in which the lines through it lie beside each other."""


def course(evaluated: Sequence[Mark], best: Sequence[Mark], label: str) -> Drawing:
    """Every evaluation, NaN where it failed, and the best so far with its interval.

    The place of a mark is the number of the evaluation.
    """
    axes = _axes(_COURSE_IN)
    number = [mark.place for mark in best]
    ratios = [mark.value for mark in evaluated]
    logarithmic = spans_decades(ratios)
    every = [*ratios, *ends_of(best)]
    ends = limits(list(filter(math.isfinite, every)), logarithmic=logarithmic)
    across = axes.across((0.5, max(*number, 2) + 0.5))
    upwards = axes.upwards(ends, logarithmic=logarithmic)
    axes.grid_across(across, linear_ticks(across, whole_numbers(12)), "evaluation")
    ticks = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
    axes.grid_upwards(upwards, times_ticks(ticks.values), label)
    scales = (across, upwards)
    for at in points_of(evaluated, scales):
        axes.drawing.symbol(_DOT, at, styles.symbol(styles.OTHER))
    lowest, value, highest = (
        # Corners of steps: each value holds until the next one.
        places(np.repeat(number, 2)[1:], np.repeat(edge, 2)[:-1], scales)
        for edge in zip(*((mark.low, mark.value, mark.high) for mark in best), strict=True)
    )
    axes.drawing.area([*lowest, *reversed(highest)], styles.fill(styles.BEST, 0.25))
    axes.drawing.path(value, styles.line(styles.BEST, 1.8))
    axes.spines()
    return axes.drawing


def parallel_lines(
    lines: Sequence[tuple[float, Sequence[int]]],
    axes_values: Sequence[tuple[str, Sequence[str]]],
    quick: int,
) -> Drawing:
    """Lines, of each its ratio on the last axis and the place of its value on each other axis.

    `axes_values`: name and values of each axis. Lines are drawn in their order, the last ones, as
    many as are `quick`, in blue.
    """
    axes = _axes(_LINES_IN, left=0.3, right=0.7, head=0.5)
    scales = axes.across((-0.3, len(axes_values) + 0.4)), axes.upwards((-0.02, 1.02))
    ratios = [ratio for ratio, _ in lines]
    codes = zip(*(codes for _, codes in lines), strict=True)
    heights = np.column_stack(
        [
            *(
                _heights(np.array(of_axis), len(values))
                for of_axis, (_, values) in zip(codes, axes_values, strict=True)
            ),
            _scaled(np.log(ratios)),
        ]
    )
    for rows, colour, width in (
        (heights[:-quick], styles.OTHER, 0.7),
        (heights[-quick:], styles.BEST, 1.4),
    ):
        style = styles.line(colour, width, "stroke-opacity: 0.8")
        for row in rows:
            axes.drawing.path(places(range(len(row)), row, scales), style)
    for place, (name, values) in enumerate(axes_values):
        value_texts = [shorten(value, 12) for value in values]
        levels = [(code + 0.5) / len(values) for code in range(len(values))]
        _axis(axes, scales, (place, shorten(name, 16)), dict(zip(levels, value_texts, strict=True)))
    _ratio_axis(axes, scales, len(axes_values), ratios)
    return axes.drawing


def _axes(
    panel_in: float,
    *,
    left: float = _LEFT_IN,
    right: float = _RIGHT_IN,
    head: float = _HEAD_IN,
) -> Axes:
    drawing = sheet(head + panel_in + _FOOT_IN)
    return Axes.in_inches(drawing, left, head, WIDTH_IN - right, head + panel_in)


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
    axes.drawing.path(places((place, place), (0.0, 1.0), scales), styles.line(styles.GRID, 1.0))
    above = upwards.at(1.04) - styles.DESCENT * _SMALL
    axes.drawing.text(name, (across.at(place), above), styles.text("middle", _SMALL))
    style = styles.text("end" if beside < 0 else "start", _SMALL)
    for height, text in levels.items():
        at = (across.at(place + beside), upwards.at(height) + _MIDDLE * _SMALL)
        axes.drawing.text(text, at, style)


def _ratio_axis(
    axes: Axes, scales: tuple[Scale, Scale], place: int, ratios: Sequence[float]
) -> None:
    """The last axis: the smallest ratio on top, logarithmic."""
    low, high = float(np.log(min(ratios))), float(np.log(max(ratios)))
    parts = (0, 1 / 3, 2 / 3, 1) if high > low else (0,)
    levels = {1 - part: numbers.ratio(float(np.exp(low + part * (high - low)))) for part in parts}
    _axis(axes, scales, (place, "\u00f7 baseline"), levels, beside=0.03)
