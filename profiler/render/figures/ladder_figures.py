"""Figures of a ladder of versions; versions stand on the x axis, in their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from matplotlib.ticker import LogLocator

from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    Ticks,
    decade_ticks,
    legend,
    linear_ticks,
    panel_axes,
    places,
    places_of_ticks,
    points_of,
    sheet,
    times_ticks,
)
from profiler.render.figures.drawing import (
    POINTS,
    ROOM,
    WIDTH_IN,
    Drawing,
    Mark,
    ends_of,
    fitted,
    scaled_label,
    spans_decades,
    text_width_in,
    widest_in,
)
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
_MEAN_DOT, _TREAD_DOT, _PANEL_DOT = styles.circle(3.32), styles.circle(2.92), styles.circle(2.35)
_MEAN = styles.line(styles.INK, 1.8)
_PROBLEM = styles.line(styles.OTHER, 0.9)
_REFERENCE = styles.dashed(styles.BASELINE, 1.4)


def ratio_lines(
    means: Sequence[Mark], problems: Sequence[Sequence[float]], reference: str, label: str
) -> Drawing:
    """A thin line for each problem and a thick one for the mean; 1 is a line of its own.

    `means`: the versions in their order; `problems`: of each its ratio with each version.
    """
    axes, across = _version_axes([mark.name for mark in means])
    ratios = [*(mark.value for mark in means), *chain(*problems), 1.0]
    scales = across, _ratio_axis(axes, ratios, shorten(label, 45))
    for of_problem in problems:
        axes.drawing.path(places(range(len(means)), of_problem, scales), _PROBLEM)
    axes.level(scales[1].at(1.0), _REFERENCE)
    present = [mark for mark in means if math.isfinite(mark.value)]
    points = points_of(present, scales)
    axes.drawing.path(points, _MEAN)
    axes.drawing.dots(_MEAN_DOT, points, present)
    axes.spines()
    for place, (mark, *of_version) in enumerate(zip(means, *problems, strict=True)):
        if math.isfinite(mark.value):
            top = max([mark.value, *filter(math.isfinite, of_version)])
            _write_above(axes, across.at(place), scales[1].at(top), numbers.ratio(mark.value))
    dot = (styles.circle(2.5), styles.INK)
    legend(
        axes.drawing,
        [
            Handle("geometric mean", _MEAN, dot),
            Handle("one problem each", _PROBLEM),
            Handle(f"{shorten(reference, 30)}: 1", _REFERENCE),
        ],
    )
    return axes.drawing


def ladder(marks: Sequence[Mark], label: str) -> Drawing:
    """Steps on a log axis, no value missing.

    Each version is a tread at its value; its text says what the step to it was.
    """
    axes, across = _version_axes([mark.name for mark in marks])
    upwards = _ratio_axis(axes, ends_of(marks), label)
    points = [(across.at(place), upwards.at(mark.value)) for place, mark in enumerate(marks)]
    edges = [across.at(edge - 0.5) for edge in range(len(marks) + 1)]
    treads = [(x, y) for place, (_, y) in enumerate(points) for x in edges[place : place + 2]]
    axes.drawing.path(treads, styles.line(styles.INK, 1.6, "stroke-linejoin: miter"))
    for place, mark in enumerate(marks):
        span = places([place] * 2, [mark.low, mark.high], (across, upwards))
        if len(span) == 2:
            axes.drawing.path(span, styles.line(mark.colour, 2.4, "stroke-opacity: 0.5"))
    axes.drawing.dots(_TREAD_DOT, points, marks)
    axes.spines()
    for place, mark in enumerate(marks):
        top = upwards.at(max(mark.value, mark.high))
        _write_above(axes, across.at(place), top, mark.text)
    return axes.drawing


def _ratio_axis(axes: Axes, ratios: Sequence[float], label: str) -> Scale:
    """An upright axis of factors, from the least to the greatest of these ratios."""
    ends = (float(np.nanmin(ratios)) / 1.15, float(np.nanmax(ratios)) * 1.25)
    upwards = axes.upwards(ends, logarithmic=True)
    values = places_of_ticks(upwards, LogLocator(base=10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.grid_upwards(upwards, times_ticks(values), label)
    return upwards


def multiples(panels: Sequence[tuple[str, str, Sequence[Mark]]]) -> Drawing:
    """Figure with a panel for each metric (label, unit, marks) over the same versions.

    The place of a mark is that of its version, its name what the axis has there.
    """
    drawing, grid = panel_axes(len(panels))
    names = [mark.name for mark in panels[0][2]]
    every = math.ceil(len(names) / _MOST_TICKS)
    tick_texts = ["" if place % every else name for place, name in enumerate(names)]
    for axes, (label, unit, marks) in zip(grid, panels, strict=True):
        across = axes.across((-0.5, len(names) - 0.5))
        axes.grid_across(across, Ticks(range(len(names)), tick_texts))
        present = [mark for mark in marks if math.isfinite(mark.value)]
        divisor, title = scaled_label(label, unit, max(mark.value for mark in present))
        _draw_panel(axes, across, title, [mark.divided_by(divisor) for mark in present])
    return drawing


def _draw_panel(axes: Axes, across: Scale, title: str, marks: Sequence[Mark]) -> None:
    values = [mark.value for mark in marks]
    if spans_decades(values):
        upwards = axes.upwards((min(values) / ROOM, max(values) * ROOM), logarithmic=True)
        axes.grid_upwards(upwards, decade_ticks(upwards))
    else:
        upwards = axes.upwards((0.0, max(values) * 1.12 or 1.0))
        axes.grid_upwards(upwards, linear_ticks(upwards))
    points = points_of(marks, (across, upwards))
    axes.drawing.path(points, styles.line(styles.INK, 1.2))
    axes.drawing.dots(_PANEL_DOT, points, marks)
    axes.spines()
    axes.title(fitted(title, (axes.right - axes.left) / POINTS))


def _version_axes(names: Iterable[str]) -> tuple[Axes, Scale]:
    """Axes with a place on the x axis for each version, and that axis."""
    short_names = [shorten(name, _LONGEST) for name in names]
    turn = math.radians(_TURN_DEGREES)
    foot = 0.2 + widest_in(short_names) * math.sin(turn)
    # The first label reaches furthest to the left of its place.
    reach = 0.1 + text_width_in(short_names[0]) * math.cos(turn)
    left = max(_LEFT * WIDTH_IN, reach - 0.6 * (WIDTH_IN - reach) / len(short_names))
    drawing = sheet(_HEAD_IN + _PLOT_IN + foot)
    axes = Axes.in_inches(drawing, left, _HEAD_IN, _RIGHT * WIDTH_IN, _HEAD_IN + _PLOT_IN)
    across = axes.across((-0.6, len(short_names) - 0.4))
    axes.slanted_labels(across, short_names, _TURN_DEGREES)
    return axes, across


def _write_above(axes: Axes, x: float, y: float, text: str) -> None:
    if text:
        axes.drawing.text(text, (x, y - _ABOVE), styles.text("middle", 8.0))
