"""The figure of a grid page that no other page has; it takes a prepared table and only draws it."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from profiler.render.figures import svg
from profiler.render.figures.canvas import MARKERS, ROOM, colour_of, legend, log_ticks
from profiler.render.words.names import shorten

_SAVED_IN = (8.0, 4.2)


def saved(table: pd.DataFrame, baseline: str) -> Figure:
    """Speed-up against bytes saved, both axes logarithmic.

    Columns `name role mark bytes speed`: factors of the baseline over the variant, all above 0. On
    the dashed line the time falls as the bytes do.
    """
    with mpl.rc_context(svg.style()):
        figure = Figure(figsize=_SAVED_IN)
        axes = figure.add_axes((0.09, 0.13, 0.89, 0.77))
        for (name, role), rows in table.groupby(["name", "role"], sort=False):
            points = axes.scatter(
                rows["bytes"],
                rows["speed"],
                color=colour_of(str(role)),
                marker=MARKERS.get(str(role), "o"),
                s=20,
                alpha=0.75,
                zorder=3,
                label=str(name),
            )
            points.set_gid(svg.marks(rows["mark"]))
        low, high = (pick(table[["bytes", "speed"]].to_numpy().ravel()) for pick in (min, max))
        ends = (min(low, 1.0) / ROOM, max(high, 1.0) * ROOM)
        axes.plot(ends, ends, color=svg.MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
        axes.axhline(1.0, color=svg.BASELINE, linewidth=1.0)
        axes.axvline(1.0, color=svg.BASELINE, linewidth=1.0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*_limits(table["bytes"]))
        axes.set_ylim(*_limits(table["speed"]))
        log_ticks(axes.xaxis, axes.get_xlim())
        log_ticks(axes.yaxis, axes.get_ylim())
        axes.set_xlabel(f"DRAM bytes of {shorten(baseline, 30)} / variant (right: fewer are moved)")
        axes.set_ylabel(f"time of {shorten(baseline, 20)} / variant")
        axes.grid(visible=True)
        _clip_lines(figure)
        roles = table.drop_duplicates("name")[["name", "role"]].itertuples(index=False)
        handles, texts = [], []
        for name, role in roles:
            colour, marker = colour_of(role), MARKERS.get(role, "o")
            handles.append(Line2D([], [], color=colour, marker=marker, linestyle=""))
            texts.append(shorten(str(name)))
        dashed = Line2D([], [], color=svg.MUTED, linestyle=(0, (4, 3)))
        legend(figure, [*handles, dashed], [*texts, "time falls as bytes do"])
    return figure


def _limits(values: pd.Series[float]) -> tuple[float, float]:
    """Ends of an axis that shows all values and 1."""
    return min(float(values.min()), 1.0) / ROOM, max(float(values.max()), 1.0) * ROOM


def _clip_lines(figure: Figure) -> None:
    """Cut the diagonal at the axes: nothing in a page's drawing is clipped."""
    (axes,) = figure.axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    low, high = max(left, bottom), min(right, top)
    axes.lines[0].set_data([low, high], [low, high])
