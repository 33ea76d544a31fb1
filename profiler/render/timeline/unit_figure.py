"""Units of several timelines below each other on one time axis, each from its own beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from profiler.render.figures import svg
from profiler.render.figures.strips import Entry, RowText, add_legend, row_axes
from profiler.render.timeline.still_figure import phase_colour
from profiler.render.words import numbers

_ROW_IN = 0.62
_HOST = (-0.4, -0.16)
_DEVICE = (-0.06, 0.4)
"""Upper and lower edge of both bars of a row, in rows."""


@dataclass(frozen=True, eq=False)
class UnitRow:
    """One unit; bars have the columns `start_ns end_ns phase`, times from its beginning."""

    text: RowText
    host: pd.DataFrame
    device: pd.DataFrame

    @property
    def length_ns(self) -> float:
        """Time from the beginning to the end of the last bar."""
        return max(float(bars["end_ns"].max()) for bars in (self.host, self.device) if len(bars))


def units(rows: Sequence[UnitRow], entries: Sequence[Entry]) -> Figure:
    """Draw the units; colours are those of the phases."""
    with mpl.rc_context(svg.style()):
        figure, axes = row_axes([row.text for row in rows], row_in=_ROW_IN)
        longest = max(row.length_ns for row in rows)
        divisor, unit = numbers.scale(max(longest, 1.0), "ns")
        for place, row in enumerate(rows):
            for bars, edges in ((row.host, _HOST), (row.device, _DEVICE)):
                for phase, part in bars.groupby("phase", sort=False):
                    boxes = [
                        _box(start, end, place, edges)
                        for start, end in zip(part["start_ns"], part["end_ns"], strict=True)
                    ]
                    colour = phase_colour(int(str(phase)))
                    axes.add_collection(
                        PolyCollection(boxes, facecolors=colour, edgecolors="none"), autolim=False
                    )
        axes.set_xlim(0, longest * 1.005)
        axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / divisor:g}"))
        axes.set_xlabel(f"time from the beginning ({unit})")
        axes.grid(visible=True, axis="x")
        add_legend(figure, entries)
    return figure


def _box(
    start: float, end: float, row: int, edges: tuple[float, float]
) -> tuple[tuple[float, float], ...]:
    top, bottom = row + edges[0], row + edges[1]
    return ((start, top), (end, top), (end, bottom), (start, bottom))
