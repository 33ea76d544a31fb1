"""Figures of grids that are counted in waves; a panel for each variant."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import (
    PANEL_COLUMNS,
    WIDTH_IN,
    colour_of,
    fitted,
    legend,
    panel_figure,
)
from profiler.render.words import numbers

_DASHED = (0, (4, 2))
_STAIR_IN = 3.4
"""Height of all rows of stairs together, as a first screen has room for."""


def stairs(table: pd.DataFrame) -> Figure:
    """Measured time over waves, and the ideal that full waves give.

    Columns `name role mark waves time_ns ideal_ns`; only `ideal_ns` may be missing.
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("name", sort=False)))
        figure, grid = panel_figure(len(panels), _STAIR_IN)
        divisor, unit = numbers.scale(float(table["time_ns"].max()), "ns")
        for axes, (name, rows) in zip(grid, panels.items(), strict=True):
            ordered = rows.sort_values("waves", kind="stable")
            _measured(axes, ordered, "waves", ordered["time_ns"] / divisor)
            axes.plot(
                ordered["waves"],
                ordered["ideal_ns"] / divisor,
                color=svg.MUTED,
                linestyle=_DASHED,
            )
            axes.set_ylim(bottom=0)
            _dress(axes, str(name))
        _label(grid, "waves", f"time ({unit})")
        handles = [
            Line2D([], [], color=svg.INK, marker="o", markersize=4),
            Line2D([], [], color=svg.MUTED, linestyle=_DASHED),
        ]
        legend(figure, handles, ["measured", "ideal: blocks at the rate of full waves"])
    return figure


def efficiencies(table: pd.DataFrame, x: str, x_label: str, good: float) -> Figure:
    """Tail efficiency over one column of the table, with a line where it is good.

    Columns `name role mark efficiency` and that of `x`, none of them missing.
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("name", sort=False)))
        figure, grid = panel_figure(len(panels))
        for axes, (name, rows) in zip(grid, panels.items(), strict=True):
            ordered = rows.sort_values(x, kind="stable")
            axes.axhline(100 * good, color=svg.MUTED, linewidth=1.4, linestyle=_DASHED)
            _measured(axes, ordered, x, 100 * ordered["efficiency"])
            axes.set_ylim(0, max(105.0, 100 * float(ordered["efficiency"].max()) + 5))
            _dress(axes, str(name))
        _label(grid, x_label, "tail efficiency (%)")
        handles = [
            Line2D([], [], color=svg.INK, marker="o", markersize=4),
            Line2D([], [], color=svg.MUTED, linestyle=_DASHED),
        ]
        legend(figure, handles, ["ideal time \u00f7 measured time", f"{100 * good:.0f}\u202f%"])
    return figure


def _measured(axes: Axes, rows: pd.DataFrame, x: str, values: pd.Series[float]) -> None:
    colour = colour_of(str(rows["role"].iloc[0]))
    axes.plot(rows[x], values, color=colour, linewidth=1.2)
    points = axes.scatter(rows[x], values, color=colour, s=12, zorder=3)
    points.set_gid(svg.marks(rows["mark"]))


def _dress(axes: Axes, name: str) -> None:
    room = axes.get_position().width * WIDTH_IN
    axes.set_title(fitted(name, room), loc="left")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(visible=True)


def _label(grid: list[Axes], x_label: str, y_label: str) -> None:
    for index, axes in enumerate(grid):
        if index % PANEL_COLUMNS == 0:
            axes.set_ylabel(y_label)
        if index + PANEL_COLUMNS >= len(grid):
            axes.set_xlabel(x_label)
