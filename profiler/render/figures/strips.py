"""Figures of the first screen that have a row for each problem or cell.

Each takes a prepared table and only draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import WIDTH_IN, colour_of, legend, widest_in
from profiler.render.words import numbers

_HEAD_IN, _FOOT_IN = 0.34, 0.46
_TALLEST_IN, _ROW_IN = 4.1, 0.3
"""Height of all rows together, and the most that one gets."""
_GAP_IN = 0.12
_DOT, _NAMED_DOT = 13, 40
_ROUND = (1, 1.5, 2, 3, 4, 5, 7)
_FEW_OCTAVES = 3.0
"""Up to this quotient of the ends ticks are at equal steps."""


@dataclass(frozen=True)
class RowText:
    """What stands left and right of a row."""

    left: str
    right: str = ""


@dataclass(frozen=True)
class Entry:
    """An entry of a legend: a series that is drawn as dots, or as a line through the rows."""

    text: str
    colour: str
    marker: str = "o"
    """Of matplotlib; empty: a line."""


def strip(
    dots: pd.DataFrame,
    references: pd.DataFrame,
    rows: Sequence[RowText],
    entries: Sequence[Entry],
    label: str,
) -> Figure:
    """A dot for each cell in the row of its problem, references as lines through the rows.

    `dots`: columns `row ratio role mark cell`; `references`: `row ratio role mark`. Values are
    ratios on a logarithmic axis.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = row_axes(rows)
        _ratio_axis(axes, [*dots["ratio"], *references["ratio"]])
        for role, lines in references.groupby("role", sort=False):
            ends = zip(lines["row"], lines["ratio"], strict=True)
            axes.add_collection(
                LineCollection(
                    [((ratio, row - 0.42), (ratio, row + 0.42)) for row, ratio in ends],
                    colors=colour_of(str(role)),
                    linewidths=2.2,
                    gid=svg.marks(lines["mark"]),
                )
            )
        order = dots.sort_values("role", key=lambda roles: roles != "other", kind="stable")
        for is_other, part in order.groupby(order["role"] == "other", sort=False):
            points = axes.scatter(
                part["ratio"],
                part["row"],
                c=[colour_of(role) for role in part["role"]],
                s=_DOT if is_other else _NAMED_DOT,
                alpha=0.6 if is_other else None,
                linewidths=0,
                zorder=2 if is_other else 3,
            )
            points.set_gid(svg.marks(part["mark"], part["cell"]))
        axes.set_xlabel(label)
        add_legend(figure, entries)
    return figure


def timer_ratios(
    table: pd.DataFrame, rows: Sequence[RowText], entries: Sequence[Entry], label: str
) -> Figure:
    """A mark for each timer in the row of its cell; columns `row ratio colour marker mark cell`.

    A vertical line stands at 1: the timer that the others are compared with.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = row_axes(rows)
        _ratio_axis(axes, [1.0, *table["ratio"]])
        axes.axvline(1.0, color=svg.INK, linewidth=1.2)
        for (colour, marker), part in table.groupby(["colour", "marker"], sort=False):
            points = axes.scatter(
                part["ratio"], part["row"], color=str(colour), marker=str(marker), s=34, zorder=3
            )
            points.set_gid(svg.marks(part["mark"], part["cell"]))
        axes.set_xlabel(label)
        add_legend(figure, entries)
    return figure


def row_axes(rows: Sequence[RowText], row_in: float = _ROW_IN) -> tuple[Figure, Axes]:
    """Axes with a row for each text; margins fit the texts on both sides."""
    height = min(_TALLEST_IN, row_in * max(len(rows), 2))
    total = height + _HEAD_IN + _FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, total))
    left = widest_in([row.left for row in rows]) + _GAP_IN
    right = widest_in([row.right for row in rows]) + _GAP_IN
    axes = figure.add_axes(
        (
            left / WIDTH_IN,
            _FOOT_IN / total,
            (WIDTH_IN - left - right) / WIDTH_IN,
            height / total,
        )
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    for place, row in enumerate(rows):
        _beside(axes, place, row.left, on_left=True)
        _beside(axes, place, row.right, on_left=False)
    axes.hlines(
        np.arange(len(rows) - 1) + 0.5,
        0,
        1,
        transform=axes.get_yaxis_transform(),
        color=svg.GRID,
        linewidth=0.7,
    )
    return figure, axes


def _beside(axes: Axes, row: int, text: str, *, on_left: bool) -> None:
    if text:
        axes.annotate(
            text,
            (0 if on_left else 1, row),
            xycoords=("axes fraction", "data"),
            xytext=(-6 if on_left else 6, 0),
            textcoords="offset points",
            ha="right" if on_left else "left",
            va="center_baseline",
        )


def _ratio_axis(axes: Axes, ratios: Sequence[float]) -> None:
    """A logarithmic axis with round ticks for ratios."""
    finite = [ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)] or [1.0]
    low, high = min(finite), max(finite)
    room = max((high / low) ** 0.03, 1.01)
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    axes.xaxis.set_major_locator(FixedLocator(ratio_ticks(low / room, high * room)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{numbers.TIMES}"))
    axes.grid(visible=True, axis="x")


def ratio_ticks(low: float, high: float, most: int = 14) -> list[float]:
    """Round ratios between two ends, such that the labels of `most` would have room."""
    if high / low < _FEW_OCTAVES:
        ticks = MaxNLocator(2 * most, steps=[1, 2, 5, 10]).tick_values(low, high)
        candidates = {float(f"{tick:.6g}") for tick in ticks}
    else:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        candidates = {float(f"{step * 10**decade:.6g}") for decade in decades for step in _ROUND}
    inside = [tick for tick in candidates if low <= tick <= high]
    least = math.log(high / low) / most
    shown: list[float] = []
    # 1 and what is short to write first: the others stand where these leave room.
    for tick in sorted(inside, key=lambda tick: (tick != 1, len(f"{tick:g}"), tick)):
        if all(abs(math.log(tick / other)) >= least for other in shown):
            shown.append(tick)
    return sorted(shown)


def add_legend(figure: Figure, entries: Sequence[Entry]) -> None:
    """Put the legend of a strip along the top."""
    handles = [
        Line2D([], [], color=entry.colour, marker=entry.marker, linestyle="", markersize=6)
        if entry.marker
        else Line2D([], [], color=entry.colour, linewidth=2.2)
        for entry in entries
    ]
    legend(figure, handles, [entry.text for entry in entries])
