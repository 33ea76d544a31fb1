"""Units of several timelines below each other on one time axis, each from its own beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.render.figures.axes import Handle, at_most, legend, linear_ticks, named_ticks
from profiler.render.figures.drawing import Drawing, fill_style
from profiler.render.figures.strips import RowText, strip_axes, write_beside
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


def units(rows: Sequence[UnitRow], entries: Sequence[Handle]) -> Drawing:
    """Draw the units; colours are those of the phases."""
    texts = [row.text for row in rows]
    axes = strip_axes(texts, row_in=_ROW_IN)
    longest = max(row.length_ns for row in rows)
    divisor, unit = numbers.scale(max(longest, 1.0), "ns")
    across = axes.axes.across((0.0, longest * 1.005))
    ticks = named_ticks(
        linear_ticks(across, at_most(10)).values, lambda value: f"{value / divisor:g}"
    )
    axes.axes.grid_across(across, ticks, f"time from the beginning ({unit})")
    write_beside(axes, texts)
    for place, row in enumerate(rows):
        for bars, (top, bottom) in ((row.host, _HOST), (row.device, _DEVICE)):
            columns = (bars[name].tolist() for name in ("start_ns", "end_ns", "phase"))
            for start, end, phase in zip(*columns, strict=True):
                corner = (across.at(start), axes.y(place + top))
                opposite = (across.at(end), axes.y(place + bottom))
                axes.drawing.rectangle(corner, opposite, fill_style(phase_colour(int(phase))))
    axes.axes.spines()
    legend(axes.drawing, entries)
    return axes.drawing
