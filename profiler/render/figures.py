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
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from profiler.render import numbers, svg

WIDTH_IN = 9.6
_ROW_IN = 0.21
_HEAD_IN = 0.15
_FOOT_IN = 0.48
_PANEL_IN = 2.5
_PANEL_COLUMNS = 3
_CHARACTER_IN = 0.073
_LONGEST_NAME = 44
_LOG_FROM = 5.0
"""Values that span more than this factor are drawn on a log scale."""
_VISIBLE = 0.002
"""An interval shorter than this part of the axis would be a speck."""

_COLOURS = {
    "best": svg.BEST,
    "baseline": svg.BASELINE,
    "series-1": svg.SERIES[0],
    "series-2": svg.SERIES[1],
    "series-3": svg.SERIES[2],
}
_MARKERS = {"best": "o", "baseline": "s", "series-1": "^", "series-2": "D", "series-3": "v"}


@dataclass(frozen=True)
class Axis:
    """What an axis shows: its words and the unit of the values in the table."""

    label: str
    unit: str

    def scaled(self, largest: float) -> tuple[float, str]:
        """Find the divisor and the label with the unit that suits the largest value."""
        divisor, unit = numbers.scale(largest, self.unit)
        return divisor, f"{self.label} ({unit})" if unit else self.label


def bars(table: pd.DataFrame, axis: Axis) -> Figure:
    """One bar a row with its interval; columns `name value low high text role mark`.

    A row without a value has no bar, only its `text`, which then says why.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _rows_figure(table["name"].tolist())
        largest = float(table[["value", "high"]].max().max())
        end = largest if math.isfinite(largest) and largest > 0 else 1.0
        divisor, label = axis.scaled(end)
        scaled = table.assign(
            **{column: table[column] / divisor for column in ("value", "low", "high")}
        )
        for position, row in enumerate(scaled.itertuples(index=False)):
            _bar(axes, position, row, end / divisor)
        axes.set_xlim(0, end / divisor * 1.14)
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="x")
    return figure


def _bar(axes: Axes, position: int, row: Any, end: float) -> None:
    known = math.isfinite(row.value)
    if known:
        colour = _COLOURS.get(row.role, svg.OTHER)
        axes.barh(position, row.value, height=0.68, color=colour)[0].set_gid(svg.mark(row.mark))
    right = max(row.value, row.high if math.isfinite(row.high) else row.value) if known else 0.0
    if known and row.high - row.low > _VISIBLE * end:
        axes.plot([row.low, row.high], [position] * 2, color=svg.INK, linewidth=1.2)
    axes.text(
        right + end * 0.008,
        position,
        row.text,
        va="center",
        fontsize=8,
        color=svg.INK if known else svg.MUTED,
        fontstyle="normal" if known else "italic",
    )


def dots(table: pd.DataFrame, label: str) -> Figure:
    """Ratios to the baseline with their intervals; columns `name ratio low high role mark`.

    A vertical line stands at 1: the baseline itself.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _rows_figure(table["name"].tolist())
        axes.axvline(1.0, color=svg.BASELINE, linewidth=1.4, linestyle=(0, (4, 2)))
        for position, row in enumerate(table.itertuples(index=False)):
            _dot(axes, position, row)
        shown = table[["ratio", "low", "high"]]
        low, high = min(shown.min().min(), 1.0), max(shown.max().max(), 1.0)
        room = (high - low) * 0.05 or 0.05
        axes.set_xlim(low - room, high + room * 3)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:.4g}{numbers.TIMES}")
        )
        axes.set_xlabel(label)
        axes.grid(visible=True, axis="both")
    return figure


def _dot(axes: Axes, position: int, row: Any) -> None:
    colour = _COLOURS.get(row.role, svg.MUTED)
    if math.isfinite(row.low) and math.isfinite(row.high):
        axes.plot([row.low, row.high], [position] * 2, color=colour, linewidth=2.4, alpha=0.6)
    (dot,) = axes.plot(
        [row.ratio],
        [position],
        color=colour,
        marker=_MARKERS.get(row.role, "o"),
        markersize=5,
    )
    dot.set_gid(svg.mark(row.mark))
    edge = row.high if math.isfinite(row.high) else row.ratio
    axes.annotate(
        numbers.ratio(row.ratio),
        (edge, position),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def pairs(table: pd.DataFrame, axis: Axis, names: tuple[str, str]) -> Figure:
    """Two bars a row, the best above the baseline; columns `name best baseline`.

    `names` are those of the best and of the baseline, for the legend.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _rows_figure(table["name"].tolist(), row_height=0.36, head=0.34)
        end = table[["best", "baseline"]].max().max()
        end = end if math.isfinite(end) and end > 0 else 1.0
        for position, row in enumerate(table.itertuples(index=False)):
            for offset, role in ((-0.2, "best"), (0.2, "baseline")):
                value = getattr(row, role)
                known = math.isfinite(value)
                axes.barh(
                    position + offset, value if known else 0.0, height=0.36, color=_COLOURS[role]
                )
                axes.text(
                    (value if known else 0.0) + end * 0.008,
                    position + offset,
                    numbers.show(value, axis.unit),
                    va="center",
                    fontsize=8,
                )
        axes.set_xlim(0, max(end * 1.12, 100.0 if axis.unit == "%" else 0.0))
        axes.set_xlabel(axis.scaled(1.0)[1])
        axes.grid(visible=True, axis="x")
        handles = [Line2D([], [], color=_COLOURS[role], linewidth=6) for role in _COLOURS][:2]
        _legend(figure, handles, [shorten(name) for name in names])
    return figure


def lines(table: pd.DataFrame, x_label: str, axis: Axis) -> Figure:
    """One line a series over a numeric parameter; columns `panel name role mark x value low high`.

    Panels keep the order of their first row. Series of role `other` are drawn first, in grey.
    """
    with mpl.rc_context(svg.style()):
        panels = list(dict.fromkeys(table["panel"]))
        figure, grid = _panel_figure(len(panels))
        divisor, label = axis.scaled(float(table["value"].max()))
        logarithmic = _spans_decades(table["value"])
        for axes, panel in zip(grid, panels, strict=True):
            _panel(axes, table[table["panel"] == panel], divisor)
            axes.set_title(panel, loc="left")
            _scale_x(axes, sorted(table["x"].unique()))
            _scale_y(axes, logarithmic=logarithmic)
            axes.grid(visible=True)
        for index, axes in enumerate(grid):
            if index % _PANEL_COLUMNS == 0:
                axes.set_ylabel(label)
            if index + _PANEL_COLUMNS >= len(panels):
                axes.set_xlabel(x_label)
        _line_legend(figure, table)
    return figure


def _panel(axes: Axes, table: pd.DataFrame, divisor: float) -> None:
    order = {"other": 0, "baseline": 2, "best": 3}
    groups = [rows for _, rows in table.groupby("name", sort=False)]
    for rows in sorted(groups, key=lambda rows: order.get(str(rows["role"].iloc[0]), 1)):
        role, mark = str(rows["role"].iloc[0]), int(rows["mark"].iloc[0])
        known = rows.dropna(subset="value").sort_values("x")
        quiet = role == "other"
        (line,) = axes.plot(
            known["x"],
            known["value"] / divisor,
            color=_COLOURS.get(role, svg.OTHER),
            linewidth=0.9 if quiet else 1.8,
            linestyle=(0, (4, 2)) if role == "baseline" else "-",
            marker="." if quiet else _MARKERS.get(role, "o"),
            markersize=3 if quiet else 4.5,
        )
        line.set_gid(svg.mark(mark))


def _scale_x(axes: Axes, ticks: Sequence[float]) -> None:
    if ticks[0] > 0 and ticks[-1] / ticks[0] > _LOG_FROM:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(ticks) > 6:
        axes.tick_params(axis="x", labelrotation=45)


def _scale_y(axes: Axes, *, logarithmic: bool) -> None:
    axes.yaxis.set_minor_locator(NullLocator())
    if not logarithmic:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = high / low < 30
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if few else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _spans_decades(values: pd.Series[float]) -> bool:
    known = values.dropna()
    return bool(len(known) and known.min() > 0 and known.max() / known.min() > _LOG_FROM)


def _line_legend(figure: Figure, table: pd.DataFrame) -> None:
    series = table.drop_duplicates("name").set_index("name")["role"]
    named = {role: str(name) for name, role in series.items() if role != "other"}
    handles = []
    for role in (role for role in _COLOURS if role in named):
        dashes: Any = (0, (4, 2)) if role == "baseline" else "-"
        handles.append(
            Line2D([], [], color=_COLOURS[role], marker=_MARKERS[role], linestyle=dashes)
        )
    texts = [shorten(named[role], 30) for role in _COLOURS if role in named]
    others = int((series == "other").sum())
    if others:
        handles.append(Line2D([], [], color=svg.OTHER, marker=".", markersize=3, linewidth=0.9))
        texts.append(f"{others} others")
    _legend(figure, handles, texts)


def _legend(figure: Figure, handles: Sequence[Line2D], texts: Sequence[str]) -> None:
    figure.legend(
        handles,
        texts,
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8.5,
        columnspacing=1.4,
        borderaxespad=0.1,
    )


def shorten(name: str, longest: int = _LONGEST_NAME) -> str:
    """Cut a name in its middle, so that the two ends that tell variants apart both stay."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}\u2026{name[-half:]}"


def _rows_figure(
    names: Sequence[str], row_height: float = _ROW_IN, head: float = _HEAD_IN
) -> tuple[Figure, Axes]:
    """Figure with one row a name; its left margin fits the longest name."""
    height = head + _FOOT_IN + row_height * max(len(names), 2)
    figure = Figure(figsize=(WIDTH_IN, height))
    shown = [shorten(name) for name in names]
    left = (0.2 + _CHARACTER_IN * max(map(len, shown), default=1)) / WIDTH_IN
    axes = figure.add_axes((left, _FOOT_IN / height, 0.985 - left, 1 - (head + _FOOT_IN) / height))
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _panel_figure(count: int) -> tuple[Figure, list[Axes]]:
    """Figure of small multiples with room for a legend above."""
    columns = min(count, _PANEL_COLUMNS)
    rows = math.ceil(count / columns)
    head, gap, foot, left = 0.78, 0.5, 0.5, 0.62
    height = head + foot + rows * _PANEL_IN + (rows - 1) * gap
    figure = Figure(figsize=(WIDTH_IN, height))
    pitch = (WIDTH_IN - 0.1) / columns
    grid = [
        figure.add_axes(
            (
                (left + (index % columns) * pitch) / WIDTH_IN,
                (foot + (rows - 1 - index // columns) * (_PANEL_IN + gap)) / height,
                (pitch - left - 0.08) / WIDTH_IN,
                _PANEL_IN / height,
            )
        )
        for index in range(count)
    ]
    return figure, grid
