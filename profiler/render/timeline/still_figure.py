"""The still figure of a timeline: how busy the GPU was over the visit, and one unit in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from profiler.render.figures import svg
from profiler.render.figures.canvas import WIDTH_IN, name_rows
from profiler.render.timeline.picture import PictureRow
from profiler.render.words import numbers
from profiler.render.words.names import shorten

PHASE_COLOURS = (svg.BEST, svg.BASELINE, *svg.SERIES)
"""Colours of the first phases in their order; all others are grey."""
PHASE_NAMES = ("best", "baseline", "series-1", "series-2", "series-3", "series-4")
"""The same as the page's variables."""

_LEFT_IN, _RIGHT_IN = 1.75, 0.15
_ROW_IN, _HEAD_IN, _AXIS_IN, _OVERVIEW_IN = 0.24, 0.24, 0.42, 0.5
_CHARACTER_IN = 0.066
_FEWEST_LETTERS = 3
_BAR = 0.41
"""Half the height of a bar, in rows."""
_TINT = 0.3
"""Opacity of a bar that words stand on."""
_TICKS = 8


@dataclass(frozen=True)
class Panel:
    """Rows over one time axis. `bars`: `start_ns end_ns short row phase`; `window`: its ends."""

    title: str
    rows: tuple[PictureRow, ...]
    first: int
    """Number of the first row."""
    bars: pd.DataFrame
    window: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Shares:
    """Busy share of equal stretches of a time; `values` may be empty."""

    title: str
    span: tuple[int, int]
    values: npt.NDArray[np.float64]


def timeline_figure(shares: Shares, panels: Sequence[Panel]) -> Figure:
    """Draw shares of busy time, and panels of bars below."""
    with mpl.rc_context(svg.style()):
        return _draw(shares, panels)


def _draw(shares: Shares, panels: Sequence[Panel]) -> Figure:
    has_shares = bool(len(shares.values))
    heights = [_HEAD_IN + _ROW_IN * max(len(panel.rows), 1) + _AXIS_IN for panel in panels]
    above = (_HEAD_IN + _OVERVIEW_IN + _AXIS_IN) if has_shares else 0.0
    total = above + sum(heights)
    figure = Figure(figsize=(WIDTH_IN, total))
    width = 1 - (_LEFT_IN + _RIGHT_IN) / WIDTH_IN
    top = total
    if has_shares:
        bottom = (total - _HEAD_IN - _OVERVIEW_IN) / total
        axes = figure.add_axes((_LEFT_IN / WIDTH_IN, bottom, width, _OVERVIEW_IN / total))
        _draw_shares(axes, shares, panels)
        top -= above
    for panel, height in zip(panels, heights, strict=True):
        inner = height - _HEAD_IN - _AXIS_IN
        bottom = (top - _HEAD_IN - inner) / total
        axes = figure.add_axes((_LEFT_IN / WIDTH_IN, bottom, width, inner / total))
        _draw_panel(axes, panel)
        top -= height
    return figure


def _draw_shares(axes: Axes, shares: Shares, panels: Sequence[Panel]) -> None:
    span = shares.span
    edges = np.linspace(*span, len(shares.values) + 1)
    axes.stairs(shares.values, edges, fill=True, color=svg.OTHER, linewidth=0)
    for panel in panels[-1:]:  # the last is that of the device, and so are the shares
        axes.axvspan(*panel.window, color=svg.BEST, alpha=_TINT, linewidth=0)
    axes.set_xlim(*span)
    axes.set_ylim(0, 1)
    axes.set_yticks([1], ["100\u202f%"])
    _title(axes, shares.title)
    _time_axis(axes, span, 0)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    start, end = panel.window
    axes.set_xlim(start, end)
    axes.set_ylim(max(len(panel.rows), 1) - 0.5, -0.5)
    name_rows(axes, (shorten(row.label or "", 26) for row in panel.rows))
    _draw_bars(axes, panel)
    _title(axes, panel.title)
    _time_axis(axes, panel.window, start)


def _draw_bars(axes: Axes, panel: Panel) -> None:
    inches = WIDTH_IN - _LEFT_IN - _RIGHT_IN
    per_inch = max(panel.window[1] - panel.window[0], 1) / inches
    names = panel.bars["short"].astype(object).tolist()
    columns = (panel.bars[name].tolist() for name in ("start_ns", "end_ns", "row", "phase"))
    corners: dict[tuple[str, bool], list[tuple[tuple[float, float], ...]]] = {}
    for name, start, end, number, phase in zip(names, *columns, strict=True):
        row = number - panel.first
        room = int((end - start) / per_inch / _CHARACTER_IN) - 1
        written = bool(name) and room >= _FEWEST_LETTERS
        box = tuple(
            (x, row + y) for x, y in ((start, -_BAR), (end, -_BAR), (end, _BAR), (start, _BAR))
        )
        corners.setdefault((phase_colour(phase), written), []).append(box)
        if written:
            axes.text(
                (start + end) / 2,
                row,
                _fitting(str(name), room),
                ha="center",
                va="center_baseline",
                fontsize=7.5,
            )
    for (colour, tinted), boxes in corners.items():
        axes.add_collection(
            PolyCollection(
                boxes,
                facecolors=colour,
                edgecolors=colour,
                alpha=_TINT if tinted else None,
                linewidths=0.5,
            ),
            autolim=False,
        )


def phase_colour(phase: int) -> str:
    """Colour of a phase by its number; those without one are grey."""
    return PHASE_COLOURS[phase] if 0 <= phase < len(PHASE_COLOURS) else svg.OTHER


def _fitting(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: max(room - 1, 1)]}\u2026"


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", color=svg.MUTED, fontsize=8.5, pad=4)


def _time_axis(axes: Axes, window: tuple[int, int], origin: int) -> None:
    length = window[1] - window[0]
    divisor, unit = numbers.scale(max(length, 1), "ns")
    step = _round_step(length / divisor / _TICKS)
    first = np.ceil((window[0] - origin) / divisor / step) * step
    ticks = np.arange(first, (window[1] - origin) / divisor + step / 1e6, step)
    axes.set_xticks(ticks * divisor + origin, [f"{tick:g}" for tick in np.round(ticks, 9)])
    axes.annotate(
        unit,
        (0, 0),
        xycoords="axes fraction",
        xytext=(-5, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        color=svg.MUTED,
    )
    axes.grid(visible=True, axis="x")


def _round_step(step: float) -> float:
    """1, 2 or 5 of a decade, at least as large as `step`."""
    if step <= 0:
        return 1.0
    decade = 10.0 ** np.floor(np.log10(step))
    return float(next(size * decade for size in (1, 2, 5, 10) if size * decade >= step * 0.999))
