"""Figures of the first screen with ratios in rows: strips of problems or cells, small multiples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from matplotlib.ticker import MaxNLocator

from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    RowAxes,
    Scale,
    apart,
    legend,
    sheet,
    times_ticks,
)
from profiler.render.figures.drawing import (
    POINTS,
    WIDTH_IN,
    Drawing,
    Mark,
    Point,
    ends_of,
    fitted,
    set_mark,
    text_width_in,
    widest_in,
)
from profiler.render.words import numbers

_HEAD_IN, _FOOT_IN = 0.34, 0.46
_TALLEST_IN, _ROW_IN = 4.1, 0.3
"""Height of all rows together, and the most that one gets."""
_GAP_IN = 0.12
_BESIDE = 6.0
"""From the axes to the texts beside them, in points."""
_DOT, _NAMED_DOT = styles.circle(1.8), styles.circle(3.16)
_TIMER = 5.83
_ROUND = (1, 1.5, 2, 3, 4, 5, 7)
_FEW_OCTAVES = 3.0
"""Up to this quotient of the ends ticks are at equal steps."""


RowText = tuple[str, str]
"""Texts left and right of a row."""


def strip(
    dots: Sequence[Mark],
    references: Sequence[Mark],
    rows: Sequence[RowText],
    entries: Sequence[Handle],
    label: str,
) -> Drawing:
    """A dot for each cell in the row of its problem, references as lines through the rows.

    Values are ratios on a logarithmic axis; the place of a mark is the number of its row.
    """
    axes = strip_axes(rows)
    across = _ratio_axis(axes, [mark.value for mark in (*dots, *references)], label)
    write_beside(axes, rows)
    for mark in references:
        ends = [(across.at(mark.value), axes.y(mark.place + half)) for half in (-0.42, 0.42)]
        line = axes.drawing.path(ends, styles.line(mark.colour, 2.2, ""))
        set_mark(line, mark.variant)
    axes.axes.spines()
    other_marks = [mark for mark in dots if mark.role == "other"]
    faint = partial(styles.fill, opacity=0.6)
    axes.drawing.dots(_DOT, _points(axes, across, other_marks), other_marks, faint)
    role_marks = [mark for mark in dots if mark.role != "other"]
    axes.drawing.dots(_NAMED_DOT, _points(axes, across, role_marks), role_marks, styles.fill)
    legend(axes.drawing, entries)
    return axes.drawing


def _points(axes: RowAxes, across: Scale, marks: Iterable[Mark]) -> list[Point]:
    return [(across.at(mark.value), axes.y(mark.place)) for mark in marks]


def timer_ratios(
    timers: Mapping[str, Sequence[Mark]],
    rows: Sequence[RowText],
    entries: Sequence[Handle],
    label: str,
) -> Drawing:
    """A mark for each timer in the row of its cell, by the kind of marker that the timer has.

    A vertical line stands at 1: the timer that the others are compared with.
    """
    axes = strip_axes(rows)
    ratios = [mark.value for marks in timers.values() for mark in marks]
    across = _ratio_axis(axes, [1.0, *ratios], label)
    write_beside(axes, rows)
    axes.axes.upright(across.at(1.0), styles.line(styles.INK, 1.2))
    axes.axes.spines()
    for kind, marks in timers.items():
        axes.drawing.dots(styles.marker(kind, _TIMER), _points(axes, across, marks), marks)
    legend(axes.drawing, entries)
    return axes.drawing


def strip_axes(rows: Sequence[RowText], row_in: float = _ROW_IN) -> RowAxes:
    """Axes with a row for each text; margins fit the texts on both sides."""
    height = min(_TALLEST_IN, row_in * max(len(rows), 2))
    left = widest_in([text for text, _ in rows]) + _GAP_IN
    right = widest_in([text for _, text in rows]) + _GAP_IN
    drawing = sheet(height + _HEAD_IN + _FOOT_IN)
    axes = Axes.in_inches(drawing, left, _HEAD_IN, WIDTH_IN - right, _HEAD_IN + height)
    return RowAxes(axes, len(rows), 0.5)


def write_beside(axes: RowAxes, rows: Sequence[RowText]) -> None:
    """The texts of the rows, and a line between each two of them."""
    for place, (left, right) in enumerate(rows):
        axes.beside(place, left, gap=_BESIDE)
        axes.beside(place, right, gap=-_BESIDE)
        if place:
            axes.axes.level(axes.y(place - 0.5), styles.line(styles.GRID, 0.7, ""))


def _ratio_axis(axes: RowAxes, ratios: Sequence[float], label: str) -> Scale:
    """A logarithmic axis with round ticks for ratios."""
    finite = [ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)] or [1.0]
    room = max((max(finite) / min(finite)) ** 0.03, 1.01)
    low, high = min(finite) / room, max(finite) * room
    across = axes.axes.across((low, high), logarithmic=True)
    axes.axes.grid_across(across, times_ticks(ratio_ticks(low, high)), label)
    return across


def ratio_ticks(low: float, high: float, most: int = 14) -> list[float]:
    """Round ratios between two ends, such that the labels of `most` would have room."""
    if high / low < _FEW_OCTAVES:
        ticks = MaxNLocator(2 * most, steps=[1, 2, 5, 10]).tick_values(low, high)
        candidates = {float(f"{tick:.6g}") for tick in ticks}
    else:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        candidates = {float(f"{step * 10**decade:.6g}") for decade in decades for step in _ROUND}
    inside = [tick for tick in candidates if low <= tick <= high]
    return apart(inside, (low, high), most, logarithmic=True)


# ---- small multiples with intervals; a panel for each problem, or for each step ------------------


MOST_ROWS = 12
"""Rows of a panel, where panels stand in one row."""
_PANELS_IN = 4.5
_PANEL_ROW_IN = 0.27
_TITLE_IN, _TICKS_IN = 0.24, 0.24
_LABEL_IN = 0.2
_SMALL = 8.0
_PANEL_GAP_IN = 0.1
_TICK_GAP, _TEXT_GAP = 5.5, 4.0
"""From the axes to labels of ticks, and to the texts at the right, in points."""
_INTERVAL_DOT = styles.circle(2.24)
_MOST_NAME = 0.42
"""Share of a panel that names may take."""


def layout(panels: int) -> tuple[int, float]:
    """Columns of up to 12 panels on a first screen, and the height of each in inches."""
    columns = panels if panels <= 3 else math.ceil(panels / 2) if panels <= 8 else 4
    rows = math.ceil(panels / columns)
    return columns, (_PANELS_IN - _LABEL_IN) / rows - _TITLE_IN - _TICKS_IN


def lines_of(panels: int) -> int:
    """Number of lines that each of so many panels has room for."""
    _, height_in = layout(panels)
    return min(MOST_ROWS, int(height_in / (_PANEL_ROW_IN * 0.68)))


def interval_panels(
    panels: Mapping[str, Sequence[Mark]], label: str, *, same_rows: bool = False
) -> Drawing:
    """Dots with intervals, a row each, in panels under their titles.

    `same_rows`: all panels have the same names, which stand in the first column only.
    """
    every = [mark for marks in panels.values() for mark in marks]
    columns, height_in = layout(len(panels))
    most = max(len(rows) for rows in panels.values())
    row_in = min(_PANEL_ROW_IN, height_in / most)
    pitch = row_in * most + _TITLE_IN + _TICKS_IN
    drawing = sheet(pitch * math.ceil(len(panels) / columns) + _LABEL_IN)
    width = WIDTH_IN / columns
    names_in = [_names_in(rows, width) for rows in panels.values()]
    texts_in = widest_in((mark.text for mark in every), _SMALL) + 0.1
    ends = _ends(every)
    for number, rows in enumerate(panels.values()):
        line, column = divmod(number, columns)
        room = max(names_in) if same_rows else names_in[number]
        axes = Axes.in_inches(
            drawing,
            column * width + room,
            line * pitch + _TITLE_IN,
            (column + 1) * width - _PANEL_GAP_IN - texts_in,
            (line + 1) * pitch - _TICKS_IN,
            text_size=_SMALL,
            tick_gap=_TICK_GAP,
        )
        names = [fitted(mark.name, room - 0.1, _SMALL) for mark in rows]
        _draw(RowAxes(axes, most, 0.5), rows, ends if not same_rows else _ends(rows), names)
    for number, panel in enumerate(panels):
        line, column = divmod(number, columns)
        at = (
            (column * width + 0.02) * POINTS,
            (line * pitch + 0.06) * POINTS + styles.ASCENT * styles.TEXT_SIZE,
        )
        drawing.text(fitted(panel, width - _PANEL_GAP_IN), at, styles.text("start", bold=True))
    below = (drawing.width / 2, drawing.height - 0.02 * POINTS - styles.DESCENT * styles.TEXT_SIZE)
    drawing.text(label, below, styles.text("middle"))
    return drawing


def _names_in(marks: Sequence[Mark], width: float) -> float:
    return min(widest_in((mark.name for mark in marks), _SMALL) + 0.12, _MOST_NAME * width)


def _ends(marks: Sequence[Mark]) -> tuple[float, float]:
    """Least and greatest of ratios, intervals and 1, at least 4 percent apart."""
    finite = [end for end in ends_of(marks) if math.isfinite(end) and end > 0]
    low, high = min(1.0, *finite), max(1.0, *finite)
    return (low, high) if high / low > 1.04 else (low / 1.02, high * 1.02)


def _draw(
    axes: RowAxes, marks: Sequence[Mark], ends: tuple[float, float], names: Sequence[str]
) -> None:
    low, high = ends
    room = (high / low) ** 0.05
    across = axes.axes.across((low / room, high * room), logarithmic=True)
    widest = text_width_in(f"0.00{numbers.TIMES}", _SMALL) + 0.1
    most = max(1, round((axes.axes.right - axes.axes.left) / POINTS / widest))
    ticks = ratio_ticks(low / room, high * room, most)
    axes.axes.grid_across(across, times_ticks(ticks))
    axes.axes.upright(across.at(1.0), styles.dashed(styles.MUTED, 1.0))
    for row, mark in enumerate(marks):
        style = styles.line(mark.colour, 2.2, "stroke-opacity: 0.6")
        axes.span(across, row, mark.low, mark.high, style)
        if math.isfinite(mark.value):
            axes.dot(_INTERVAL_DOT, across, row, mark)
    axes.axes.spines()
    for row, mark in enumerate(marks):
        axes.beside(row, mark.text, gap=-_TEXT_GAP, size=_SMALL)
    for row, name in enumerate(names):
        axes.beside(row, name, size=_SMALL)
