"""Figures of steps and of what launches need: each takes a prepared table and only draws it."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import (
    COLOURS,
    ROOM,
    Axis,
    colour_of,
    legend,
    log_ticks,
    panel_figure,
    row_text,
    rows_figure,
    spans_decades,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_NARROWEST = 0.02
"""Half of the least width of a ratio axis, in natural logarithms: noise shall look like noise."""


def effect_dots(table: pd.DataFrame, label: str) -> Figure:
    """Ratios on a log axis with their ranges; columns `name ratio low high text`.

    A vertical line stands at 1: nothing changed.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = rows_figure(table["name"].tolist())
        ratio, low, high = (table[name].to_numpy(dtype=float) for name in ("ratio", "low", "high"))
        rows = np.arange(len(table))
        axes.axvline(1.0, color=svg.INK, linewidth=1.2)
        axes.hlines(rows, low, high, color=svg.INK, linewidth=2.4, alpha=0.4)
        axes.scatter(ratio, rows, color=svg.INK, s=26, zorder=3)
        left = min(-_NARROWEST, math.log(np.fmin.reduce([*ratio, *low])))
        right = max(_NARROWEST, math.log(np.fmax.reduce([*ratio, *high])))
        room = (right - left) * 0.04
        for row, (end, text) in enumerate(zip(np.fmax(ratio, high), table["text"], strict=True)):
            row_text(axes, float(end) * math.exp(room / 4), row, text)
        axes.set_xscale("log")
        axes.set_xlim(math.exp(left - room), math.exp(right + 5 * room))
        _ratio_ticks(axes)
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="x")
    return figure


def _ratio_ticks(axes: Axes) -> None:
    """Ticks at round ratios, as many as the axis is wide."""
    low, high = axes.get_xlim()
    if high / low < 4:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    else:
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}{numbers.TIMES}"))


def scatter(table: pd.DataFrame, axis: Axis) -> Figure:
    """A panel for each `panel`, in order; columns `panel name role mark x value`, none missing."""
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("panel", sort=False)))
        figure, grid = panel_figure(len(panels))
        logarithmic = spans_decades(table["value"])
        divisor, label = axis.scaled(float(table["value"].median()))
        for axes, (panel, rows) in zip(grid, panels.items(), strict=True):
            _points(axes, rows, divisor)
            axes.set_xlabel(str(panel))
            if logarithmic:
                low, high = (f(table["value"]) / divisor for f in (min, max))
                axes.set_yscale("log")
                axes.set_ylim(low / ROOM, high * ROOM)
                log_ticks(axes.yaxis, axes.get_ylim())
            axes.grid(visible=True)
        grid[0].set_ylabel(label)
        named = dict(zip(table["role"], table["name"], strict=True))
        roles = [role for role in COLOURS if role in named]
        handles = [Line2D([], [], color=COLOURS[role], marker="o", linestyle="") for role in roles]
        legend(figure, handles, [shorten(named[role]) for role in roles])
    return figure


def _points(axes: Axes, rows: pd.DataFrame, divisor: float) -> None:
    rows = rows.sort_values("role", key=lambda roles: roles.isin(COLOURS), kind="stable")
    points = axes.scatter(
        rows["x"],
        rows["value"] / divisor,
        c=[colour_of(role) for role in rows["role"]],
        s=26,
        zorder=3,
    )
    points.set_gid(svg.marks(rows["mark"]))
    axes.margins(0.08)
