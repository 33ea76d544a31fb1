"""The section of timelines: a picture of every cell, and what its ranges and kernels took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from profiler.analyse.phases import CPU_OPERATOR, Phased, phased
from profiler.analyse.timeline import busy_time
from profiler.analyse.timers import timer_medians
from profiler.findings.findings import Findings
from profiler.findings.values import NAN
from profiler.render import embed
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.tables.rows import Datum
from profiler.render.timeline.picture import (
    API,
    GPU,
    MOST_OPERATIONS,
    RANGE,
    SPAN,
    NameTable,
    Picture,
    Window,
    bar_paths,
    bars_within,
    busy_bins,
    compact,
    joined_bars,
    make_picture,
    unit_window,
)
from profiler.render.timeline.still_figure import PHASE_NAMES, Panel, Shares, timeline_figure
from profiler.render.timeline.timeline_tables import (
    OPERATOR_HEADS,
    Line,
    NamedTimeline,
    Operator,
    PhaseShares,
    SmallTable,
    call_table,
    gap_table,
    kernel_table,
    latency_table,
    operator_rows,
    percent,
    phase_shares,
    phase_table,
    section_device,
    slowed_words,
    tree_table,
)
from profiler.render.words import numbers

MOST_PICTURES = 12
"""Cells with a picture; tables are of all."""
MOST_ON_PAGE = 120_000
"""Operations in all pictures of a page together."""
MOST_TWIN_ROWS = 150
_BINS = 240
_PIXELS = 1400


@dataclass(frozen=True)
class PhaseKey:
    """A phase and its colour."""

    name: str
    colour: str
    """Name of a colour of the page; empty: none of its own."""


@dataclass(frozen=True)
class CellPicture:
    """The timeline of one cell as the page shows it."""

    name: str
    mark: int
    number: int
    """Its place among the embedded data; -1: no picture."""
    sentence: str
    notes: tuple[str, ...]
    keys: tuple[PhaseKey, ...]
    chart: Chart | None
    twin: SmallTable | None
    tables: tuple[SmallTable, ...]
    operators: tuple[Operator, ...]
    left_out_operators: int
    tool: str


@dataclass(frozen=True)
class TimelineSection:
    """Everything that the section shows."""

    cells: tuple[CellPicture, ...]
    shares: PhaseShares
    slowed: str
    """How far recording stretched the launches, in words; may be empty."""
    phases: SmallTable
    calls: SmallTable | None
    operator_heads: tuple[str, ...]
    left_out_pictures: int
    device: str
    """`GPU`, or `CPU` where all cells ran on one."""
    by_time: bool
    """Whether some operations were placed into ranges by time alone."""
    data: Markup
    """For the page's script."""


def named_timelines(findings: Findings) -> tuple[NamedTimeline, ...]:
    """Timelines of a report in the order of its plan, with what repeats in them."""
    timelines = findings.report.timelines
    several = len({cell.problem.id for cell in findings.distinct_cells if cell.id in timelines}) > 1
    timed = timer_medians(findings.report.samples, findings.report.summary)
    return tuple(
        NamedTimeline(
            cell.variant.name,
            cell.problem.name if several else "",
            findings.marks[cell.variant.id],
            phased(timelines[cell.id]),
            timed.get(cell.id, NAN),
        )
        for cell in findings.distinct_cells
        if cell.id in timelines
    )


def make_section(named: Sequence[NamedTimeline], counters: pd.DataFrame) -> TimelineSection | None:
    """Make the section; None without a timeline. `counters`: by range, without rows for none."""
    if not named:
        return None
    drawn = named[:MOST_PICTURES]
    most = min(MOST_OPERATIONS, MOST_ON_PAGE // len(drawn))
    names = NameTable()
    data: list[dict[str, Any]] = []
    cells = []
    for number, one in enumerate(named):
        picture = make_picture(one.found, most) if number < len(drawn) else None
        window = None if picture is None else unit_window(one.found, picture.until_ns)
        if picture is not None:
            data.append(
                {"name": one.name, "device": one.found.device, **compact(picture, names, window)}
            )
        cells.append(_cell(one, number, picture, window, _of_cell(counters, one.found)))
    return TimelineSection(
        cells=tuple(cells),
        shares=phase_shares(named),
        slowed=slowed_words(named),
        phases=phase_table(named),
        calls=call_table(named),
        operator_heads=OPERATOR_HEADS,
        left_out_pictures=len(named) - len(drawn),
        device=section_device(named),
        by_time=any(bool(one.found.timeline.operations["by_time"].any()) for one in named),
        data=embed.dump({"names": names.names, "colours": list(PHASE_NAMES), "cells": data}),
    )


def _cell(
    one: NamedTimeline,
    number: int,
    picture: Picture | None,
    window: Window | None,
    counters: pd.DataFrame,
) -> CellPicture:
    found = one.found
    chart = twin = None
    if picture is not None and window is not None and not picture.empty:
        chart = _chart(one, number, picture, window)
        twin = _twin(one, picture, window)
    operators, left_out = operator_rows(found)
    tables = (
        tree_table(found, counters),
        gap_table(found),
        kernel_table(found),
        None if found.on_cpu else latency_table(found),
    )
    return CellPicture(
        name=one.name,
        mark=one.mark,
        number=number if chart is not None else -1,
        sentence=_sentence(found),
        notes=tuple(_notes(found, picture)),
        keys=_keys(found),
        chart=chart,
        twin=twin,
        tables=tuple(table for table in tables if table is not None),
        operators=operators,
        left_out_operators=left_out,
        tool=found.timeline.collector,
    )


def _of_cell(counters: pd.DataFrame, found: Phased) -> pd.DataFrame:
    """Counters by range of a cell; without rows where there are none."""
    return counters[counters["cell"] == found.timeline.cell] if len(counters) else counters


def _keys(found: Phased) -> tuple[PhaseKey, ...]:
    return tuple(
        PhaseKey(name, PHASE_NAMES[number] if number < len(PHASE_NAMES) else "")
        for number, name in enumerate(found.phases)
    )


# ---- words ---------------------------------------------------------------------------------------


def _sentence(found: Phased) -> str:
    """What was recorded, and how much of the time the GPU was busy."""
    timeline, operations = found.timeline, found.timeline.operations
    units = found.units
    what = f"{timeline.launches} launches" if timeline.launches else "One run of the program"
    if len(units.rows) and len(units.rows) != timeline.launches:
        what += f", {len(units.rows)} times {units.name}"
    if operations.empty:
        return f"{what}; nothing ran on a GPU."
    busy = busy_time(operations)
    span = int(operations["end_ns"].max() - operations["start_ns"].min())
    devices = max(operations["device"].nunique(), 1)
    share = percent(busy / (span * devices)) if span else numbers.MISSING
    kinds = operations["kind"].astype(object).value_counts()
    counted = ", ".join(
        f"{numbers.show(float(count))} {_KINDS.get(str(kind), str(kind))}"
        for kind, count in kinds.items()
    )
    return (
        f"{what}: {counted} in {numbers.show(span, 'ns')}, in which the {found.device} was busy "
        f"{share} of the time."
    )


_KINDS = {
    CPU_OPERATOR: "operators",
    "kernel": "kernels",
    "memcpy": "copies",
    "memset": "memsets",
    "graph": "whole graphs",
}


def _notes(found: Phased, picture: Picture | None) -> list[str]:
    operations = found.timeline.operations
    notes = []
    nodes = int(operations["graph_node"].notna().sum()) if len(operations) else 0
    if nodes:
        notes.append(
            f"{numbers.show(float(nodes))} operations are nodes of CUDA graphs: their range is "
            "that of the call that launched the graph, whatever was open when it was captured."
        )
    if (operations["kind"] == "graph").any():
        notes.append("A whole CUDA graph is one bar: its nodes were not recorded.")
    by_time = int(operations["by_time"].sum()) if len(operations) else 0
    if by_time:
        notes.append(
            f"{numbers.show(float(by_time))} operations were launched by threads without a range "
            "of their own (torch's backward pass): they are placed by time into what the main "
            "thread had open."
        )
    if picture is not None and picture.left_out:
        first = f"the first {picture.launches} launches" if picture.launches else "the first"
        notes.append(
            f"The picture holds {first} of {found.timeline.launches}; "
            f"{numbers.show(float(picture.left_out))} more operations are in the tables only."
            if found.timeline.launches
            else f"The picture leaves out the last {numbers.show(float(picture.left_out))} "
            "operations; they are in the tables."
        )
    return notes


# ---- the still figure ----------------------------------------------------------------------------


def _chart(one: NamedTimeline, number: int, picture: Picture, window: Window) -> Chart:
    found, operations = one.found, one.found.timeline.operations
    what = _unit_name(found, window)
    span, shares = (0, 0), np.zeros(0)
    if len(operations):
        span = int(operations["start_ns"].min()), int(operations["end_ns"].max())
        shares = busy_bins(operations, span, _BINS)
    count = 0 if window.unit is None else len(found.units.rows)
    which = f"The one of {count} in the middle by its time: ranges" if count > 1 else "Ranges"
    reading = (
        f"{which} {'' if found.on_cpu else 'and CUDA calls '}on the host; {_operations(found)} "
        f"{_colours(found)} Bars too short to be seen are drawn together."
    )
    title = f"{found.device} busy, all launches; blue: what is shown below"
    figure = timeline_figure(Shares(title, span, shares), _panels(found.device, picture, window))
    return make_chart(f"timeline-{number}", f"{one.name}: {what}", reading, figure)


def _unit_name(found: Phased, window: Window) -> str:
    """Name of the range that a still figure shows; without one it shows all."""
    if window.unit is None:
        return "all of it"
    return str(found.timeline.ranges["name"].iloc[window.unit]).replace("=", " ")


def _operations(found: Phased) -> str:
    if found.on_cpu:
        return "below, torch's operators."
    return (
        "on the GPU its operations, and the ranges from their first operation to their last."
        if len(found.timeline.operations)
        else "nothing ran on a GPU."
    )


def _colours(found: Phased) -> str:
    if not found.phases:
        return ""
    return "An operation has the colour of the phase that launched it."


def _panels(device: str, picture: Picture, window: Window) -> list[Panel]:
    """Host and GPU on one axis where that can be read, else each on its own."""
    host = [place for place, row in enumerate(picture.rows) if row.kind in (RANGE, API)]
    gpu = [place for place, row in enumerate(picture.rows) if row.kind in (SPAN, GPU)]
    host_window = window.host if window.apart else window.whole
    panels = []
    if host:
        title = f"host, from {numbers.show(host_window[0], 'ns')}"
        panels.append(_panel(title, picture, host, (RANGE, API), host_window))
    if gpu and window.gpu is not None:
        gpu_window = window.gpu if window.apart else window.whole
        title = f"{device}, from {numbers.show(gpu_window[0], 'ns')}"
        panels.append(_panel(title, picture, gpu, (SPAN, GPU), gpu_window))
    return panels


def _panel(
    title: str,
    picture: Picture,
    places: Sequence[int],
    kinds: Sequence[str],
    window: tuple[int, int],
) -> Panel:
    least = (window[1] - window[0]) / _PIXELS
    frames = [joined_bars(bars_within(picture.bars[kind], window), least) for kind in kinds]
    filled = [frame for frame in frames if len(frame)]
    bars = pd.concat(filled, ignore_index=True) if filled else frames[0]
    rows = tuple(picture.rows[place] for place in places)
    return Panel(title, rows, places[0], bars, window)


def _twin(one: NamedTimeline, picture: Picture, window: Window) -> SmallTable:
    """The bars of the still figure in words, in order of start."""
    origin = window.whole[0]
    paths = bar_paths(picture.bars[RANGE])
    within = {RANGE: window.host, GPU: window.gpu or window.host}
    frames = [
        bars_within(picture.bars[kind], part).assign(kind=kind) for kind, part in within.items()
    ]
    bars = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    longest = bars["end_ns"] - bars["start_ns"]
    kept = bars.loc[longest.nlargest(MOST_TWIN_ROWS).index].sort_values("start_ns", kind="stable")
    lines = tuple(
        Line(
            str(row["name"]),
            (
                Datum(one.found.device if row["kind"] == GPU else "range", css="words"),
                _shown_time(row["start_ns"] - origin),
                _shown_time(row["end_ns"] - row["start_ns"]),
                Datum(paths[row["inside"]] if row["inside"] >= 0 else "", css="words"),
            ),
        )
        for row in kept.to_dict("records")
    )
    return SmallTable(
        f"{one.name}: ranges and operations of {_unit_name(one.found, window)}",
        "what",
        (("where", ""), ("begins", "After the beginning of the figure"), ("takes", ""), ("in", "")),
        lines,
        len(bars) - len(kept),
        words=("where", "in"),
        long_names=True,
    )


def _shown_time(value: float) -> Datum:
    return Datum(numbers.show(float(value), "ns"), numbers.raw(float(value)))
