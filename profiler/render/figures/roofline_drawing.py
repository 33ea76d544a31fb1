"""Drawing of a roofline: roofs of memory and arithmetic, a dot per variant and level of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from profiler.render.figures import styles
from profiler.render.figures.axes import Axes, Scale, decade_ticks, places, points_of
from profiler.render.figures.drawing import POINTS, ROOM, Drawing, Mark, Point, set_mark
from profiler.render.words.names import shorten

_WIDTH_IN, _HEIGHT_IN = 10.0, 4.6
_DOT = 5.83
_PRACTICAL = (3.7, 1.6)
"""Dash and gap of the line of what was reached, by its width."""
_GAP, _BESIDE = 3.0, 9.0
"""From a roof to its label, from a dot to its name, in points."""
_LABEL_POINTS = 11.0
"""Least distance of two labels that stand above each other."""
_LABEL_SIZE = 8
_NAMES_PART = 0.18
"""Share of the width that names have, right of all dots."""
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


def roofline(dots: pd.DataFrame, roofs: pd.DataFrame) -> Drawing:
    """Rates under the roofs, both axes logarithmic; roofs and named dots are labelled.

    `dots`: columns `name level intensity rate own role mark`: FLOP per byte at the level and
    TFLOP/s, all above 0; `own` is the roof of the dot at its own clock, drawn as a tick, or NaN.
    `roofs`: columns `label memory ceiling lowest highest band practical`: TB/s where `memory`, else
    TFLOP/s; from `lowest` to `highest` there is a band where `band`; `practical` may be NaN. Memory
    comes first.
    """
    width, height = _WIDTH_IN * POINTS, _HEIGHT_IN * POINTS
    axes = Axes(Drawing(width, height), 0.09 * width, 0.03 * height, 0.98 * width, 0.88 * height)
    ends_across, ends_upwards = _limits(dots, roofs)
    across = axes.across(ends_across, logarithmic=True)
    upwards = axes.upwards(ends_upwards, logarithmic=True)
    axes.grid_across(across, decade_ticks(across), "Arithmetic intensity (FLOP per byte)")
    axes.grid_upwards(upwards, decade_ticks(upwards), "Rate (TFLOP/s)")
    roofed = _Roofline(axes, across, upwards)
    labels = roofed.draw_roofs(roofs)
    axes.spines()
    roofed.draw_dots(dots)
    for write_label in labels:
        write_label()
    rightmost = dots.sort_values("intensity").drop_duplicates("mark", keep="last")
    roofed.name_dots(rightmost[rightmost["role"] != "other"])
    return axes.drawing


def _limits(
    dots: pd.DataFrame, roofs: pd.DataFrame
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Room for all dots, for names right of them, and for the roofs that are not far above."""
    left, right = dots["intensity"].min() / ROOM, dots["intensity"].max() * ROOM
    memory = roofs.loc[roofs["memory"], "lowest"]
    flat = roofs.loc[~roofs["memory"] & (roofs["ceiling"] <= _FAR * dots["rate"].max()), "highest"]
    if len(flat):
        left = min(left, flat.max() / memory.min() / _BEFORE_RIDGE)
    right *= (right / left) ** (_NAMES_PART / (1 - _NAMES_PART))
    top = flat.max() if len(flat) else max(dots["rate"].max(), right * memory.min())
    bottom = min(dots["rate"].min(), left * memory.min()) / ROOM
    return (left, right), (bottom, top * ROOM)


@dataclass(frozen=True)
class _Roofline:
    """Roofs and dots in axes that are both logarithmic."""

    axes: Axes
    across: Scale
    upwards: Scale

    def draw_roofs(self, roofs: pd.DataFrame) -> list[Callable[[], None]]:
        """Slopes of memory up to the highest roof of arithmetic, then the flat ones; their labels.

        Those above the figure are named at its upper edge, and slopes that are too short for a
        label; those below it at its lower edge.
        """
        left, bottom, top = self.across.low, self.upwards.low, self.upwards.high
        flat = roofs.loc[~roofs["memory"] & (roofs["ceiling"] <= top), "ceiling"]
        highest = flat.max() if len(flat) else top
        beginnings = roofs["ceiling"] * roofs["memory"].map({True: left, False: 1.0})
        far = roofs[beginnings > highest]
        below = roofs[~roofs["memory"] & (roofs["ceiling"] < bottom)]
        unlabelled = list(far["label"])
        labels = []
        for place, row in enumerate(roofs.drop([*far.index, *below.index]).to_dict("records")):
            self._draw_roof(row, highest)
            label = self._label_of(row, place, highest)
            if label is None:
                unlabelled.append(row["label"])
            else:
                labels.append(label)
        if unlabelled:
            text = f"left and above: {', '.join(unlabelled)}"
            at = (self.axes.right, self.axes.top)
            labels.append(partial(self._write, text, at, "end", below=True))
        if len(below):
            text = f"below: {', '.join(below['label'])}"
            at = (self.axes.right, self.axes.bottom)
            labels.append(partial(self._write, text, at, "end"))
        return labels

    def _draw_roof(self, row: _Row, highest: float) -> None:
        """Draw a roof at the clocks of all cells, its ceiling, and what was reached of it."""
        if row["band"]:
            lowest, most = (
                self._line(rate, highest, memory=row["memory"]) for rate in self._inside(row)
            )
            self.axes.drawing.area([*lowest, *reversed(most)], styles.fill(styles.GRID, 0.6))
        lines = (
            (row["ceiling"], styles.line(styles.INK, 1.4)),
            (row["practical"], styles.dashed(styles.INK, 1.0, *_PRACTICAL)),
        )
        for rate, style in lines:
            if math.isfinite(rate):
                self.axes.drawing.path(self._line(rate, highest, memory=row["memory"]), style)

    def _inside(self, row: _Row) -> tuple[float, float]:
        """Lowest and highest ceiling, of arithmetic as far as they lie in the figure."""
        if row["memory"]:
            return row["lowest"], row["highest"]
        return max(row["lowest"], self.upwards.low), min(row["highest"], self.upwards.high)

    def _line(self, rate: float, top: float, *, memory: bool) -> list[Point]:
        """Ends of a roof in the axes."""
        left, right = self.across.low, self.across.high
        end = min(right, top / rate) if memory else right
        ys = (left * rate, end * rate) if memory else (rate, rate)
        return places((left, end), ys, (self.across, self.upwards))

    def _label_of(self, row: _Row, place: int, highest: float) -> Callable[[], None] | None:
        """Label of a roof: along its line from the lower left, each after the last, if of memory.

        None where the line up to `highest` is shorter than its label.
        """
        ceiling, left, right = row["ceiling"], self.across.low, self.across.high
        if not row["memory"]:
            # In the middle: names of dots stand right of them.
            middle = (self.axes.left + self.axes.right) / 2
            return partial(self._write, row["label"], (middle, self.upwards.at(ceiling)))
        start = max(left, self.upwards.low / ceiling) * (right / left) ** (0.02 + 0.04 * place)
        end = min(right, highest / ceiling)
        if end <= start:
            return None
        first, last = places(
            (start, end), (start * ceiling, end * ceiling), (self.across, self.upwards)
        )
        if math.dist(first, last) < _LETTER_POINTS * len(row["label"]):
            return None
        degrees = math.degrees(math.atan2(first[1] - last[1], last[0] - first[0]))
        return partial(self._write, row["label"], first, "start", degrees=degrees)

    def _write(
        self,
        text: str,
        at: Point,
        anchor: str = "middle",
        *,
        below: bool = False,
        degrees: float = 0.0,
    ) -> None:
        """Write the label of a roof a little above a place, or below it; turned upwards."""
        turn = math.radians(degrees)
        x = at[0] - (_GAP if anchor == "end" else 0.0)
        drop = styles.DESCENT * _LABEL_SIZE
        x, y = (
            (x, at[1] + _GAP + styles.ASCENT * _LABEL_SIZE)
            if below
            else (x - drop * math.sin(turn), at[1] - _GAP - drop * math.cos(turn))
        )
        self.axes.drawing.text(text, (x, y), styles.text(anchor, _LABEL_SIZE), degrees=degrees)

    def draw_dots(self, dots: pd.DataFrame) -> None:
        """Dots of each level, named ones on top; the levels of a variant share a thin line."""
        scales, drawing = (self.across, self.upwards), self.axes.drawing
        for _, of_variant in dots.groupby("mark", sort=False):
            if len(of_variant) > 1:
                ends = (of_variant["intensity"].min(), of_variant["intensity"].max())
                rate = of_variant["rate"].iloc[0]
                drawing.path(places(ends, (rate, rate), scales), styles.line(styles.MUTED, 0.8))
        for level, of_level in dots.groupby("level", sort=False):
            drawn = of_level.iloc[
                np.argsort((of_level["role"] != "other").to_numpy(), kind="stable")
            ]
            columns = drawn[["intensity", "rate", "role", "mark"]].itertuples(index=False)
            marks = [
                Mark("", rate, role=role, variant=number, place=intensity)
                for intensity, rate, role, number in columns
            ]
            drawing.dots(styles.marker(_MARKERS[str(level)], _DOT), points_of(marks, scales), marks)
        own_dots = dots[dots["own"] <= self.upwards.high]
        points = places(own_dots["intensity"], own_dots["own"], scales)
        for (x, y), role, mark in zip(points, own_dots["role"], own_dots["mark"], strict=True):
            tick = [(x - _TICK_POINTS / 2, y), (x + _TICK_POINTS / 2, y)]
            set_mark(drawing.path(tick, styles.line(styles.colour_of(role), 1.6, "")), mark)

    def name_dots(self, table: pd.DataFrame) -> None:
        """Name dots right of them, below each other where they would overlap: roofs are above."""
        placed: list[tuple[float, float, float]] = []
        for row in table.sort_values("rate", ascending=False).to_dict("records"):
            name = shorten(str(row["name"]))
            x, y = self.across.at(row["intensity"]), self.upwards.at(row["rate"])
            end = x + _LETTER_POINTS * len(name)
            for other_x, other_end, other_y in placed:
                if not (other_end < x or end < other_x) and abs(y - other_y) < _LABEL_POINTS:
                    y = other_y + _LABEL_POINTS
            placed.append((x, end, y))
            at = (x + _BESIDE, y + styles.TEXT_DROP * _LABEL_SIZE)
            self.axes.drawing.text(name, at, styles.text("start", _LABEL_SIZE))
