"""Heat maps of ratios side by side, in one scale of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.render.figures import palette, svg
from profiler.render.figures.axes import POINTS, Axes, RowAxes, Ticks
from profiler.render.figures.drawing import (
    ASCENT,
    BASELINE,
    TEXT_SIZE,
    WIDTH_IN,
    Drawing,
    Point,
    fill_style,
    fitted,
    line_style,
    symbol_style,
    text_style,
    text_width_in,
    widest_in,
)

_HEIGHT_IN = 4.55
_LEGEND_IN = 0.34
_TITLE_IN, _GAP_IN = 0.27, 0.16
_TALLEST_IN, _WIDEST_IN = 0.4, 1.0
_NARROWEST_IN = 0.37
_SMALL, _CELL = 8.0, 8.0
_TICK_GAP = 5.5
_TURN_DEGREES = 35
_EDGE = 0.47
"""Half the width of a cell's box, in cells."""


@dataclass(frozen=True)
class MapCell:
    """One cell: its class of colour, what is written, and whose it is."""

    row: int
    column: int
    text: str
    step: int | None
    """Class of the ratio, -6 to 6; None: no ratio."""
    mark: int
    cell: int


@dataclass(frozen=True)
class HeatMap:
    """One map; `rows` and `columns` are the texts beside it."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[MapCell, ...]


def heat_maps(
    maps: Sequence[HeatMap], columns: int, classes: Sequence[tuple[int, str]], ends: str
) -> Drawing:
    """Draw maps in rows of `columns`; `classes` are those of the legend, `ends` stands after it."""
    rows = [maps[start : start + columns] for start in range(0, len(maps), columns)]
    width = WIDTH_IN / columns
    left = max(_left_in(heat, width) for heat in maps)
    turned = any(_turned(heat, width - left) for heat in maps)
    foot = max(_foot_in(heat, turned=turned) for heat in maps)
    lines = sum(max(len(heat.rows) for heat in row) for row in rows)
    room = _HEIGHT_IN - _LEGEND_IN - len(rows) * (_TITLE_IN + foot)
    cell_in = max(min(_TALLEST_IN, room / lines), 0.17)
    total = _LEGEND_IN + len(rows) * (_TITLE_IN + foot) + lines * cell_in
    drawing = Drawing(WIDTH_IN * POINTS, total * POINTS)
    titles: list[tuple[str, Point]] = []
    top = _LEGEND_IN
    for row in rows:
        for place, heat in enumerate(row):
            wide = min(width - left - _GAP_IN, _WIDEST_IN * len(heat.columns))
            axes = Axes(
                drawing,
                (place * width + left) * POINTS,
                (top + _TITLE_IN) * POINTS,
                (place * width + left + wide) * POINTS,
                (top + _TITLE_IN + len(heat.rows) * cell_in) * POINTS,
                text_size=_SMALL,
                tick_gap=_TICK_GAP,
            )
            _draw(axes, heat, turned=turned, left_in=left)
            at = (place * width + 0.02) * POINTS, (top + 0.05) * POINTS + ASCENT * TEXT_SIZE
            titles.append((fitted(heat.title, width - _GAP_IN), at))
        top += _TITLE_IN + max(len(heat.rows) for heat in row) * cell_in + foot
    _legend(drawing, classes, ends)
    for title, at in titles:
        drawing.text(title, at, text_style("start", bold=True))
    return drawing


def columns_for(maps: Sequence[HeatMap]) -> int:
    """Number of maps beside each other: as many as have room for the numbers in their cells."""
    least = max(
        len(heat.columns) * _NARROWEST_IN + _left_in(heat, WIDTH_IN) + _GAP_IN for heat in maps
    )
    return max(1, min(len(maps), int(WIDTH_IN / least), 4))


def _left_in(heat: HeatMap, width: float) -> float:
    return min(widest_in(heat.rows, _SMALL) + 0.12, 0.4 * width)


def _turned(heat: HeatMap, room_in: float) -> bool:
    """Whether labels of columns are too wide to stand upright."""
    return widest_in(heat.columns, _SMALL) + 0.06 > min(room_in / len(heat.columns), _WIDEST_IN)


def _foot_in(heat: HeatMap, *, turned: bool) -> float:
    wide = widest_in(heat.columns, _SMALL) if turned else 0.0
    return 0.26 + wide * math.sin(math.radians(_TURN_DEGREES))


def _draw(axes: Axes, heat: HeatMap, *, turned: bool, left_in: float) -> None:
    across = axes.across((-0.5, len(heat.columns) - 0.5))
    rows = RowAxes(axes, len(heat.rows), 0.5)
    if turned:
        axes.slanted_labels(across, heat.columns, _TURN_DEGREES)
    else:
        ticks = Ticks(range(len(heat.columns)), heat.columns)
        axes.grid_across(across, ticks, lines=False)
    for row, name in enumerate(heat.rows):
        rows.beside(row, fitted(name, left_in - 0.1, _SMALL), gap=_TICK_GAP, size=_SMALL)
    wide = (axes.right - axes.left) / POINTS / len(heat.columns)
    for cell in heat.cells:
        corner = (across.at(cell.column - _EDGE), rows.y(cell.row - _EDGE))
        opposite = (across.at(cell.column + _EDGE), rows.y(cell.row + _EDGE))
        box = axes.drawing.rectangle(corner, opposite, _box_style(cell.step))
        box.set("id", svg.mark(cell.mark, cell.cell))
    for cell in heat.cells:
        size = _CELL if text_width_in(cell.text, _CELL) <= wide else _CELL - 1.5
        text = cell.text if text_width_in(cell.text, size) <= wide else "\N{MULTIPLICATION X}"
        at = (across.at(cell.column), rows.y(cell.row) + BASELINE * size)
        colour = palette.MUTED if cell.step is None else palette.HEAT_INK[cell.step]
        axes.drawing.text(text, at, text_style("middle", size, colour))


def _box_style(step: int | None) -> str:
    """Style of a cell: its class of colour, with an edge as the gap to its neighbours is thin."""
    if step is None:
        return line_style(palette.GRID, 0.5, "")
    return f"{symbol_style(palette.HEAT[step])}; stroke-width: 0.5"


def _legend(drawing: Drawing, classes: Sequence[tuple[int, str]], ends: str) -> None:
    """Classes of colour in a row along the top, with what they stand for."""
    first, last = "less time", f"more time{ends}"
    baseline = 0.13 * POINTS + BASELINE * _SMALL
    drawing.text(first, (0.02 * POINTS, baseline), text_style("start", _SMALL))
    x = 0.02 + text_width_in(first, _SMALL) + 0.1
    width = max(widest_in([text for _, text in classes], _SMALL) + 0.12, 0.46)
    for step, text in classes:
        corner, opposite = (x * POINTS, 0.025 * POINTS), ((x + width) * POINTS, 0.235 * POINTS)
        drawing.rectangle(corner, opposite, fill_style(palette.HEAT[step]))
        at = ((x + width / 2) * POINTS, baseline)
        drawing.text(text, at, text_style("middle", _SMALL, palette.HEAT_INK[step]))
        x += width
    drawing.text(last, ((x + 0.1) * POINTS, baseline), text_style("start", _SMALL))
