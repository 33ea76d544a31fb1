"""Figures of the page: each takes a prepared table and only draws what stands in it.

Rows are drawn in the order given. Columns that every table has: `name` (text of the row or series),
`role` (`best`, `baseline`, `series-1` … or `other`) and `mark` (index of the variant, by which the
page's script lights up marks and rows together). No statistics here, and no global pyplot state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import (
    COLOURS,
    LOG_FROM,
    MARKERS,
    PANEL_COLUMNS,
    WIDTH_IN,
    Axis,
    colour_of,
    legend,
    log_ticks,
    panel_figure,
    row_text,
    rows_figure,
    spans_decades,
    widest_in,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_ENDS = ("value", "low", "high")
_VISIBLE = 0.002
"""An interval shorter than this part of the axis would be a speck."""


def bars(table: pd.DataFrame, axis: Axis, limit: float = math.inf) -> Figure:
    """One bar a row with its interval; columns `name value low high text role mark`.

    A row without a value has no bar, only its `text`, which then says why. Bars longer than `limit`
    are cut there and get an arrow.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = rows_figure(table["name"].tolist())
        value, low, high = (np.minimum(table[name].to_numpy(dtype=float), limit) for name in _ENDS)
        largest = np.fmax.reduce([*value, *high], initial=0.0)
        divisor, label = axis.scaled(largest or 1.0)
        end = (largest or 1.0) / divisor
        drawn = axes.barh(
            range(len(table)),
            np.nan_to_num(value) / divisor,
            height=0.68,
            color=[colour_of(role) for role in table["role"]],
        )
        for bar, mark in zip(drawn, table["mark"], strict=True):
            bar.set_gid(svg.mark(mark))
        visible = np.flatnonzero(high - low > _VISIBLE * largest)
        axes.hlines(
            visible, low[visible] / divisor, high[visible] / divisor, color=svg.INK, linewidth=1.2
        )
        right = np.nan_to_num(np.fmax(value, high)) / divisor + end * 0.008
        finite = np.isfinite(value)
        for row, text in enumerate(table["text"]):
            cut = "\u25b8 " if table["value"].iloc[row] > limit else ""
            row_text(axes, float(right[row]), row, cut + text, quiet=not finite[row])
        axes.set_xlim(0, end * 1.14)
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="x")
    return figure


def dots(table: pd.DataFrame, label: str, line: str = svg.BASELINE) -> Figure:
    """Ratios to the baseline with their intervals; columns `name ratio low high role mark`.

    A vertical line stands at 1, in the colour `line`: the baseline itself. Beside a row stands
    its `text`, where the table has that column, else its ratio.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = rows_figure(table["name"].tolist())
        ratio, low, high = (table[name].to_numpy(dtype=float) for name in ("ratio", "low", "high"))
        colours = [colour_of(role) for role in table["role"]]
        rows = range(len(table))
        axes.axvline(1.0, color=line, linewidth=1.4, linestyle=(0, (4, 2)))
        axes.hlines(rows, low, high, color=colours, linewidth=2.4, alpha=0.6)
        points = axes.scatter(ratio, rows, c=colours, s=26, zorder=3)
        points.set_gid(svg.marks(table["mark"]))
        smallest = min(1.0, float(np.fmin.reduce([*ratio, *low])))
        largest = max(1.0, float(np.fmax.reduce([*ratio, *high])))
        room = (largest - smallest) * 0.05 or 0.05
        texts = table["text"] if "text" in table else map(numbers.ratio, ratio)
        for row, (right, text) in enumerate(zip(np.fmax(ratio, high), texts, strict=True)):
            row_text(axes, float(right) + room / 5, row, text)
        axes.set_xlim(smallest - room, largest + room * 3)
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:.6g}{numbers.TIMES}")
        )
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="x")
    return figure


def pairs(table: pd.DataFrame, axis: Axis, names: tuple[str, str]) -> Figure:
    """Two bars a row, the best above the baseline; columns `name best baseline`.

    `names` are those of the best and of the baseline, for the legend.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = rows_figure(table["name"].tolist(), row_height=0.36, head=0.34)
        values = {role: table[role].to_numpy(dtype=float) for role in ("best", "baseline")}
        end = float(np.fmax.reduce([*values["best"], *values["baseline"]], initial=0.0)) or 1.0
        for offset, (role, value) in zip((-0.2, 0.2), values.items(), strict=True):
            rows = np.arange(len(table)) + offset
            axes.barh(rows, np.nan_to_num(value), height=0.36, color=COLOURS[role])
            for row, length in zip(rows, value, strict=True):
                text = numbers.show(length, axis.unit)
                row_text(axes, float(np.nan_to_num(length)) + end * 0.008, row, text)
        axes.set_xlim(0, max(end * 1.12, 100.0 if axis.unit == "%" else 0.0))
        axes.set_xlabel(axis.unit)
        axes.grid(visible=True, axis="x")
        handles = [Line2D([], [], color=COLOURS[role], linewidth=6) for role in values]
        legend(figure, handles, [shorten(name) for name in names])
    return figure


def lines(table: pd.DataFrame, x_label: str, axis: Axis) -> Figure:
    """One line a series over a numeric parameter; columns `panel name role mark x value`.

    Panels keep the order of their first row. Series of role `other` are drawn first, in grey.
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("panel", sort=False)))
        figure, grid = panel_figure(len(panels))
        logarithmic = spans_decades(table["value"])
        typical = table["value"].median() if logarithmic else table["value"].max()
        divisor, label = axis.scaled(float(typical))
        for axes, (panel, rows) in zip(grid, panels.items(), strict=True):
            _panel(axes, _series(rows, divisor))
            axes.set_title(str(panel), loc="left")
            _scale_x(axes, sorted(rows["x"].unique()))
            # A logarithmic axis without any point cannot be drawn.
            _scale_y(axes, logarithmic=logarithmic and bool(rows["value"].notna().any()))
            axes.grid(visible=True)
        for index, axes in enumerate(grid):
            if index % PANEL_COLUMNS == 0:
                axes.set_ylabel(label)
            if index + PANEL_COLUMNS >= len(panels):
                axes.set_xlabel(x_label)
        _line_legend(figure, table)
    return figure


_TICK_ROOM_IN = 0.14
"""Room between the labels of two ticks."""


@dataclass(frozen=True)
class _Series:
    """One line: its part in the figure, its variant, and its points (x, y), sorted by x."""

    role: str
    mark: int
    points: list[tuple[float, float]]


def _series(table: pd.DataFrame, divisor: float) -> list[_Series]:
    series_by_name: dict[str, _Series] = {}
    columns = [table[name].tolist() for name in ("name", "role", "mark", "x", "value")]
    for name, role, mark, x, value in zip(*columns, strict=True):
        series = series_by_name.setdefault(name, _Series(role, int(mark), []))
        if math.isfinite(value):
            series.points.append((x, value / divisor))
    for series in series_by_name.values():
        series.points.sort()
    return [series for series in series_by_name.values() if series.points]


def _panel(axes: Axes, series: Sequence[_Series]) -> None:
    others = [curve for curve in series if curve.role == "other"]
    axes.add_collection(
        LineCollection(
            [curve.points for curve in others],
            colors=svg.OTHER,
            linewidths=0.9,
            gid=svg.marks(curve.mark for curve in others),
        )
    )
    for curve in sorted((curve for curve in series if curve.role != "other"), key=_drawn_last):
        (line,) = axes.plot(
            *zip(*curve.points, strict=True),
            color=COLOURS[curve.role],
            linewidth=1.8,
            linestyle=(0, (4, 2)) if curve.role == "baseline" else "-",
            marker=MARKERS[curve.role],
            markersize=4.5,
        )
        line.set_gid(svg.mark(curve.mark))
    axes.autoscale_view()


def _drawn_last(series: _Series) -> int:
    return {"baseline": 1, "best": 2}.get(series.role, 0)


def _scale_x(axes: Axes, ticks: Sequence[float]) -> None:
    logarithmic = ticks[0] > 0 and ticks[-1] / ticks[0] > LOG_FROM
    if logarithmic:
        axes.set_xscale("log", base=2)
    widest = widest_in([f"{tick:g}" for tick in ticks]) + _TICK_ROOM_IN
    most = max(1, int(axes.get_position().width * WIDTH_IN / widest))
    axes.xaxis.set_major_locator(FixedLocator(apart(ticks, most, logarithmic=logarithmic)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def apart(ticks: Sequence[float], most: int, *, logarithmic: bool) -> list[float]:
    """Those of sorted ticks whose labels have room, the ones that are short to write first.

    `most`: labels that the axis has room for beside each other.
    """
    places = {tick: math.log(tick) if logarithmic else tick for tick in ticks}
    least = (places[ticks[-1]] - places[ticks[0]]) / most
    shown: list[float] = []
    for tick in sorted(ticks, key=lambda value: (len(f"{value:g}"), value)):
        if all(abs(places[tick] - places[other]) >= least for other in shown):
            shown.append(tick)
    return sorted(shown)


def _scale_y(axes: Axes, *, logarithmic: bool) -> None:
    axes.yaxis.set_minor_locator(NullLocator())
    if not logarithmic:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        return
    axes.set_yscale("log")
    log_ticks(axes.yaxis, axes.get_ylim())


def _line_legend(figure: Figure, table: pd.DataFrame) -> None:
    series = table.drop_duplicates("name").set_index("name")["role"]
    named = {role: str(name) for name, role in series.items() if role != "other"}
    handles = []
    for role in (role for role in COLOURS if role in named):
        dashes: Any = (0, (4, 2)) if role == "baseline" else "-"
        handles.append(Line2D([], [], color=COLOURS[role], marker=MARKERS[role], linestyle=dashes))
    texts = [shorten(named[role]) for role in COLOURS if role in named]
    others = int((series == "other").sum())
    if others:
        handles.append(Line2D([], [], color=svg.OTHER, marker=".", markersize=3, linewidth=0.9))
        texts.append(f"{others} others")
    legend(figure, handles, texts)
