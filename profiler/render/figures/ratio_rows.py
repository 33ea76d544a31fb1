"""Figures of the first screen with ratios in rows: strips of problems or cells, small multiples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import POINTS, Axes, Handle, RowAxes, Scale, legend, times_ticks
from profiler.render.figures.drawing import (
    ASCENT,
    DESCENT,
    TEXT_SIZE,
    WIDTH_IN,
    Drawing,
    circle,
    dashed,
    fill_style,
    fitted,
    line_style,
    marker,
    text_style,
    text_width_in,
    widest_in,
)
from profiler.render.figures.palette import colour_of
from profiler.render.words import numbers

_HEAD_IN, _FOOT_IN = 0.34, 0.46
_TALLEST_IN, _ROW_IN = 4.1, 0.3
"""Height of all rows together, and the most that one gets."""
_GAP_IN = 0.12
_BESIDE = 6.0
"""From the axes to the texts beside them, in points."""
_DOT, _NAMED_DOT = circle(1.8), circle(3.16)
_TIMER = 5.83
_ROUND = (1, 1.5, 2, 3, 4, 5, 7)
_FEW_OCTAVES = 3.0
"""Up to this quotient of the ends ticks are at equal steps."""


RowText = tuple[str, str]
"""What stands left and right of a row."""


def strip(
    dots: pd.DataFrame,
    references: pd.DataFrame,
    rows: Sequence[RowText],
    entries: Sequence[Handle],
    label: str,
) -> Drawing:
    """A dot for each cell in the row of its problem, references as lines through the rows.

    `dots`: columns `row ratio role mark cell`; `references`: `row ratio role mark`. Values are
    ratios on a logarithmic axis.
    """
    axes = strip_axes(rows)
    across = _ratio_axis(axes, [*dots["ratio"], *references["ratio"]], label)
    write_beside(axes, rows)
    columns = (references[name].tolist() for name in ("row", "ratio", "role", "mark"))
    for row, ratio, role, mark in zip(*columns, strict=True):
        ends = [(across.at(ratio), axes.y(row + half)) for half in (-0.42, 0.42)]
        line = axes.drawing.path(ends, line_style(colour_of(role), 2.2, ""))
        line.set("id", svg.mark(mark))
    axes.axes.spines()
    others = dots["role"] == "other"
    _draw_dots(axes, across, dots[others], _DOT, 0.6)
    _draw_dots(axes, across, dots[~others], _NAMED_DOT)
    legend(axes.drawing, entries)
    return axes.drawing


def reference_handle(text: str, colour: str) -> Handle:
    """Entry of the legend of a strip for a reference, which is a line through the rows."""
    return Handle(text, line_style(colour, 2.2))


def _draw_dots(
    axes: RowAxes, across: Scale, dots: pd.DataFrame, outline: str, opacity: float = 1.0
) -> None:
    def style(colour: str) -> str:
        return fill_style(colour, opacity)

    axes.drawing.dots(
        outline, _places(axes, across, dots), map(colour_of, dots["role"]), _ids(dots), style
    )


def _places(axes: RowAxes, across: Scale, dots: pd.DataFrame) -> Iterable[tuple[float, float]]:
    return zip(map(across.at, dots["ratio"]), map(axes.y, dots["row"]), strict=True)


def _ids(dots: pd.DataFrame) -> Iterable[str]:
    return map(svg.mark, dots["mark"], dots["cell"])


def timer_ratios(
    table: pd.DataFrame, rows: Sequence[RowText], entries: Sequence[Handle], label: str
) -> Drawing:
    """A mark for each timer in the row of its cell; columns `row ratio colour marker mark cell`.

    A vertical line stands at 1: the timer that the others are compared with.
    """
    axes = strip_axes(rows)
    across = _ratio_axis(axes, [1.0, *table["ratio"]], label)
    write_beside(axes, rows)
    axes.axes.upright(across.at(1.0), line_style(palette.INK, 1.2))
    axes.axes.spines()
    for kind, part in table.groupby("marker", sort=False):
        outline = marker(str(kind), _TIMER)
        axes.drawing.dots(outline, _places(axes, across, part), part["colour"], _ids(part))
    legend(axes.drawing, entries)
    return axes.drawing


def strip_axes(rows: Sequence[RowText], row_in: float = _ROW_IN) -> RowAxes:
    """Axes with a row for each text; margins fit the texts on both sides."""
    height = min(_TALLEST_IN, row_in * max(len(rows), 2))
    left = widest_in([text for text, _ in rows]) + _GAP_IN
    right = widest_in([text for _, text in rows]) + _GAP_IN
    axes = Axes(
        Drawing(WIDTH_IN * POINTS, (height + _HEAD_IN + _FOOT_IN) * POINTS),
        left * POINTS,
        _HEAD_IN * POINTS,
        (WIDTH_IN - right) * POINTS,
        (_HEAD_IN + height) * POINTS,
    )
    return RowAxes(axes, len(rows), 0.5)


def write_beside(axes: RowAxes, rows: Sequence[RowText]) -> None:
    """The texts of the rows, and a line between each two of them."""
    for place, (left, right) in enumerate(rows):
        axes.beside(place, left, gap=_BESIDE)
        axes.beside(place, right, gap=-_BESIDE)
        if place:
            axes.axes.level(axes.y(place - 0.5), line_style(palette.GRID, 0.7, ""))


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
    least = math.log(high / low) / most
    shown: list[float] = []
    # 1 and what is short to write first: the others stand where these leave room.
    for tick in sorted(inside, key=lambda tick: (tick != 1, len(f"{tick:g}"), tick)):
        if all(abs(math.log(tick / other)) >= least for other in shown):
            shown.append(tick)
    return sorted(shown)


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
_INTERVAL_DOT = circle(2.24)
_MOST_NAME = 0.42
"""Share of a panel that names may take."""


def layout(panels: int) -> tuple[int, float]:
    """Columns of up to 12 panels on a first screen, and the height of each in inches."""
    columns = panels if panels <= 3 else math.ceil(panels / 2) if panels <= 8 else 4
    rows = math.ceil(panels / columns)
    return columns, (_PANELS_IN - _LABEL_IN) / rows - _TITLE_IN - _TICKS_IN


def lines_of(panels: int) -> int:
    """How many lines each of so many panels has room for."""
    _, height_in = layout(panels)
    return min(MOST_ROWS, int(height_in / (_PANEL_ROW_IN * 0.68)))


def interval_panels(table: pd.DataFrame, label: str, *, same_rows: bool = False) -> Drawing:
    """Dots with intervals, a row each; columns `panel name ratio low high text role mark cell`.

    Panels keep the order of their first row, and rows their order. `role` is that of a variant;
    `ink`: none. `same_rows`: all panels have the same names, which stand in the first column only.
    """
    panels = dict(list(table.groupby("panel", sort=False)))
    columns, height_in = layout(len(panels))
    most = max(len(rows) for rows in panels.values())
    row_in = min(_PANEL_ROW_IN, height_in / most)
    pitch = row_in * most + _TITLE_IN + _TICKS_IN
    total = pitch * math.ceil(len(panels) / columns) + _LABEL_IN
    drawing = Drawing(WIDTH_IN * POINTS, total * POINTS)
    width = WIDTH_IN / columns
    names_in = [_names_in(rows, width) for rows in panels.values()]
    texts_in = widest_in(table["text"], _SMALL) + 0.1
    ends = _ends(table)
    for number, rows in enumerate(panels.values()):
        line, column = divmod(number, columns)
        room = max(names_in) if same_rows else names_in[number]
        axes = Axes(
            drawing,
            (column * width + room) * POINTS,
            (line * pitch + _TITLE_IN) * POINTS,
            ((column + 1) * width - _PANEL_GAP_IN - texts_in) * POINTS,
            ((line + 1) * pitch - _TICKS_IN) * POINTS,
            text_size=_SMALL,
            tick_gap=_TICK_GAP,
        )
        names = [fitted(str(name), room - 0.1, _SMALL) for name in rows["name"]]
        _draw(RowAxes(axes, most, 0.5), rows, ends if not same_rows else _ends(rows), names)
    for number, panel in enumerate(panels):
        line, column = divmod(number, columns)
        at = (column * width + 0.02) * POINTS, (line * pitch + 0.06) * POINTS + ASCENT * TEXT_SIZE
        drawing.text(fitted(str(panel), width - _PANEL_GAP_IN), at, text_style("start", bold=True))
    below = (drawing.width / 2, drawing.height - 0.02 * POINTS - DESCENT * TEXT_SIZE)
    drawing.text(label, below, text_style("middle"))
    return drawing


def _names_in(rows: pd.DataFrame, width: float) -> float:
    return min(widest_in(rows["name"], _SMALL) + 0.12, _MOST_NAME * width)


def _ends(table: pd.DataFrame) -> tuple[float, float]:
    """Least and greatest of ratios, intervals and 1, at least 4 percent apart."""
    values = table[["ratio", "low", "high"]].to_numpy(dtype=float)
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = min(1.0, float(finite.min())), max(1.0, float(finite.max()))
    return (low, high) if high / low > 1.04 else (low / 1.02, high * 1.02)


def _draw(axes: RowAxes, rows: pd.DataFrame, ends: tuple[float, float], names: list[str]) -> None:
    low, high = ends
    room = (high / low) ** 0.05
    across = axes.axes.across((low / room, high * room), logarithmic=True)
    widest = text_width_in(f"0.00{numbers.TIMES}", _SMALL) + 0.1
    most = max(1, round((axes.axes.right - axes.axes.left) / POINTS / widest))
    ticks = ratio_ticks(low / room, high * room, most)
    axes.axes.grid_across(across, times_ticks(ticks))
    axes.axes.upright(across.at(1.0), dashed(palette.MUTED, 1.0))
    colours = [palette.INK if role == "ink" else colour_of(role) for role in rows["role"]]
    columns = (rows[name].tolist() for name in ("ratio", "low", "high", "mark", "cell"))
    for row, (ratio, least, greatest, mark, cell) in enumerate(zip(*columns, strict=True)):
        style = line_style(colours[row], 2.2, "stroke-opacity: 0.6")
        axes.span(across, row, least, greatest, style)
        if math.isfinite(ratio):
            dot = axes.dot(_INTERVAL_DOT, across.at(ratio), row, colours[row])
            if mark >= 0:
                dot.set("id", svg.mark(mark, cell))
    axes.axes.spines()
    for row, text in enumerate(rows["text"]):
        axes.beside(row, text, gap=-_TEXT_GAP, size=_SMALL)
    for row, name in enumerate(names):
        axes.beside(row, name, size=_SMALL)
