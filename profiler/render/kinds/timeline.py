"""The page of timelines, and what every page with a timeline gets beside its own figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.timelines.bars import GPU, RANGE, UnitWindow
from profiler.findings.timelines.cells import CellTimelineFindings
from profiler.model import Cell, SessionKind
from profiler.planning.page_kinds import TIMELINES
from profiler.render.console.terminal import TextTable
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Handle,
    at_most,
    legend,
    linear_ticks,
    named_ticks,
    symbol_handle,
)
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Drawing
from profiler.render.figures.ratio_rows import RowText, strip_axes, write_beside
from profiler.render.kinds.versions import View, metric_parts
from profiler.render.timeline.picture import drawn_bars
from profiler.render.timeline.section import make_section, named_timelines
from profiler.render.timeline.still_figure import PHASE_NAMES, phase_colour
from profiler.render.timeline.timeline_tables import (
    NamedTimeline,
    phase_shares,
    slowed_words,
)
from profiler.render.words import numbers


def timeline_view(findings: Findings) -> View:
    """Timelines first, then what was measured of every cell."""
    return {
        "template": "timeline_page.html",
        "heading": "Timeline",
        "first": units_chart(findings),
        **metric_parts(findings),
    }


def timeline_parts(findings: Findings) -> dict[str, Any]:
    """Variables of the template of timelines; `timeline` is None where there is none."""
    cell_timelines, timelines = named_timelines(findings)
    return {
        "timeline": make_section(cell_timelines, timelines),
        "timeline_files": tuple(_files(cell_timelines)),
    }


def _files(cell_timelines: Sequence[NamedTimeline]) -> Iterator[dict[str, str]]:
    """Files that tools wrote, in the order of the cells that they hold.

    `path` is relative to the run folder; `cells` is empty where a file holds all of this page, and
    `command` where nothing is to be typed in the run folder.
    """
    paths = dict.fromkeys(path for cell in cell_timelines for path in cell.timeline.originals)
    for path in paths:
        names = [cell.name for cell in cell_timelines if path in cell.timeline.originals]
        how, command = "open it in Perfetto (ui.perfetto.dev), as it is.", ""
        if path.endswith(".nsys-rep.gz"):
            how = "unpack it and open it in Nsight Systems."
            plain = shlex.quote(path.removesuffix(".gz"))
            command = f"gunzip -k {shlex.quote(path)} && nsys-ui {plain}"
        cells = "" if len(names) == len(cell_timelines) else "; ".join(names)
        yield {"path": path, "cells": cells, "how": how, "command": command}


# ---- the terminal --------------------------------------------------------------------------------


_MOST_CELLS = 12


def timeline_tables(findings: Findings) -> list[RenderableType]:
    """GPU busy share by cell and phase, where a run only recorded timelines or is about them."""
    report = findings.report
    only = all(session.kind is SessionKind.TIMELINE for session in report.plan.sessions)
    if not report.details.timelines or not (only or TIMELINES in report.settings.page_kind.finds):
        return []
    cell_timelines, timelines = named_timelines(findings)
    phases, phase_rows = phase_shares(cell_timelines)
    table = TextTable(f"{timelines.device} busy share by phase")
    table.add_columns("variant", name=True)
    table.add_columns("of", drop=1)
    table.add_columns(*phases, right=True)
    caption = (
        "Medians; busy: an operation ran, from the first to the last of the phase; of the whole, "
        "since the last of the one before."
    )
    table.caption = " ".join(filter(None, (caption, slowed_words(cell_timelines, timelines))))
    rows = zip(phase_rows, cell_timelines, strict=True)
    for row, cell in list(rows)[:_MOST_CELLS]:
        table.add_row(cell.name, cell.units, *(Text(datum.text) for datum in row.data[1:]))
    table.add_rest_caption(len(cell_timelines) - _MOST_CELLS, "cell")
    return [table]


# ---- the first figure: one unit of every recorded cell on one time axis --------------------------


MOST_CELLS = 8
_MOST_BARS = 40_000
_PIXELS = 1000


def units_chart(findings: Findings) -> Chart | None:
    """The unit in the middle by its time of each cell; None without a timeline of any."""
    timelines = findings.timelines.by_cell
    cells = [cell for cell in findings.programs.cells if cell.id in timelines]
    phases = (timelines[cell.id].phase_names for cell in cells[:MOST_CELLS])
    names = list(dict.fromkeys(chain.from_iterable(phases)))
    rows = [
        row
        for cell in cells[:MOST_CELLS]
        if (row := _row(findings.programs, cell, timelines[cell.id], names)) is not None
    ]
    if not rows:
        return None
    timeline = timelines[cells[0].id]
    unit_name = timeline.unit.removesuffix("_*") or "recording"
    reading = (
        f"The {unit_name} in the middle by its time; above, phases on the host, below, operations "
        f"on the {timeline.device}, each from its own beginning."
    )
    if len(cells) > MOST_CELLS:
        reading += f" {len(cells) - MOST_CELLS} more stand below."
    entries = [symbol_handle(name, phase_colour(place), "s") for place, name in enumerate(names)]
    entries.append(symbol_handle("other", styles.OTHER, "s"))
    figure = units(rows, entries[: len(PHASE_NAMES) + 1])
    return make_chart("first", f"One {unit_name} of each variant", reading, figure)


def _row(
    programs: Programs, cell: Cell, timeline: CellTimelineFindings, names: Sequence[str]
) -> UnitRow | None:
    """Row of a cell; `names` are those of the phases of all rows, in the order of their colours."""
    bars = timeline.bars(_MOST_BARS)
    window = timeline.window(bars.until_ns)
    if window is None:
        return None
    places = {number: names.index(name) for number, name in enumerate(timeline.phase_names)}
    ranges = bars.frames[RANGE]
    ranges = ranges[ranges["phase"] >= 0]
    text = (_name(programs, cell), _length_words(timeline, window))
    return text, _within(ranges, window.host, places), _within(bars.frames[GPU], window.gpu, places)


def _name(programs: Programs, cell: Cell) -> str:
    name = cell.variant.label
    return f"{cell.problem.name} \u00b7 {name}" if len(programs.problems) > 1 else name


def _within(
    frame: pd.DataFrame, window: tuple[int, int] | None, places: Mapping[int, int]
) -> pd.DataFrame:
    """Bars in a window from its beginning; those that no eye could tell apart are one."""
    if window is None or frame.empty:
        return frame.iloc[:0]
    bars = drawn_bars(frame.assign(row=0), window, _PIXELS)
    return bars.assign(
        start_ns=bars["start_ns"] - window[0],
        end_ns=bars["end_ns"] - window[0],
        phase=bars["phase"].map(places).fillna(-1).astype(int),
    )


def _length_words(timeline: CellTimelineFindings, window: UnitWindow) -> str:
    start, end = window.gpu or window.host
    length = numbers.show(float(end - start), "ns")
    unit = timeline.whole_unit
    if unit is None or numbers.is_missing(unit.busy_share):
        return length
    return f"{length}, {numbers.share(unit.busy_share)} busy"


# ---- the figure ----------------------------------------------------------------------------------


_ROW_IN = 0.62
_HOST = (-0.4, -0.16)
_DEVICE = (-0.06, 0.4)
"""Upper and lower edge of both bars of a row, in rows."""


UnitRow = tuple[RowText, pd.DataFrame, pd.DataFrame]
"""Text of a unit, and the bars of host and device: `start_ns end_ns phase`, from its beginning."""


def units(rows: Sequence[UnitRow], entries: Sequence[Handle]) -> Drawing:
    """Draw the units; colours are those of the phases."""
    texts = [text for text, *_ in rows]
    axes = strip_axes(texts, row_in=_ROW_IN)
    longest = max(
        float(bars["end_ns"].max()) for _, *bar_frames in rows for bars in bar_frames if len(bars)
    )
    divisor, unit = numbers.scale(max(longest, 1.0), "ns")
    across = axes.axes.across((0.0, longest * 1.005))
    ticks = named_ticks(
        linear_ticks(across, at_most(10)).values, lambda value: f"{value / divisor:g}"
    )
    axes.axes.grid_across(across, ticks, f"time from the beginning ({unit})")
    write_beside(axes, texts)
    for place, (_, host, device) in enumerate(rows):
        for bars, (top, bottom) in ((host, _HOST), (device, _DEVICE)):
            columns = (bars[name].tolist() for name in ("start_ns", "end_ns", "phase"))
            for start, end, phase in zip(*columns, strict=True):
                corner = (across.at(start), axes.y(place + top))
                opposite = (across.at(end), axes.y(place + bottom))
                axes.drawing.rectangle(corner, opposite, styles.fill(phase_colour(int(phase))))
    axes.axes.spines()
    legend(axes.drawing, entries)
    return axes.drawing
