"""Drawing of a roofline: roofs of memory and arithmetic, a dot per variant and level of memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from profiler.render.figures import svg
from profiler.render.figures.canvas import ROOM, colour_of, log_ticks
from profiler.render.words.names import shorten

_SIZE_IN = (10.0, 4.6)
_LABEL_POINTS = 11.0
"""Least distance of two labels that stand above each other."""
_LABEL_SIZE = 8
_NAMES_PART = 0.18
"""Of the width, right of all dots: for their names."""
_FAR = 30.0
"""Roofs of arithmetic that are more often the fastest rate would leave no room for the dots."""
_BEFORE_RIDGE = 4.0
"""How far left of the ridge between memory and arithmetic the figure begins, at least."""
_LETTER_POINTS = 5.0
"""Width of a letter of a name, about."""
_MARKERS = {"dram": "o", "l2": "s", "l1": "^", "shared": "D"}
"""By level of memory."""
_TICK_POINTS = 14.0
"""Width of a tick: wider than a dot, and it ends before the dot's name begins."""

_Row = Mapping[Hashable, Any]


def roofline(dots: pd.DataFrame, roofs: pd.DataFrame) -> Figure:
    """Rates under the roofs, both axes logarithmic; roofs and named dots are labelled.

    `dots`: columns `name level intensity rate own role mark`: FLOP per byte at the level and
    TFLOP/s, all above 0; `own` is the roof of the dot at its own clock, drawn as a tick, or NaN.
    `roofs`: columns `label memory ceiling lowest highest band practical`: TB/s where `memory`, else
    TFLOP/s; from `lowest` to `highest` there is a band where `band`; `practical` may be NaN. Memory
    comes first.
    """
    with mpl.rc_context(svg.style()):
        figure = Figure(figsize=_SIZE_IN)
        axes = figure.add_axes((0.09, 0.12, 0.89, 0.85))
        axes.set_xscale("log")
        axes.set_yscale("log")
        _set_limits(axes, dots, roofs)
        _draw_roofs(axes, roofs)
        _draw_dots(axes, dots)
        log_ticks(axes.xaxis, axes.get_xlim())
        log_ticks(axes.yaxis, axes.get_ylim())
        axes.set_xlabel("Arithmetic intensity (FLOP per byte)")
        axes.set_ylabel("Rate (TFLOP/s)")
        axes.grid(visible=True)
        rightmost = dots.sort_values("intensity").drop_duplicates("mark", keep="last")
        _name_dots(axes, rightmost[rightmost["role"] != "other"])
    return figure


def _set_limits(axes: Axes, dots: pd.DataFrame, roofs: pd.DataFrame) -> None:
    """Room for all dots, for names right of them, and for the roofs that are not far above."""
    left, right = dots["intensity"].min() / ROOM, dots["intensity"].max() * ROOM
    memory = roofs.loc[roofs["memory"], "lowest"]
    flat = roofs.loc[~roofs["memory"] & (roofs["ceiling"] <= _FAR * dots["rate"].max()), "highest"]
    if len(flat):
        left = min(left, flat.max() / memory.min() / _BEFORE_RIDGE)
    right *= (right / left) ** (_NAMES_PART / (1 - _NAMES_PART))
    top = flat.max() if len(flat) else max(dots["rate"].max(), right * memory.min())
    axes.set_xlim(left, right)
    axes.set_ylim(min(dots["rate"].min(), left * memory.min()) / ROOM, top * ROOM)


def _draw_roofs(axes: Axes, roofs: pd.DataFrame) -> None:
    """Slopes of memory up to the highest roof of arithmetic, then the flat ones.

    Those above the figure are named at its upper edge, and slopes that are too short for a label;
    those below it at its lower edge.
    """
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    flat = roofs.loc[~roofs["memory"] & (roofs["ceiling"] <= top), "ceiling"]
    highest = flat.max() if len(flat) else top
    beginnings = roofs["ceiling"] * roofs["memory"].map({True: left, False: 1.0})
    far = roofs[beginnings > highest]
    below = roofs[~roofs["memory"] & (roofs["ceiling"] < bottom)]
    unlabelled = list(far["label"])
    for place, row in enumerate(roofs.drop([*far.index, *below.index]).to_dict("records")):
        if row["band"]:
            _draw_band(axes, row, highest)
        for rate, dashed in ((row["ceiling"], False), (row["practical"], True)):
            if math.isfinite(rate):
                across, upwards = _line(axes, rate, highest, memory=row["memory"])
                style = "--" if dashed else "-"
                axes.plot(across, upwards, style, color=svg.INK, linewidth=1.0 if dashed else 1.4)
        if not row["memory"]:
            # In the middle: names of dots stand right of them.
            _label(axes, row["label"], (math.sqrt(left * right), row["ceiling"]), ha="center")
        elif not _label_slope(axes, row, place, highest):
            unlabelled.append(row["label"])
    if unlabelled:
        _label(axes, f"left and above: {', '.join(unlabelled)}", (right, top), ha="right", va="top")
    if len(below):
        _label(axes, f"below: {', '.join(below['label'])}", (right, bottom), ha="right")


def _draw_band(axes: Axes, row: _Row, top: float) -> None:
    """Where a roof lies at the clocks of all cells."""
    lowest, highest = (_line(axes, rate, top, memory=row["memory"]) for rate in _inside(axes, row))
    across, upwards = ([*low, *reversed(high)] for low, high in zip(lowest, highest, strict=True))
    axes.fill(across, upwards, color=svg.GRID, alpha=0.6, linewidth=0, zorder=0.5)


def _inside(axes: Axes, row: _Row) -> tuple[float, float]:
    """Lowest and highest ceiling, of arithmetic as far as they lie in the figure."""
    if row["memory"]:
        return row["lowest"], row["highest"]
    bottom, top = axes.get_ylim()
    return max(row["lowest"], bottom), min(row["highest"], top)


def _line(axes: Axes, rate: float, top: float, *, memory: bool) -> tuple[list[float], list[float]]:
    """Ends of a roof in the axes: across, and upwards."""
    left, right = axes.get_xlim()
    if not memory:
        return [left, right], [rate, rate]
    end = min(right, top / rate)
    return [left, end], [left * rate, end * rate]


def _label_slope(axes: Axes, row: _Row, place: int, highest: float) -> bool:
    """Label a roof of memory along its line, from the lower left, each after the last.

    False, and no label, where the line up to `highest` is shorter than its label.
    """
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    box = axes.get_position()
    across = box.width * _SIZE_IN[0] / math.log(right / left)
    upwards = box.height * _SIZE_IN[1] / math.log(top / bottom)
    start = max(left, bottom / row["ceiling"]) * (right / left) ** (0.02 + 0.04 * place)
    end = min(right, highest / row["ceiling"])
    length_points = 72 * math.hypot(across, upwards) * math.log(end / start) if end > start else 0.0
    if length_points < _LETTER_POINTS * len(row["label"]):
        return False
    angle = math.degrees(math.atan2(upwards, across))
    _label(axes, row["label"], (start, start * row["ceiling"]), ha="left", rotation=angle)
    return True


def _label(axes: Axes, text: str, at: tuple[float, float], **settings: Any) -> None:
    """A label a little above a place; settings of matplotlib's texts replace those of here."""
    usual: dict[str, Any] = {"va": "bottom", "rotation_mode": "anchor", "fontsize": _LABEL_SIZE}
    settings = usual | settings
    offset = (-3 if settings["ha"] == "right" else 0, 3 if settings["va"] == "bottom" else -3)
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **settings)


def _draw_dots(axes: Axes, dots: pd.DataFrame) -> None:
    """Dots of each level, named ones on top; the levels of a variant share a thin line."""
    for _, of_variant in dots.groupby("mark", sort=False):
        if len(of_variant) > 1:
            ends = [of_variant["intensity"].min(), of_variant["intensity"].max()]
            axes.plot(ends, [of_variant["rate"].iloc[0]] * 2, color=svg.MUTED, linewidth=0.8)
    for level, of_level in dots.groupby("level", sort=False):
        order = np.argsort((of_level["role"] != "other").to_numpy(), kind="stable")
        drawn = of_level.iloc[order]
        points = axes.scatter(
            drawn["intensity"],
            drawn["rate"],
            c=[colour_of(role) for role in drawn["role"]],
            marker=_MARKERS[str(level)],
            s=34,
            zorder=3,
        )
        points.set_gid(svg.marks(drawn["mark"]))
    own = dots[dots["own"] <= axes.get_ylim()[1]]
    if len(own):
        ticks = axes.scatter(
            own["intensity"],
            own["own"],
            c=[colour_of(role) for role in own["role"]],
            marker="_",
            s=_TICK_POINTS**2,
            linewidth=1.6,
            zorder=4,
        )
        ticks.set_gid(svg.marks(own["mark"]))


def _name_dots(axes: Axes, table: pd.DataFrame) -> None:
    """Name dots right of them, below each other where they would overlap: roofs are above."""
    box = axes.get_position()
    placed: list[tuple[float, float, float]] = []
    for row in table.sort_values("rate", ascending=False).to_dict("records"):
        name = shorten(str(row["name"]))
        across = _points(row["intensity"], axes.get_xlim(), box.width * _SIZE_IN[0])
        at = level = _points(row["rate"], axes.get_ylim(), box.height * _SIZE_IN[1])
        end = across + _LETTER_POINTS * len(name)
        for other_across, other_end, other_level in placed:
            beside = other_end < across or end < other_across
            if not beside and abs(level - other_level) < _LABEL_POINTS:
                level = other_level - _LABEL_POINTS
        placed.append((across, end, level))
        axes.annotate(
            name,
            (row["intensity"], row["rate"]),
            xytext=(9, level - at),
            textcoords="offset points",
            ha="left",
            va="center_baseline",
            fontsize=_LABEL_SIZE,
        )


def _points(value: float, limits: tuple[float, float], inches: float) -> float:
    """Place on a logarithmic axis of so many inches, in points from its beginning."""
    return math.log(value / limits[0]) / math.log(limits[1] / limits[0]) * inches * 72
