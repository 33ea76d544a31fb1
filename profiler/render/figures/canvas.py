"""Canvas of figures: sizes, scales, colours by role, legends."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from profiler.render.figures import svg
from profiler.render.figures.fonts import text_size
from profiler.render.words import numbers
from profiler.render.words.names import shorten

WIDTH_IN = 13.0
ROW_IN = 0.21
HEAD_IN = 0.15
FOOT_IN = 0.48
_PANEL_IN = 2.5
PANEL_COLUMNS = 4
FEW_DECADES = 300
ROOM = 1.6
"""Factor between a logarithmic axis's end and the point next to it."""
_HANDLE_IN = 0.55
"""Of a legend's handle and the gap to the next column."""
_FONT_SIZE = 9.0
LEGEND_SIZE = 8.5
_POINTS_PER_INCH = 72.0
LOG_FROM = 5.0
"""Values that span more than this factor are drawn on a log scale."""

COLOURS = {
    "best": svg.BEST,
    "baseline": svg.BASELINE,
    "series-1": svg.SERIES[0],
    "series-2": svg.SERIES[1],
    "series-3": svg.SERIES[2],
    "series-4": svg.SERIES[3],
}
MARKERS = dict(zip(COLOURS, "os^Dv>", strict=True))
"""Of matplotlib, by role."""


@dataclass(frozen=True)
class Axis:
    """Label of an axis, and the unit of the values in the table."""

    label: str
    unit: str

    def scaled(self, largest: float) -> tuple[float, str]:
        """Find the divisor and the label with the unit that suits the largest value."""
        divisor, unit = numbers.scale(largest, self.unit)
        return divisor, f"{self.label} ({unit})" if unit else self.label


def colour_of(role: str) -> str:
    """Colour of a variant by its role: the same in every figure of a page."""
    return COLOURS.get(role, svg.OTHER)


@cache
def text_width_in(text: str, size: float = _FONT_SIZE) -> float:
    """Width of a text in inches, in a font that is wider than those of pages."""
    with warnings.catch_warnings():
        # Of letters that this font lacks, and the reader's may have, it measures a box.
        warnings.simplefilter("ignore", UserWarning)
        width, _, _ = text_size(text, FontProperties(size=size))
    return width / _POINTS_PER_INCH


def widest_in(texts: Iterable[str], size: float = _FONT_SIZE) -> float:
    """Width of the widest text in inches; 0 without any."""
    return max((text_width_in(text, size) for text in texts), default=0.0)


def fitted(text: str, room_in: float, size: float = _FONT_SIZE) -> str:
    """A text as wide as there is room for: its middle is left out where it is wider."""
    length = len(text)
    while length > 3 and text_width_in(shorten(text, length), size) > room_in:
        length -= 1
    return shorten(text, length)


def name_rows(axes: Axes, names: Iterable[str], size: float | None = None) -> None:
    """Write the name of each row left of the axes; an empty one is left out.

    They are plain texts: as tick labels they would take most of the drawing time.
    """
    axes.set_yticks([])
    for row, name in enumerate(names):
        if name:
            axes.annotate(
                name,
                (0, row),
                xycoords=("axes fraction", "data"),
                xytext=(-5, 0),
                textcoords="offset points",
                ha="right",
                va="center_baseline",
                fontsize=size,
            )


def panel_boxes(
    count: int, rows_in: float | None = None
) -> tuple[float, list[tuple[float, float, float, float]]]:
    """Height of a figure of small multiples, and of each: left, bottom, width, height, in inches.

    `rows_in`: height of all rows together; without it each has its usual height.
    """
    columns = min(count, PANEL_COLUMNS)
    rows = math.ceil(count / columns)
    head, gap, foot, left = 0.62, 0.55, 0.5, 0.82
    panel = _PANEL_IN if rows_in is None else rows_in / rows - gap * (rows - 1) / rows
    pitch = (WIDTH_IN - 0.1) / columns
    boxes = [
        (
            left + (index % columns) * pitch,
            foot + (rows - 1 - index // columns) * (panel + gap),
            pitch - left - 0.08,
            panel,
        )
        for index in range(count)
    ]
    return head + foot + rows * panel + (rows - 1) * gap, boxes


def legend(figure: Figure, handles: Sequence[Line2D], texts: Sequence[str]) -> None:
    """Put a legend along the top, in as many columns as the figure has room for."""
    figure.legend(
        handles,
        texts,
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0),
        ncols=legend_columns(texts, float(figure.get_size_inches()[0])),
        frameon=False,
        fontsize=LEGEND_SIZE,
        columnspacing=1.4,
        borderaxespad=0.1,
    )


def legend_columns(texts: Sequence[str], width_in: float) -> int:
    """Most columns, up to six, that are not wider together than the figure."""
    widths = np.array([text_width_in(text, LEGEND_SIZE) for text in texts])
    for columns in range(min(6, len(texts)), 1, -1):
        by_column = np.array_split(widths, columns)
        if sum(float(part.max()) for part in by_column) + _HANDLE_IN * columns <= width_in:
            return columns
    return 1


def log_ticks(axis: XAxis | YAxis, limits: tuple[float, float]) -> None:
    """Label 1, 2 and 5 of each decade where there are few decades, else the decades only."""
    few = limits[1] / limits[0] < FEW_DECADES
    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if few else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def spans_decades(values: pd.Series[float]) -> bool:
    """Whether values are positive and so far apart that a linear axis would flatten them."""
    present = values.dropna()
    return bool(len(present) and present.min() > 0 and present.max() / present.min() > LOG_FROM)
