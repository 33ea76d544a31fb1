"""Heat maps of ratios side by side, in one scale of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from profiler.render.figures import svg
from profiler.render.figures.canvas import WIDTH_IN, fitted, text_width_in, widest_in

_HEIGHT_IN = 4.55
_LEGEND_IN = 0.34
_TITLE_IN, _GAP_IN = 0.27, 0.16
_TALLEST_IN, _WIDEST_IN = 0.4, 1.0
_NARROWEST_IN = 0.37
_SMALL, _CELL = 8.0, 8.0
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
) -> Figure:
    """Draw maps in rows of `columns`; `classes` are those of the legend, `ends` stands after it."""
    with mpl.rc_context(svg.style()):
        rows = [maps[start : start + columns] for start in range(0, len(maps), columns)]
        width = WIDTH_IN / columns
        left = max(_left_in(heat, width) for heat in maps)
        turned = any(_turned(heat, width - left) for heat in maps)
        foot = max(_foot_in(heat, turned=turned) for heat in maps)
        lines = sum(max(len(heat.rows) for heat in row) for row in rows)
        room = _HEIGHT_IN - _LEGEND_IN - len(rows) * (_TITLE_IN + foot)
        cell_in = max(min(_TALLEST_IN, room / lines), 0.17)
        total = _LEGEND_IN + len(rows) * (_TITLE_IN + foot) + lines * cell_in
        figure = Figure(figsize=(WIDTH_IN, total))
        top = total - _LEGEND_IN
        for row in rows:
            height = max(len(heat.rows) for heat in row) * cell_in
            for place, heat in enumerate(row):
                wide = min(width - left - _GAP_IN, _WIDEST_IN * len(heat.columns))
                high = len(heat.rows) * cell_in
                axes = figure.add_axes(
                    (
                        (place * width + left) / WIDTH_IN,
                        (top - _TITLE_IN - high) / total,
                        wide / WIDTH_IN,
                        high / total,
                    )
                )
                _draw(axes, heat, turned=turned, left_in=left)
                figure.text(
                    (place * width + 0.02) / WIDTH_IN,
                    (top - 0.05) / total,
                    fitted(heat.title, width - _GAP_IN),
                    va="top",
                    fontweight="bold",
                )
            top -= _TITLE_IN + height + foot
        _legend(figure, classes, ends)
    return figure


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
    axes.set_xlim(-0.5, len(heat.columns) - 0.5)
    axes.set_ylim(len(heat.rows) - 0.5, -0.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    boxes = [_box(cell) for cell in heat.cells]
    colours = ["none" if cell.step is None else svg.HEAT[cell.step] for cell in heat.cells]
    edges = [
        svg.GRID if cell.step is None else colour
        for cell, colour in zip(heat.cells, colours, strict=True)
    ]
    axes.add_collection(
        PolyCollection(
            boxes,
            facecolors=colours,
            edgecolors=edges,
            linewidths=0.5,
            gid=svg.marks([cell.mark for cell in heat.cells], [cell.cell for cell in heat.cells]),
        ),
        autolim=False,
    )
    wide = axes.get_position().width * WIDTH_IN / len(heat.columns)
    for cell in heat.cells:
        size = _CELL if text_width_in(cell.text, _CELL) <= wide else _CELL - 1.5
        axes.text(
            cell.column,
            cell.row,
            cell.text if text_width_in(cell.text, size) <= wide else "\N{MULTIPLICATION X}",
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=svg.MUTED if cell.step is None else svg.HEAT_INK[cell.step],
        )
    axes.set_xticks(range(len(heat.columns)), heat.columns)
    anchor = {"rotation": _TURN_DEGREES, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axes.tick_params(axis="both", labelsize=_SMALL, pad=2)
    for label in axes.get_xticklabels():
        label.set(**anchor)
    axes.set_yticks(
        range(len(heat.rows)), [fitted(name, left_in - 0.1, _SMALL) for name in heat.rows]
    )


def _box(cell: MapCell) -> tuple[tuple[float, float], ...]:
    left, right = cell.column - _EDGE, cell.column + _EDGE
    top, bottom = cell.row - _EDGE, cell.row + _EDGE
    return ((left, top), (right, top), (right, bottom), (left, bottom))


def _legend(figure: Figure, classes: Sequence[tuple[int, str]], ends: str) -> None:
    """Classes of colour in a row along the top, with what they stand for."""
    total = figure.get_size_inches()[1]
    axes = figure.add_axes((0, 1 - 0.24 / total, 1, 0.22 / total))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH_IN)
    axes.set_ylim(0, 1)
    first, last = "less time", "more time"
    x = 0.02 + text_width_in(first, _SMALL) + 0.1
    width = max(widest_in([text for _, text in classes], _SMALL) + 0.12, 0.46)
    axes.text(0.02, 0.5, first, va="center_baseline", fontsize=_SMALL)
    for step, text in classes:
        box = ((x, 0.02), (x + width, 0.02), (x + width, 0.98), (x, 0.98))
        axes.add_collection(PolyCollection([box], facecolors=svg.HEAT[step]), autolim=False)
        axes.text(
            x + width / 2,
            0.5,
            text,
            ha="center",
            va="center_baseline",
            fontsize=_SMALL,
            color=svg.HEAT_INK[step],
        )
        x += width
    axes.text(x + 0.1, 0.5, f"{last}{ends}", va="center_baseline", fontsize=_SMALL)
