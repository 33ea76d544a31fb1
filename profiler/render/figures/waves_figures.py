"""Figures of grids that are counted in waves; a panel for each variant."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Handle,
    Scale,
    legend,
    limits,
    linear_ticks,
    outer_labels,
    panel_axes,
    places,
    whole_numbers,
)
from profiler.render.figures.canvas import fitted
from profiler.render.figures.drawing import (
    Drawing,
    circle,
    dashed,
    line_style,
)
from profiler.render.figures.palette import colour_of
from profiler.render.words import numbers

_STAIR_IN = 3.4
"""Height of all rows of stairs together, as a first screen has room for."""
_DOT = circle(1.75)
_IDEAL = dashed(palette.MUTED, 1.5)


def stairs(table: pd.DataFrame) -> Drawing:
    """Measured time over waves, and the ideal that full waves give.

    Columns `name role mark waves time_ns ideal_ns`; only `ideal_ns` may be missing.
    """
    panels = dict(list(table.groupby("name", sort=False)))
    drawing, grid = panel_axes(len(panels), _STAIR_IN)
    divisor, unit = numbers.scale(float(table["time_ns"].max()), "ns")
    for index, (axes, (name, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        ordered = rows.sort_values("waves", kind="stable")
        measured, ideal = (ordered[column] / divisor for column in ("time_ns", "ideal_ns"))
        labels = outer_labels(index, len(panels), "waves", f"time ({unit})")
        top = limits([*measured, *ideal.dropna()])[1]
        scales = _dressed(axes, str(name), ordered["waves"], top, labels)
        _draw(axes, ordered, places(ordered["waves"], measured, scales))
        drawing.path(places(ordered["waves"], ideal, scales), _IDEAL)
        axes.spines()
    _legend(drawing, "measured", "ideal: blocks at the rate of full waves")
    return drawing


def efficiencies(table: pd.DataFrame, x: str, x_label: str, good: float) -> Drawing:
    """Tail efficiency over one column of the table, with a line where it is good.

    Columns `name role mark efficiency` and that of `x`, none of them missing.
    """
    panels = dict(list(table.groupby("name", sort=False)))
    drawing, grid = panel_axes(len(panels))
    for index, (axes, (name, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        ordered = rows.sort_values(x, kind="stable")
        labels = outer_labels(index, len(panels), x_label, "tail efficiency (%)")
        top = max(105.0, 100 * float(ordered["efficiency"].max()) + 5)
        scales = _dressed(axes, str(name), ordered[x], top, labels)
        axes.level(scales[1].at(100 * good), dashed(palette.MUTED, 1.4))
        _draw(axes, ordered, places(ordered[x], 100 * ordered["efficiency"], scales))
        axes.spines()
    _legend(drawing, "ideal time \u00f7 measured time", f"{100 * good:.0f}\u202f%")
    return drawing


def _dressed(
    axes: Axes, name: str, xs: Iterable[float], top: float, labels: tuple[str, str]
) -> tuple[Scale, Scale]:
    """Scales of a panel from 0 on, with its grid and title."""
    across = axes.across((0.0, limits([*xs])[1]))
    upwards = axes.upwards((0.0, top))
    axes.grid_across(across, linear_ticks(across, whole_numbers(8)), labels[0])
    axes.grid_upwards(upwards, linear_ticks(upwards), labels[1])
    axes.title(fitted(name, (axes.right - axes.left) / POINTS))
    return across, upwards


def _draw(axes: Axes, rows: pd.DataFrame, points: list[tuple[float, float]]) -> None:
    colour = colour_of(str(rows["role"].iloc[0]))
    axes.drawing.path(points, line_style(colour, 1.2))
    axes.drawing.dots(_DOT, points, [colour] * len(points), map(svg.mark, rows["mark"]))


def _legend(drawing: Drawing, measured: str, ideal: str) -> None:
    symbol = (circle(2.0), palette.INK)
    legend(
        drawing,
        [
            Handle(measured, line_style(palette.INK, 1.5), symbol),
            Handle(ideal, _IDEAL),
        ],
    )
