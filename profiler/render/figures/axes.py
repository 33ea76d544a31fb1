"""Axes of drawings: scales, ticks and grids, rows with names, small multiples, legends.

Where labels stand, and which ticks an axis has, is what matplotlib does: its locators choose the
ticks here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from matplotlib.ticker import AutoLocator, Locator, LogLocator, MaxNLocator, ScalarFormatter

from profiler.render.figures import styles
from profiler.render.figures.drawing import (
    FEW_DECADES,
    FOOT_IN,
    HEAD_IN,
    LEGEND_SIZE,
    PANEL_COLUMNS,
    POINTS,
    ROW_IN,
    WIDTH_IN,
    Drawing,
    Element,
    Mark,
    Point,
    legend_columns,
    set_mark,
    text_width_in,
    widest_in,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_LABELS = "labels"
"""Class of a group of labels no two of which are equal."""
MARGIN = 0.05
"""Room at both ends of an axis whose limits follow from what is drawn, by its length."""
TICK_GAP, _LABEL_GAP, _TITLE_GAP, _NAME_GAP = 7.0, 4.0, 6.0, 5.0
"""From the axes to labels of ticks, from these to the label of the axis, to a title, to names."""
_LINE = 1.2
"""From a line of text to the next one, by its size."""
_GRID = styles.line(styles.GRID, 0.7)
_SPINE = styles.line(styles.GRID, 0.8, "stroke-linejoin: miter; stroke-linecap: square")
_SMALL = 8.0
_HANDLE, _HANDLE_GAP, _COLUMN_GAP = 2.0, 0.8, 1.4
"""Length of a legend's handle, gap to its text, gap to the next column, by the size of its text."""
_LEGEND_EDGE, _LEGEND_ROW, _LEGEND_GAP = 0.5, 1.0, 0.5
"""Gap around a legend, height of a row and gap between rows, by its size."""
_LEGEND_SYMBOL = 6.0
_PANEL_IN, _PANEL_GAP_IN = 2.5, 0.55
"""Height of one of small multiples, and from one down to the next."""
_PANEL_HEAD_IN, _PANEL_FOOT_IN, _PANEL_LEFT_IN = 0.62, 0.5, 0.82
_TOLERANCE = 1e-6
"""In points: a tick at the end of its axis may lie beside it by a rounding."""


@dataclass(frozen=True)
class Scale:
    """From values to points: `low` lies at `start` and `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Place of a value, in points."""
        low, high, place = (
            (math.log(self.low), math.log(self.high), math.log(value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        length = (high - low) or 1.0  # a timeline whose only operation takes no time
        return self.start + (place - low) / length * (self.end - self.start)

    def inside(self, ticks: Sequence[float]) -> list[float]:
        """Ticks, of the given ones, that lie on the axis."""
        first, last = sorted((self.start, self.end))
        return [
            tick
            for tick in ticks
            if (tick > 0 or not self.logarithmic)
            and first - _TOLERANCE <= self.at(tick) <= last + _TOLERANCE
        ]


def limits(
    values: Sequence[float], *, logarithmic: bool = False, margin: float = MARGIN
) -> tuple[float, float]:
    """Ends of an axis that holds all values, with room at both; 0 and 1 without any."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if logarithmic:
        if low == high:
            low, high = _decade(low, -1), _decade(high, 1)
        room = (high / low) ** margin
        return low / room, high * room
    if low == high:
        around = abs(low) * margin or margin
        low, high = low - around, high + around
    room = (high - low) * margin
    return low - room, high + room


def _decade(value: float, step: int) -> float:
    """The next power of ten below (-1) or above (1) a value."""
    exponent = math.log10(value)
    nearest = math.floor(exponent) if step > 0 else math.ceil(exponent)
    return float(10.0 ** (nearest + step))


@dataclass(frozen=True)
class Ticks:
    """Places of ticks with their labels, and the factor that all labels leave out."""

    values: Sequence[float]
    labels: Sequence[str]
    factor: str = ""


def places(xs: Iterable[float], ys: Iterable[float], scales: tuple[Scale, Scale]) -> list[Point]:
    """Places of the points whose values are all there; `scales`: across and upwards."""
    across, upwards = scales
    return [
        (across.at(x), upwards.at(y))
        for x, y in zip(xs, ys, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]


def points_of(marks: Sequence[Mark], scales: tuple[Scale, Scale]) -> list[Point]:
    """Points of the marks that have a value; `scales`: of their places, and of their values."""
    return places([mark.place for mark in marks], [mark.value for mark in marks], scales)


def at_most(ticks: int) -> Locator:
    """Locator of so many ticks, at multiples of 1, 2 and 5."""
    return MaxNLocator(ticks, steps=[1, 2, 5, 10])


def whole_numbers(most: int) -> Locator:
    """Locator of so many ticks at whole numbers."""
    return MaxNLocator(most, integer=True)


def linear_ticks(scale: Scale, locator: Locator | None = None) -> Ticks:
    """Ticks at round numbers, which `locator` chooses; else as many as are usual."""
    values = places_of_ticks(scale, locator or AutoLocator())
    formatter: Any = ScalarFormatter(useOffset=False)
    formatter.create_dummy_axis()
    formatter.axis.set_view_interval(scale.low, scale.high)
    return Ticks(values, formatter.format_ticks(values), formatter.get_offset())


def named_ticks(values: Sequence[float], name: Callable[[float], str] = "{:g}".format) -> Ticks:
    """Ticks with the labels that `name` gives."""
    return Ticks(values, [name(value) for value in values])


def times_ticks(values: Sequence[float]) -> Ticks:
    """Ticks that say how many times."""
    return named_ticks(values, lambda value: f"{value:g}{numbers.TIMES}")


def decade_ticks(scale: Scale) -> Ticks:
    """1, 2 and 5 of each decade where there are few decades, else the decades only."""
    few = scale.high / scale.low < FEW_DECADES
    return named_ticks(places_of_ticks(scale, LogLocator(base=10, subs=(1, 2, 5) if few else (1,))))


def places_of_ticks(scale: Scale, locator: Locator) -> list[float]:
    """Places of the ticks that `locator` chooses for an axis."""
    return scale.inside([float(tick) for tick in locator.tick_values(scale.low, scale.high)])


def apart(
    ticks: Sequence[float], ends: tuple[float, float], most: int, *, logarithmic: bool
) -> list[float]:
    """Ticks whose labels have room; values that are short to write come first.

    `most`: labels that there is room for beside each other from one of the ends to the other.
    """

    def place(value: float) -> float:
        return math.log(value) if logarithmic else value

    least = (place(ends[1]) - place(ends[0])) / most
    shown_ticks: list[float] = []
    for tick in sorted(ticks, key=lambda value: (len(f"{value:g}"), value)):
        if all(abs(place(tick) - place(shown_tick)) >= least for shown_tick in shown_ticks):
            shown_ticks.append(tick)
    return sorted(shown_ticks)


@dataclass(frozen=True)
class Axes:
    """A rectangle of a drawing with its scales."""

    drawing: Drawing
    left: float
    top: float
    right: float
    bottom: float
    text_size: float = styles.TEXT_SIZE
    """Size of labels at ticks, and of the axes."""
    tick_gap: float = TICK_GAP

    @classmethod
    def in_inches(
        cls, drawing: Drawing, left: float, top: float, right: float, bottom: float, **looks: float
    ) -> Self:
        """Axes whose edges are given in inches."""
        edges = (left * POINTS, top * POINTS, right * POINTS, bottom * POINTS)
        return cls(drawing, *edges, **looks)

    def across(self, ends: tuple[float, float], *, logarithmic: bool = False) -> Scale:
        """Scale from left to right."""
        return Scale(*ends, self.left, self.right, logarithmic)

    def upwards(self, ends: tuple[float, float], *, logarithmic: bool = False) -> Scale:
        """Scale from the bottom to the top."""
        return Scale(*ends, self.bottom, self.top, logarithmic)

    def grid_across(
        self, scale: Scale, ticks: Ticks, label: str = "", *, lines: bool = True
    ) -> None:
        """Upright grid lines with their labels below, and the label of the axis."""
        labels = self.drawing.group(_LABELS)
        style = styles.text("middle", self.text_size)
        baseline = self.bottom + self.tick_gap + styles.ASCENT * self.text_size
        for value, name in zip(ticks.values, ticks.labels, strict=True):
            x = scale.at(value)
            if lines:
                self.drawing.path([(x, self.bottom), (x, self.top)], _GRID, labels)
            if name:
                self.drawing.text(name, (x, baseline), style, labels)
        below = (
            baseline + styles.DESCENT * self.text_size + _LABEL_GAP + styles.ASCENT * self.text_size
        )
        if ticks.factor:
            self.drawing.text(
                ticks.factor, (self.right, below), styles.text("end", self.text_size), labels
            )
        if label:
            self.drawing.text(label, ((self.left + self.right) / 2, below), style, labels)

    def grid_upwards(self, scale: Scale, ticks: Ticks, label: str = "") -> None:
        """Level grid lines with their labels to the left, and the label of the axis."""
        labels = self.drawing.group(_LABELS)
        edge = self.left - self.tick_gap
        for value, name in zip(ticks.values, ticks.labels, strict=True):
            y = scale.at(value)
            self.drawing.path([(self.left, y), (self.right, y)], _GRID, labels)
            at = (edge, y + styles.TEXT_DROP * self.text_size)
            self.drawing.text(name, at, styles.text("end", self.text_size), labels)
        if ticks.factor:
            at = (self.left, self.top - _LABEL_GAP)
            self.drawing.text(ticks.factor, at, styles.text("start", self.text_size), labels)
        if label:
            x = (
                edge
                - widest_in(ticks.labels, self.text_size) * POINTS
                - _LABEL_GAP
                - styles.DESCENT * self.text_size
            )
            at = (x, (self.top + self.bottom) / 2)
            self.drawing.text(label, at, styles.text("middle", self.text_size), labels, degrees=90)

    def slanted_labels(self, scale: Scale, names: Sequence[str], degrees: float) -> None:
        """A label below each whole number from 0 on, which ends there and is turned upwards."""
        labels = self.drawing.group(_LABELS)
        turn, ascent = math.radians(degrees), styles.ASCENT * self.text_size
        below = self.bottom + self.tick_gap + ascent * math.cos(turn)
        style = styles.text("end", self.text_size)
        for place, name in enumerate(names):
            at = (scale.at(place) + ascent * math.sin(turn), below)
            self.drawing.text(name, at, style, labels, degrees=degrees)

    def level(self, y: float, style: str) -> None:
        """A line from the left to the right edge; `y` in points."""
        self.drawing.path([(self.left, y), (self.right, y)], style)

    def upright(self, x: float, style: str) -> None:
        """A line from the lower to the upper edge; `x` in points."""
        self.drawing.path([(x, self.bottom), (x, self.top)], style)

    def spines(self) -> None:
        """The left and the lower edge, over what is drawn."""
        corner = (self.left, self.bottom)
        self.drawing.path([corner, (self.left, self.top)], _SPINE)
        self.drawing.path([corner, (self.right, self.bottom)], _SPINE)

    def title(self, text: str) -> None:
        """A title above, at the left, of one line or more."""
        lines = text.split("\n")
        for above, line in zip(reversed(range(len(lines))), lines, strict=True):
            at = (self.left, self.top - _TITLE_GAP - above * _LINE * styles.TEXT_SIZE)
            self.drawing.text(line, at, styles.text("start"))


@dataclass(frozen=True)
class RowAxes:
    """Axes with a row for each name, the first one on top."""

    axes: Axes
    count: int
    edge: float = 0.6
    """From the edge of the axes to the middle of the first and the last row, in rows."""

    @property
    def drawing(self) -> Drawing:
        """The drawing that the rows are on."""
        return self.axes.drawing

    def y(self, row: float) -> float:
        """Middle of a row."""
        share = (row + self.edge) / (self.count - 1 + 2 * self.edge)
        return self.axes.top + share * (self.axes.bottom - self.axes.top)

    def names(self, names: Sequence[str]) -> None:
        """The name of each row, left of the axes."""
        for row, name in enumerate(names):
            self.beside(row, name)

    def beside(
        self, row: float, text: str, *, gap: float = _NAME_GAP, size: float = styles.TEXT_SIZE
    ) -> None:
        """A text left of the axes; right of them where `gap` is below 0."""
        if text:
            x = self.axes.left - gap if gap > 0 else self.axes.right - gap
            at = (x, self.y(row) + styles.TEXT_DROP * size)
            self.drawing.text(text, at, styles.text("end" if gap > 0 else "start", size))

    def span(self, across: Scale, row: int, low: float, high: float, style: str) -> None:
        """A line from one value to another in a row; none where one is missing."""
        if math.isfinite(low) and math.isfinite(high):
            self.drawing.path([(across.at(float(end)), self.y(row)) for end in (low, high)], style)

    def dot(self, outline: str, across: Scale, row: float, mark: Mark) -> None:
        """A symbol at the value of a mark in a row."""
        at = (across.at(mark.value), self.y(row))
        dot = self.drawing.symbol(outline, at, styles.symbol(mark.colour))
        set_mark(dot, mark.variant, mark.cell)

    def text(self, x: float, row: float, text: str, *, quiet: bool = False) -> None:
        """A text beside a mark; `x` in points."""
        style = styles.text("start", _SMALL, styles.MUTED if quiet else styles.INK, italic=quiet)
        self.drawing.text(text, (x, self.y(row) + styles.TEXT_DROP * _SMALL), style)


def sheet(height_in: float) -> Drawing:
    """Drawing as wide as a page."""
    return Drawing(WIDTH_IN * POINTS, height_in * POINTS)


def row_axes(names: Sequence[str], row_height: float = ROW_IN, head: float = HEAD_IN) -> RowAxes:
    """Drawing with one row a name, whose left margin fits the longest of them."""
    height = head + FOOT_IN + row_height * max(len(names), 2)
    left = 0.2 + widest_in(names)
    axes = Axes.in_inches(sheet(height), left, head, 0.985 * WIDTH_IN, height - FOOT_IN)
    return RowAxes(axes, len(names))


def panel_axes(count: int, rows_in: float | None = None) -> tuple[Drawing, list[Axes]]:
    """Drawing of small multiples with room for a legend above.

    `rows_in`: height of all rows together; without it each has its usual height.
    """
    columns = min(count, PANEL_COLUMNS)
    lines = math.ceil(count / columns)
    panel = _PANEL_IN if rows_in is None else (rows_in - (lines - 1) * _PANEL_GAP_IN) / lines
    drawing = sheet(
        _PANEL_HEAD_IN + lines * (panel + _PANEL_GAP_IN) - _PANEL_GAP_IN + _PANEL_FOOT_IN
    )
    width = (WIDTH_IN - 0.1) / columns
    axes = []
    for index in range(count):
        line, column = divmod(index, columns)
        top = _PANEL_HEAD_IN + line * (panel + _PANEL_GAP_IN)
        left, right = column * width + _PANEL_LEFT_IN, (column + 1) * width - 0.08
        axes.append(Axes.in_inches(drawing, left, top, right, top + panel))
    return drawing, axes


def outer_labels(panel: int, panels: int, across: str, upwards: str) -> tuple[str, str]:
    """Labels of a panel's axes: upright at the left, the other where no panel is below."""
    is_lowest, is_first = panel + PANEL_COLUMNS >= panels, panel % PANEL_COLUMNS == 0
    return across if is_lowest else "", upwards if is_first else ""


@dataclass(frozen=True)
class Handle:
    """An entry of a legend: its text beside a line, a symbol, or a line with a symbol on it."""

    text: str
    line: str = ""
    """Style of the line; empty: none."""
    symbol: tuple[str, str] | None = None
    """Outline and colour of the symbol."""

    def draw(self, drawing: Drawing, start: Point, end: Point, group: Element) -> None:
        """Draw what stands beside the text between two points."""
        if self.line:
            drawing.path([start, end], self.line, group)
        if self.symbol is not None:
            outline, colour = self.symbol
            middle = ((start[0] + end[0]) / 2, start[1])
            drawing.symbol(outline, middle, styles.symbol(colour), group)


def symbol_handle(text: str, colour: str, kind: str = "o") -> Handle:
    """Entry of a legend with a marker of a kind that `styles.marker` knows."""
    return Handle(text, symbol=(styles.marker(kind, _LEGEND_SYMBOL), colour))


def legend(drawing: Drawing, entries: Sequence[Handle]) -> None:
    """A legend along the top, in as many columns as there is room for."""
    size = LEGEND_SIZE
    group = drawing.group(_LABELS)
    columns = legend_columns([entry.text for entry in entries], drawing.width / POINTS)
    x = 0.01 * drawing.width + _LEGEND_EDGE * size
    for column in np.array_split(np.arange(len(entries)), columns):
        texts = x + (_HANDLE + _HANDLE_GAP) * size
        for row, index in enumerate(column):
            entry = entries[index]
            baseline = (_LEGEND_EDGE + styles.ASCENT + row * (_LEGEND_ROW + _LEGEND_GAP)) * size
            middle = baseline - 0.35 * size
            entry.draw(drawing, (x, middle), (x + _HANDLE * size, middle), group)
            drawing.text(entry.text, (texts, baseline), styles.text("start", size), group)
        widest = max(text_width_in(entries[index].text, size) for index in column)
        x = texts + widest * POINTS + _COLUMN_GAP * size


def shortened(names: Sequence[str]) -> list[str]:
    """Names as rows show them."""
    return [shorten(name) for name in names]
