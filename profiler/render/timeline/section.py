"""The section of timelines: a picture of every cell, and what its ranges and kernels took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.timelines.bars import (
    API,
    GPU,
    RANGE,
    SPAN,
    TimelineBars,
    UnitWindow,
    bar_paths,
)
from profiler.findings.timelines.cells import CellTimelineFindings, TimelineFindings
from profiler.render import embed
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.tables.rows import Column, Datum, FrameRow, Row, SmallTable, text_column
from profiler.render.timeline.picture import (
    MOST_OPERATIONS,
    bars_within,
    drawn_bars,
    far_apart,
    in_rows,
    picture_data,
)
from profiler.render.timeline.still_figure import (
    PHASE_NAMES,
    TimelinePanel,
    phase_name,
    timeline_figure,
)
from profiler.render.timeline.timeline_tables import (
    OPERATOR_HEADS,
    NamedTimeline,
    call_table,
    gap_table,
    kernel_table,
    latency_table,
    operator_rows,
    phase_shares,
    phase_table,
    slowed_words,
    tree_table,
)
from profiler.render.words import numbers

MOST_PICTURES = 12
"""Cells with a picture; tables are of all."""
MOST_ON_PAGE = 120_000
"""Operations in all pictures of a page together."""
MOST_BAR_ROWS = 150
_BINS = 240
_PIXELS = 1400


def named_timelines(findings: Findings) -> tuple[tuple[NamedTimeline, ...], TimelineFindings]:
    """Timelines of a run in the order of its plan, under the names of their cells.

    Also what is true of all of them.
    """
    cells = {cell.id: cell for cell in findings.programs.cells}
    timelines = findings.timelines.of_cells(cells)
    several = len({cells[timeline.cell].problem.id for timeline in timelines.cells}) > 1
    cell_timelines = tuple(
        NamedTimeline(
            variant=cells[timeline.cell].variant.label,
            problem=cells[timeline.cell].problem.name if several else "",
            mark=findings.programs.marks[cells[timeline.cell].variant.id],
            timeline=timeline,
        )
        for timeline in timelines.cells
    )
    return cell_timelines, timelines


def make_section(
    cell_timelines: Sequence[NamedTimeline], timelines: TimelineFindings
) -> dict[str, Any] | None:
    """Parts of the section; None without a timeline."""
    if not cell_timelines:
        return None
    drawn = cell_timelines[:MOST_PICTURES]
    most = min(MOST_OPERATIONS, MOST_ON_PAGE // len(drawn))
    names: dict[str, int] = {}
    data: list[dict[str, Any]] = []
    cells = []
    for number, cell in enumerate(cell_timelines):
        picture = window = None
        if number < len(drawn):
            timeline = cell.timeline
            picture = in_rows(timeline.bars(most), on_cpu=timeline.on_cpu)
            window = timeline.window(picture.until_ns)
            bars = picture_data(picture, timeline.phase_names, names, window)
            data.append({"name": cell.name, "device": timeline.device, **bars})
        cells.append(_cell(cell, number, picture, window))
    return {
        "cells": cells,
        "shares": phase_shares(cell_timelines),
        "slowed": slowed_words(cell_timelines, timelines),
        "phases": phase_table(cell_timelines, timelines.device),
        "calls": call_table(cell_timelines, timelines.call_names),
        "operator_heads": OPERATOR_HEADS,
        "left_out_pictures": len(cell_timelines) - len(drawn),
        "device": timelines.device,
        "by_time": timelines.by_time,
        "data": embed.pack({"names": list(names), "colours": list(PHASE_NAMES), "cells": data}),
    }


def _cell(
    cell: NamedTimeline, number: int, picture: TimelineBars | None, window: UnitWindow | None
) -> dict[str, Any]:
    """The timeline of one cell; `window`: the unit of its picture that the still figure shows.

    `number` is its place among the embedded data, -1 without a picture; `keys`: each phase with the
    name of its colour, if it has any.
    """
    timeline = cell.timeline
    drawn = picture if window is not None and picture is not None and not picture.empty else None
    operators, left_out = operator_rows(timeline)
    tables = (
        tree_table(timeline),
        gap_table(timeline),
        kernel_table(timeline),
        latency_table(timeline.latency),
    )
    return {
        "name": cell.name,
        "number": -1 if drawn is None else number,
        "sentence": _sentence(timeline),
        "notes": _notes(timeline, picture),
        "keys": [(name, phase_name(place)) for place, name in enumerate(timeline.phase_names)],
        "chart": _chart(cell, number, drawn, window) if drawn and window else None,
        "tables": [table for table in tables if table is not None],
        "operators": operators,
        "left_out_operators": left_out,
    }


# ---- words ---------------------------------------------------------------------------------------


def _sentence(timeline: CellTimelineFindings) -> str:
    """Sentence on the recording, and on the device's busy share of the visit and of a unit."""
    recorded = f"{timeline.launches} launches" if timeline.launches else "One run of the program"
    if timeline.units and timeline.units != timeline.launches:
        recorded += f", {timeline.units} times {timeline.unit}"
    if not timeline.has_operations:
        return f"{recorded}; nothing ran on a GPU."
    counted = ", ".join(
        f"{numbers.show(float(count))} {_KINDS.get(kind, kind)}"
        for kind, count in timeline.operation_counts.items()
    )
    unit = timeline.whole_unit
    if unit is None or numbers.is_missing(unit.busy_share):
        busy = f"The {timeline.device} was busy {numbers.share(timeline.busy_share)} of that time."
    else:
        median = f" (the median of {unit.units})" if unit.units > 1 else ""
        of_unit, of_visit = map(numbers.share, (unit.busy_share, timeline.busy_share))
        busy = (
            f"The {timeline.device} was busy {of_unit} of a {timeline.unit} with the wait before "
            f"it{median}, and {of_visit} of the visit as a whole."
        )
    return f"{recorded}: {counted} in {numbers.show(timeline.span_ns, 'ns')}. {busy}"


_KINDS = {
    "cpu_op": "operators",
    "kernel": "kernels",
    "memcpy": "copies",
    "memset": "memsets",
    "graph": "whole graphs",
}


def _notes(timeline: CellTimelineFindings, picture: TimelineBars | None) -> list[str]:
    notes = []
    if timeline.graph_nodes:
        notes.append(
            f"{numbers.show(float(timeline.graph_nodes))} operations are nodes of CUDA graphs: "
            "their range is that of the call that launched the graph, whatever was open when it "
            "was captured."
        )
    if "graph" in timeline.operation_counts:
        notes.append("A whole CUDA graph is one bar: its nodes were not recorded.")
    if timeline.by_time:
        notes.append(
            f"{numbers.show(float(timeline.by_time))} operations were launched by threads without "
            "a range of their own (torch's backward pass): they are placed by time into what the "
            "main thread had open."
        )
    if picture is not None and picture.left_out:
        notes.append(_cut_note(timeline.launches, picture))
    return notes


def _cut_note(launches: int, picture: TimelineBars) -> str:
    """Words on the operations that the picture leaves out."""
    left_out = numbers.show(float(picture.left_out))
    if not launches:
        return f"The picture leaves out the last {left_out} operations; they are in the tables."
    first = f"the first {picture.launches} launches" if picture.launches else "the first"
    return (
        f"The picture holds {first} of {launches}; {left_out} more operations are in the tables "
        "only."
    )


# ---- the still figure ----------------------------------------------------------------------------


def _chart(cell: NamedTimeline, number: int, picture: TimelineBars, window: UnitWindow) -> Chart:
    timeline = cell.timeline
    span, shares = timeline.busy_over_time(_BINS)
    count = 0 if window.unit is None else timeline.units
    which = f"The one of {count} in the middle by its time: ranges" if count > 1 else "Ranges"
    reading = (
        f"{which} {'' if timeline.on_cpu else 'and CUDA calls '}on the host; "
        f"{_operations(timeline)} {_colours(timeline)} Bars too short to be seen are drawn "
        "together."
    )
    title = f"{timeline.device} busy, all launches; blue: what is shown below"
    panels = _panels(timeline.device, picture, window)
    figure = timeline_figure(panels, (title, span, shares) if len(shares) else None)
    name = f"{cell.name}: {_unit_name(window)}"
    bars = _bar_table(cell, picture, window)
    return make_chart(f"timeline-{number}", name, reading, figure, table=bars)


def _unit_name(window: UnitWindow) -> str:
    """Name of the range that a still figure shows; without one it shows all."""
    return "all of it" if window.unit is None else window.unit.replace("=", " ")


def _operations(timeline: CellTimelineFindings) -> str:
    if timeline.on_cpu:
        return "below, torch's operators."
    return (
        "on the GPU its operations, and the ranges from their first operation to their last."
        if timeline.has_operations
        else "nothing ran on a GPU."
    )


def _colours(timeline: CellTimelineFindings) -> str:
    if not timeline.phase_names:
        return ""
    return "An operation has the colour of the phase that launched it."


def _panels(device: str, picture: TimelineBars, window: UnitWindow) -> list[TimelinePanel]:
    """Host and GPU on one axis where that can be read, else each on its own."""
    host = [place for place, (kind, _) in enumerate(picture.rows) if kind in (RANGE, API)]
    gpu = [place for place, (kind, _) in enumerate(picture.rows) if kind in (SPAN, GPU)]
    two_axes = far_apart(window)
    host_window = window.host if two_axes else window.extent
    panels = []
    if host:
        title = f"host, from {numbers.show(host_window[0], 'ns')}"
        panels.append(_panel(title, picture, host, (RANGE, API), host_window))
    if gpu and window.gpu is not None:
        gpu_window = window.gpu if two_axes else window.extent
        title = f"{device}, from {numbers.show(gpu_window[0], 'ns')}"
        panels.append(_panel(title, picture, gpu, (SPAN, GPU), gpu_window))
    return panels


def _panel(
    title: str,
    picture: TimelineBars,
    places: Sequence[int],
    kinds: Sequence[str],
    window: tuple[int, int],
) -> TimelinePanel:
    frames = [drawn_bars(picture.frames[kind], window, _PIXELS) for kind in kinds]
    filled = [frame for frame in frames if len(frame)]
    bars = pd.concat(filled, ignore_index=True) if filled else frames[0]
    rows = tuple(picture.rows[place] for place in places)
    return TimelinePanel(title=title, rows=rows, first=places[0], bars=bars, window=window)


def _bar_table(cell: NamedTimeline, picture: TimelineBars, window: UnitWindow) -> SmallTable:
    """The bars of the still figure in words, in order of start."""
    origin = window.extent[0]
    paths = bar_paths(picture.frames[RANGE])
    within = {RANGE: window.host, GPU: window.gpu or window.host}
    frames = [
        bars_within(picture.frames[kind], part).assign(kind=kind) for kind, part in within.items()
    ]
    bars = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    duration = bars["end_ns"] - bars["start_ns"]
    longest = bars.loc[duration.nlargest(MOST_BAR_ROWS).index]
    longest = longest.sort_values("start_ns", kind="stable")
    columns: tuple[Column[FrameRow], ...] = (
        text_column("where", lambda row: cell.timeline.device if row["kind"] == GPU else "range"),
        Column(
            "begins",
            lambda row: _shown_time(row["start_ns"] - origin),
            "After the beginning of the figure",
        ),
        Column("takes", lambda row: _shown_time(row["end_ns"] - row["start_ns"])),
        text_column(
            "in",
            lambda row: " / ".join(paths[row["inside"]] if row["inside"] >= 0 else ()),
            without="",
        ),
    )
    return SmallTable.of(
        f"{cell.name}: ranges and operations of {_unit_name(window)}",
        "what",
        columns,
        longest.to_dict("records"),
        lambda row: Row(str(row["name"])),
        left_out=len(bars) - len(longest),
        long_names=True,
    )


def _shown_time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "")
