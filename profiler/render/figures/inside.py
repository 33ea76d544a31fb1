"""Figure of what was sampled inside a launch: busy SMs, pipes and memory above, the clock below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from profiler.render.figures import palette
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Handle,
    Scale,
    at_most,
    legend,
    linear_ticks,
    places,
)
from profiler.render.figures.drawing import (
    WIDTH_IN,
    Drawing,
    Point,
    fill_style,
    line_style,
    text_style,
)

_LEFT_IN, _RIGHT_IN = 0.9, 0.2
_SHARES_IN, _CLOCK_IN = (0.45, 2.75), (3.0, 4.0)
"""Top and bottom of both panels."""
_HEIGHT_IN = 4.55
_ENDS = 0.12
"""Opacity of ramp and tail."""
_ROOM = 0.05
_LABELLED = 0.06
"""Part of the time from which on there is room for the word at an end."""

Floats = npt.NDArray[np.float64]


def inside(
    times_us: Floats,
    busy_pct: Floats,
    lines: Mapping[str, Floats],
    clocks_ghz: Floats,
    ends_us: tuple[float, float, float],
) -> Drawing:
    """Shares of the peak by their names, and the clock, over time; `ends_us`: ramp, tail, whole.

    NaN is a gap. At most as many lines as the palette has series.
    """
    drawing = Drawing(WIDTH_IN * POINTS, _HEIGHT_IN * POINTS)
    shares, clock = (_panel(drawing, edges) for edges in (_SHARES_IN, _CLOCK_IN))
    across = shares.across((0.0, ends_us[2]))
    upwards = shares.upwards((0.0, 100.0))
    lowest, highest = float(np.nanmin(clocks_ghz)), float(np.nanmax(clocks_ghz))
    room = _ROOM * highest
    clock_upwards = clock.upwards((lowest - room, highest + room))
    _shade_ends(shares, across, ends_us)
    _shade_ends(clock, across, ends_us, words=False)
    ticks = linear_ticks(across)
    shares.grid_across(across, type(ticks)(ticks.values, [""] * len(ticks.values)))
    shares.grid_upwards(upwards, linear_ticks(upwards, at_most(5)), "% of the peak")
    clock.grid_across(across, ticks, "µs since the launch began")
    clock.grid_upwards(clock_upwards, linear_ticks(clock_upwards, at_most(4)), "SM clock, GHz")
    handles = []
    colours = (palette.INK, *palette.SERIES)
    shown = {"SMs with a warp": busy_pct, **lines}
    for (name, values), colour in zip(shown.items(), colours, strict=False):
        _draw(shares, _points(times_us, values, (across, upwards)), colour)
        handles.append(Handle(name, line_style(colour, 1.8)))
    _draw(clock, _points(times_us, clocks_ghz, (across, clock_upwards)), palette.INK)
    for axes in (shares, clock):
        axes.spines()
    legend(drawing, handles)
    return drawing


def _panel(drawing: Drawing, edges_in: tuple[float, float]) -> Axes:
    top, bottom = edges_in
    right = (WIDTH_IN - _RIGHT_IN) * POINTS
    return Axes(drawing, _LEFT_IN * POINTS, top * POINTS, right, bottom * POINTS)


def _shade_ends(
    axes: Axes, across: Scale, ends_us: tuple[float, float, float], *, words: bool = True
) -> None:
    """Ramp and tail as areas, with their names where there is room."""
    ramp, tail, end_of_launch = ends_us
    for name, begin, end in (("ramp", 0.0, ramp), ("tail", end_of_launch - tail, end_of_launch)):
        left, right = across.at(begin), across.at(end)
        corners = (left, axes.top), (right, axes.bottom)
        axes.drawing.rectangle(*corners, fill_style(palette.BASELINE, _ENDS))
        if words and end - begin >= _LABELLED * end_of_launch:
            at = ((left + right) / 2, axes.top + 12)
            axes.drawing.text(name, at, text_style("middle", colour=palette.MUTED))


def _points(times: Floats, values: Floats, scales: tuple[Scale, Scale]) -> list[list[Point]]:
    """Places of the values in parts, which end where one is missing."""
    known = np.flatnonzero(np.isfinite(values))
    parts = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    # The first sample begins before the launch does, and the last may end after it.
    inside = np.clip(times, scales[0].low, scales[0].high)
    return [places(inside[part], values[part], scales) for part in parts if len(part)]


def _draw(axes: Axes, parts: Sequence[list[Point]], colour: str) -> None:
    for points in parts:
        axes.drawing.path(points, line_style(colour, 1.3, "stroke-linejoin: round"))
