"""Figures of a ladder of versions; versions stand on the x axis, in the order of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.canvas import (
    ROOM,
    WIDTH_IN,
    colour_of,
    fitted,
    legend,
    log_ticks,
    panel_figure,
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


def ratio_lines(means: pd.DataFrame, problems: pd.DataFrame, reference: str, label: str) -> Figure:
    """A thin line for each problem and a thick one for the mean; 1 is a line of its own.

    `means`: columns `name mark role value`, one row a version. `problems`: `problem place value`,
    where `place` is the row of the version in `means`.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _versions_figure(means["name"].tolist())
        for _, rows in problems.groupby("problem", sort=False):
            axes.plot(rows["place"], rows["value"], color=svg.OTHER, linewidth=0.9)
        axes.axhline(1, color=svg.BASELINE, linewidth=1.4, linestyle=(0, (4, 2)))
        places = np.arange(len(means))
        axes.plot(places, means["value"], color=svg.INK, linewidth=1.8)
        present = means["value"].notna()
        points = axes.scatter(
            places[present],
            means["value"][present],
            c=[colour_of(role) for role in means["role"][present]],
            s=44,
            zorder=3,
        )
        points.set_gid(svg.marks(means["mark"][present]))
        tops = problems.groupby("place")["value"].max()
        for place, value in zip(places[present], means["value"][present], strict=True):
            top = max(value, float(tops.get(place, value)))
            _above(axes, float(place), top, numbers.ratio(value))
        _ratio_axis(axes, np.concatenate([means["value"], problems["value"], [1.0]]))
        axes.set_ylabel(shorten(label, 45))
        axes.grid(visible=True, axis="y")
        handles = [
            Line2D([], [], color=svg.INK, linewidth=1.8, marker="o", markersize=5),
            Line2D([], [], color=svg.OTHER, linewidth=0.9),
            Line2D([], [], color=svg.BASELINE, linewidth=1.4, linestyle=(0, (4, 2))),
        ]
        texts = ["geometric mean", "one problem each", f"{shorten(reference, 30)}: 1"]
        legend(figure, handles, texts)
    return figure


def ladder(table: pd.DataFrame, label: str) -> Figure:
    """Steps on a log axis; columns `name mark role value low high text`, no value missing.

    Each version is a tread at its value; `text` says what the step to it was.
    """
    with mpl.rc_context(svg.style()):
        figure, axes = _versions_figure(table["name"].tolist())
        value = table["value"].to_numpy(dtype=float)
        places = np.arange(len(table))
        edges = np.append(places - 0.5, len(table) - 0.5)
        colours = [colour_of(role) for role in table["role"]]
        axes.stairs(value, edges, baseline=None, color=svg.INK, linewidth=1.6)
        axes.vlines(places, table["low"], table["high"], color=colours, linewidth=2.4, alpha=0.5)
        points = axes.scatter(places, value, c=colours, s=34, zorder=3)
        points.set_gid(svg.marks(table["mark"]))
        _ratio_axis(axes, np.concatenate([value, table["low"], table["high"]]))
        for place, top, text in zip(
            places, np.fmax(value, table["high"].to_numpy(dtype=float)), table["text"], strict=True
        ):
            _above(axes, float(place), float(top), text)
        axes.set_ylabel(label)
        axes.grid(visible=True, axis="y")
    return figure


def _ratio_axis(axes: Axes, ratios: npt.NDArray[np.float64]) -> None:
    """Make the y axis one of factors, from the least to the greatest of these ratios."""
    axes.set_yscale("log")
    axes.set_ylim(np.nanmin(ratios) / 1.15, np.nanmax(ratios) * 1.25)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}{numbers.TIMES}"))


def multiples(table: pd.DataFrame) -> Figure:
    """One panel a metric over the versions; columns `panel unit place number mark role value`.

    All panels have the same x axis: `place` is the position of a version, `number` its name there.
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("panel", sort=False)))
        figure, grid = panel_figure(len(panels))
        ticks = table.drop_duplicates("place").sort_values("place")
        for axes, (panel, rows) in zip(grid, panels.items(), strict=True):
            _panel(axes, str(panel), rows)
            axes.set_xlim(-0.5, ticks["place"].max() + 0.5)
            axes.xaxis.set_major_locator(FixedLocator(ticks["place"].tolist()))
            every = math.ceil(len(ticks) / _MOST_TICKS)
            texts = enumerate(ticks["number"])
            axes.set_xticklabels(["" if place % every else text for place, text in texts])
    return figure


def _panel(axes: Axes, panel: str, rows: pd.DataFrame) -> None:
    present = rows.dropna(subset=["value"])
    divisor, unit = numbers.scale(float(present["value"].max()), str(rows["unit"].iloc[0]))
    values = present["value"] / divisor
    axes.plot(present["place"], values, color=svg.INK, linewidth=1.2)
    colours = [colour_of(role) for role in present["role"]]
    points = axes.scatter(present["place"], values, c=colours, s=22, zorder=3)
    points.set_gid(svg.marks(present["mark"]))
    title = f"{panel} ({unit})" if unit else panel
    axes.set_title(fitted(title, axes.get_position().width * WIDTH_IN), loc="left")
    axes.yaxis.set_minor_locator(NullLocator())
    if spans_decades(values):
        axes.set_yscale("log")
        axes.set_ylim(values.min() / ROOM, values.max() * ROOM)
        log_ticks(axes.yaxis, axes.get_ylim())
    else:
        axes.set_ylim(0, float(values.max()) * 1.12 or 1.0)
    axes.grid(visible=True)


def _versions_figure(names: Sequence[str]) -> tuple[Figure, Axes]:
    """Axes with a place on the x axis for each version."""
    shown = [shorten(name, _LONGEST) for name in names]
    longest = widest_in(shown)
    foot = 0.2 + longest * math.sin(math.radians(_TURN_DEGREES))
    # The first label reaches furthest to the left of its place.
    reach = 0.1 + text_width_in(shown[0]) * math.cos(math.radians(_TURN_DEGREES))
    left = max(_LEFT, (reach - 0.6 * (WIDTH_IN - reach) / len(names)) / WIDTH_IN)
    height = _HEAD_IN + _PLOT_IN + foot
    figure = Figure(figsize=(WIDTH_IN, height))
    axes = figure.add_axes((left, foot / height, _RIGHT - left, _PLOT_IN / height))
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(names)))))
    axes.set_xticklabels(shown, rotation=_TURN_DEGREES, ha="right", rotation_mode="anchor")
    return figure, axes


def _above(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(
        text,
        (x, y),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=8,
        color=svg.INK,
    )
