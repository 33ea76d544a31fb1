"""Figures of the page: each takes a prepared table and only draws what stands in it.

Rows are drawn in the order given. Columns that every table has: `name` (text of the row or series),
`role` (`best`, `baseline`, `series-1` … or `other`) and `mark` (index of the variant, by which the
page's script lights up marks and rows together). No statistics here, and no global pyplot state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    POINTS,
    Axes,
    Handle,
    RowAxes,
    Scale,
    at_most,
    decade_ticks,
    legend,
    limits,
    linear_ticks,
    named_ticks,
    outer_labels,
    panel_axes,
    row_axes,
    shortened,
    times_ticks,
)
from profiler.render.figures.drawing import (
    LOG_FROM,
    Axis,
    Drawing,
    Element,
    Point,
    circle,
    dashed,
    fill_style,
    line_style,
    marker,
    spans_decades,
    symbol_style,
    widest_in,
)
from profiler.render.figures.palette import COLOURS, MARKERS, colour_of
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_ENDS = ("value", "low", "high")
_VISIBLE = 0.002
"""An interval shorter than this part of the axis would be a speck."""
_WIDE = 5.0
"""Largest ÷ smallest ratio from which an axis has ticks at 1, 2 and 5 of each decade."""
_NARROWEST = 1.02
"""Least end of an axis of effects: noise shall look like noise."""
_BAR = 0.68
_PAIR_BAR = 0.36
_DOT = circle(2.55)
_MARKER, _LEGEND_MARKER, _OTHERS_MARKER = 4.5, 6.0, 1.5


def bars(table: pd.DataFrame, axis: Axis, limit: float = math.inf) -> Drawing:
    """One bar a row with its interval; columns `name value low high text role mark`.

    A row without a value has no bar, only its `text`, which then says why. Bars longer than `limit`
    are cut there and get an arrow.
    """
    names = shortened(table["name"].tolist())
    rows = row_axes(names)
    value, low, high = (np.minimum(table[name].to_numpy(dtype=float), limit) for name in _ENDS)
    largest = float(np.fmax.reduce([*value, *high], initial=0.0)) or 1.0
    divisor, label = axis.scaled(largest)
    end = largest / divisor
    across = rows.axes.across((0.0, end * 1.14))
    rows.axes.grid_across(across, linear_ticks(across), label)
    for row, (role, mark) in enumerate(zip(table["role"], table["mark"], strict=True)):
        length = float(np.nan_to_num(value[row])) / divisor
        _bar(rows, across, row, length, (_BAR, colour_of(role))).set("id", svg.mark(mark))
    for row in np.flatnonzero(high - low > _VISIBLE * largest).tolist():
        ends = [(across.at(float(edge) / divisor), rows.y(row)) for edge in (low[row], high[row])]
        rows.drawing.path(ends, line_style(palette.INK, 1.2, ""))
    rows.axes.spines()
    rows.names(names)
    right = np.nan_to_num(np.fmax(value, high)) / divisor + end * 0.008
    uncut = table["value"].to_numpy(dtype=float)
    for row, text in enumerate(table["text"]):
        cut = "\u25b8 " if uncut[row] > limit else ""
        x = across.at(float(right[row]))
        rows.text(x, row, cut + text, quiet=not math.isfinite(value[row]))
    return rows.drawing


def _bar(
    rows: RowAxes,
    across: Scale,
    row: float,
    length: float,
    look: tuple[float, str],
) -> Element:
    """A bar from 0 on; `look`: its height, by that of a row, and its colour."""
    height, colour = look
    corner = (across.at(0.0), rows.y(row - height / 2))
    opposite = (across.at(length), rows.y(row + height / 2))
    return rows.drawing.rectangle(corner, opposite, fill_style(colour))


def dots(
    table: pd.DataFrame, label: str, line: str = palette.BASELINE, *, ink: bool = False
) -> Drawing:
    """Ratios with their intervals; columns `name ratio low high`.

    The axis is logarithmic. A vertical line stands at 1, in the colour `line`: the baseline itself.
    Beside a row stands its `text`, where the table has that column, else its ratio. `ink`: ratios
    are of no variants; else columns `role mark` say whose they are.
    """
    names = shortened(table["name"].tolist())
    rows = row_axes(names)
    ratio, low, high = (table[name].to_numpy(dtype=float) for name in ("ratio", "low", "high"))
    least = _NARROWEST if ink else 1.0
    smallest = min(1 / least, float(np.fmin.reduce([*ratio, *low])))
    largest = max(least, float(np.fmax.reduce([*ratio, *high])))
    room = (largest / smallest) ** 0.05 if largest > smallest else 1.05
    # On a logarithmic axis half the time and twice the time lie equally far from the baseline.
    across = rows.axes.across((smallest / room, largest * room**3), logarithmic=True)
    is_wide = largest > _WIDE * smallest
    ticks = decade_ticks(across) if is_wide else linear_ticks(across, at_most(8))
    rows.axes.grid_across(across, times_ticks(ticks.values), label)
    at_one = line_style(palette.INK, 1.2) if ink else dashed(line, 1.4)
    rows.axes.upright(across.at(1.0), at_one)
    colours = [palette.INK] * len(table) if ink else [colour_of(role) for role in table["role"]]
    for row, ends in enumerate(zip(low, high, strict=True)):
        rows.span(across, row, *ends, line_style(colours[row], 2.4, "stroke-opacity: 0.6"))
    rows.axes.spines()
    rows.names(names)
    for row in np.flatnonzero(np.isfinite(ratio)).tolist():
        dot = rows.dot(_DOT, across.at(float(ratio[row])), row, colours[row])
        if not ink:
            dot.set("id", svg.mark(table["mark"].iloc[row]))
    texts = table["text"] if "text" in table else map(numbers.ratio, ratio)
    for row, (right, text) in enumerate(zip(np.fmax(ratio, high), texts, strict=True)):
        rows.text(across.at(float(right) * room**0.2), row, text)
    return rows.drawing


def pairs(table: pd.DataFrame, axis: Axis, names: tuple[str, str]) -> Drawing:
    """Two bars a row, the best above the baseline; columns `name best baseline`.

    `names` are those of the best and of the baseline, for the legend.
    """
    titles = shortened(table["name"].tolist())
    rows = row_axes(titles, row_height=0.36, head=0.34)
    values = {role: table[role].to_numpy(dtype=float) for role in ("best", "baseline")}
    end = float(np.fmax.reduce([*values["best"], *values["baseline"]], initial=0.0)) or 1.0
    across = rows.axes.across((0.0, max(end * 1.12, 100.0 if axis.unit == "%" else 0.0)))
    rows.axes.grid_across(across, linear_ticks(across), axis.unit)
    for offset, (role, lengths) in zip((-0.2, 0.2), values.items(), strict=True):
        for row, length in enumerate(map(float, lengths)):
            shown = float(np.nan_to_num(length))
            _bar(rows, across, row + offset, shown, (_PAIR_BAR, COLOURS[role]))
            text = numbers.show(length, axis.unit)
            rows.text(across.at(shown + end * 0.008), row + offset, text)
    rows.axes.spines()
    rows.names(titles)
    handles = [
        Handle(shorten(name), line_style(COLOURS[role], 6.0, ""))
        for role, name in zip(values, names, strict=True)
    ]
    legend(rows.drawing, handles)
    return rows.drawing


def lines(table: pd.DataFrame, x_label: str, axis: Axis) -> Drawing:
    """One line a series over a numeric parameter; columns `panel name role mark x value`.

    Panels keep the order of their first row. Series of role `other` are drawn first, in grey.
    """
    panels = dict(list(table.groupby("panel", sort=False)))
    drawing, grid = panel_axes(len(panels))
    spans = spans_decades(table["value"])
    typical = table["value"].median() if spans else table["value"].max()
    divisor, label = axis.scaled(float(typical))
    for index, (axes, (panel, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        series = _series(rows, divisor)
        labels = outer_labels(index, len(panels), x_label, label)
        # A logarithmic axis without any point cannot be drawn.
        scales = _scaled(axes, series, sorted(rows["x"].unique()), labels, spans=spans)
        _curves(axes, series, scales)
        axes.spines()
        axes.title(str(panel))
    _line_legend(drawing, table)
    return drawing


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


def _scaled(
    axes: Axes,
    series: Sequence[_Series],
    ticks: Sequence[float],
    labels: tuple[str, str],
    *,
    spans: bool,
) -> tuple[Scale, Scale]:
    """Scales of a panel, with their grids; `labels` are those of both axes."""
    points = [point for curve in series for point in curve.points]
    steps = ticks[0] > 0 and ticks[-1] / ticks[0] > LOG_FROM
    xs = [x for x, _ in points] or ticks
    across = axes.across(limits(xs, logarithmic=steps), logarithmic=steps)
    widest = widest_in([f"{tick:g}" for tick in ticks]) + _TICK_ROOM_IN
    most = max(1, int((axes.right - axes.left) / POINTS / widest))
    shown = across.inside(apart(ticks, most, logarithmic=steps))
    axes.grid_across(across, named_ticks(shown), labels[0])
    logarithmic = spans and bool(points)
    bottom, top = limits([y for _, y in points], logarithmic=logarithmic)
    if not logarithmic:
        bottom = min(0.0, bottom)
    upwards = axes.upwards((bottom, top), logarithmic=logarithmic)
    ticks_upwards = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
    axes.grid_upwards(upwards, ticks_upwards, labels[1])
    return across, upwards


def _curves(axes: Axes, series: Sequence[_Series], scales: tuple[Scale, Scale]) -> None:
    others = [curve for curve in series if curve.role == "other"]
    thin = line_style(palette.OTHER, 0.9, "")
    for curve in others:
        axes.drawing.path(_places(curve, scales), thin).set("id", svg.mark(curve.mark))
    for curve in sorted(
        (curve for curve in series if curve.role != "other"),
        key=lambda curve: {"baseline": 1, "best": 2}.get(curve.role, 0),
    ):
        group = axes.drawing.group(id=svg.mark(curve.mark))
        places, colour = _places(curve, scales), COLOURS[curve.role]
        dashes = curve.role == "baseline"
        axes.drawing.path(places, dashed(colour, 1.8) if dashes else line_style(colour, 1.8), group)
        for at in places:
            outline = marker(MARKERS[curve.role], _MARKER)
            axes.drawing.symbol(outline, at, symbol_style(colour), group)


def _places(curve: _Series, scales: tuple[Scale, Scale]) -> list[Point]:
    across, upwards = scales
    return [(across.at(x), upwards.at(y)) for x, y in curve.points]


def apart(ticks: Sequence[float], most: int, *, logarithmic: bool) -> list[float]:
    """Ticks, of sorted ones, whose labels have room; values that are short to write come first.

    `most`: labels that the axis has room for beside each other.
    """
    places = {tick: math.log(tick) if logarithmic else tick for tick in ticks}
    least = (places[ticks[-1]] - places[ticks[0]]) / most
    shown: list[float] = []
    for tick in sorted(ticks, key=lambda value: (len(f"{value:g}"), value)):
        if all(abs(places[tick] - places[other]) >= least for other in shown):
            shown.append(tick)
    return sorted(shown)


def _line_legend(drawing: Drawing, table: pd.DataFrame) -> None:
    series = table.drop_duplicates("name").set_index("name")["role"]
    named = {role: str(name) for name, role in series.items() if role != "other"}
    handles = []
    for role in (role for role in COLOURS if role in named):
        colour = COLOURS[role]
        style = dashed(colour, 1.5) if role == "baseline" else line_style(colour, 1.5)
        outline = marker(MARKERS[role], _LEGEND_MARKER)
        handles.append(Handle(shorten(named[role]), style, (outline, colour)))
    others = int((series == "other").sum())
    if others:
        style, dot = line_style(palette.OTHER, 0.9), (marker("o", _OTHERS_MARKER), palette.OTHER)
        handles.append(Handle(f"{others} others", style, dot))
    legend(drawing, handles)
