"""The section of in-kernel timelines: rows for each warpgroup, and what was under way meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from profiler.findings.findings import Findings
from profiler.findings.timelines.bars import GPU
from profiler.findings.timelines.in_kernel import WAIT, ActivityShare, InKernelFindings
from profiler.render.embed import pack
from profiler.render.figures.axes import symbol_handle
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, text_column
from profiler.render.timeline.picture import PictureRow, drawn_bars
from profiler.render.timeline.still_figure import (
    PHASE_NAMES,
    TimelinePanel,
    phase_colour,
    phase_name,
    timeline_figure,
)
from profiler.render.words import numbers

MOST_PICTURES = 12
"""Cells with a picture; tables are of all."""
_SHOWN_ACTIVITIES = 28
"""Activities of the busiest warpgroup that the panel of single ones shows."""
_PIXELS = 1400
_LOW_ROW_IN = 0.18
"""Height of a row of the first screen, which has two panels."""
_GREY = -1


def make_in_kernel_section(findings: Findings) -> dict[str, Any] | None:
    """Parts of the section; None where no kernel was recorded."""
    recorded = findings.in_kernel
    cells = [cell for cell in findings.programs.cells if cell.id in recorded]
    if not cells:
        return None
    several = len({cell.problem.id for cell in cells}) > 1
    names = {
        cell.id: f"{cell.variant.label}, {cell.problem.name}" if several else cell.variant.label
        for cell in cells
    }
    marks = {cell.id: findings.programs.marks[cell.variant.id] for cell in cells}
    colours = _colours([recorded[cell.id] for cell in cells])
    return {
        "cells": [
            _cell(names[cell.id], number, recorded[cell.id], colours)
            for number, cell in enumerate(cells)
        ],
        "overlap": _overlap_table([recorded[cell.id] for cell in cells], names, marks),
        "left_out_pictures": max(len(cells) - MOST_PICTURES, 0),
    }


def _cell(
    name: str, number: int, inside: InKernelFindings, colours: Mapping[str, int]
) -> dict[str, Any]:
    """The timeline of one cell; `keys`: each activity with the name of its colour, or none."""
    drawn = number < MOST_PICTURES and len(inside.stamps.spans) > 0
    activities = {share.activity for share in inside.activity_shares}
    return {
        "name": name,
        "sentence": _sentence(inside),
        "note": _CUT_OFF if inside.cut_off else "",
        "keys": [
            (words(activity), phase_name(place))
            for activity, place in colours.items()
            if activity in activities
        ],
        "chart": _chart(name, number, inside, colours) if drawn else None,
        "table": _activity_table(name, inside),
        "trace": _trace(inside),
    }


def _trace(inside: InKernelFindings) -> Markup:
    """Columns of bars, packed for Perfetto: a process for each block, a thread for each row."""
    activities = inside.stamps.spans.rename(columns={"activity": "name"}).assign(operation="")
    operations = inside.under_way.assign(name=inside.under_way["operation"])
    bars = pd.concat([activities, operations]).sort_values(["block", "group", "operation"])
    if bars.empty:
        return Markup("")
    places, rows = pd.factorize(
        pd.MultiIndex.from_frame(bars[["block", "group", "operation"]]), sort=False
    )
    names, texts = pd.factorize(bars["name"])
    start, end = (bars[name].round().astype(int) for name in ("start_ns", "end_ns"))
    groups = inside.stamps.groups
    threads = [
        [f"block {block}", f"{groups.get(group, group)}{f': {operation}' if operation else ''}"]
        for block, group, operation in rows
    ]
    return pack(
        {
            "rows": threads,
            "names": [words(str(text)) for text in texts],
            "row": places.tolist(),
            "name": names.tolist(),
            "start": start.tolist(),
            "ns": (end - start).tolist(),
        }
    )


def words(name: str) -> str:
    """Name of an activity as people write it."""
    return name.replace("_", " ")


def _colours(recorded: Sequence[InKernelFindings]) -> dict[str, int]:
    """Number of the colour of each activity that was seen in any cell; those that wait are grey.

    First come those that begin operations, then those with most time.
    """
    time: dict[str, float] = {}
    for inside in recorded:
        for share in inside.activity_shares:
            time[share.activity] = time.get(share.activity, 0.0) + share.time_share
    begin = {operation.begins for inside in recorded for operation in inside.stamps.operations}
    ordered = sorted(time, key=lambda activity: (activity not in begin, -time[activity]))
    working = [activity for activity in ordered if not activity.startswith(WAIT)]
    places = {activity: place for place, activity in enumerate(working[: len(PHASE_NAMES)])}
    return {activity: places.get(activity, _GREY) for activity in ordered}


def _sentence(inside: InKernelFindings) -> str:
    ends = inside.stamps.ends
    if inside.blocks == ():
        return "No warpgroup recorded anything."
    groups = ", ".join(inside.stamps.groups.values())
    multiprocessors = ", ".join(map(str, sorted(ends["sm"].unique().tolist())))
    length = float(ends["end_ns"].max() - ends["start_ns"].min())
    return (
        f"{len(inside.blocks)} blocks (multiprocessors {multiprocessors}), each with {groups}, in "
        f"{numbers.show(length, 'ns')}."
    )


_CUT_OFF = (
    "Some warpgroups did more than their place holds: their later activities are not recorded. "
    "Shares are of the time in which all were."
)


# ---- the figure ----------------------------------------------------------------------------------


def _chart(
    name: str, number: int, inside: InKernelFindings, colours: Mapping[str, int]
) -> Chart | None:
    block = inside.blocks[0]
    panels = [
        _panel(inside, block, inside.window(block), colours, title="all that was recorded"),
        _panel(inside, block, _close_up(inside, block), colours, title="a third into it"),
    ]
    drawn = [panel for panel in panels if panel is not None]
    if not drawn:
        return None
    reading = (
        "A row for each warpgroup of one block, and below it what it has under way on the "
        "tensor cores or elsewhere, in the colour of the activity that begins it. Activities that "
        "wait are grey, and so are the shortest. Bars too short to be seen are drawn together."
    )
    figure = timeline_figure(drawn)
    return make_chart(f"in-kernel-{number}", f"{name}: inside the kernel", reading, figure)


def close_ups_chart(findings: Findings) -> Chart | None:
    """A few activities of the first variant and of the baseline, at the largest problem."""
    programs, problem, rank = (
        findings.programs,
        findings.ranking.largest_problem,
        findings.ranking.leader,
    )
    if problem is None or rank is None or not findings.in_kernel:
        return None
    variants = [rank.variant]
    if programs.baseline and programs.baseline != rank.variant:
        variants.append(programs.baseline)
    colours, panels = _colours(list(findings.in_kernel.values())), []
    for variant in variants:
        cell = programs.at(variant, problem)
        inside = findings.in_kernel.get(cell.id) if cell else None
        if inside and inside.blocks:
            block, title = inside.blocks[0], f"{variant.label}, a third into it"
            panels.append(_panel(_working(inside), block, _close_up(inside, block), colours, title))
    drawn = [panel for panel in panels if panel is not None]
    if not drawn:
        return None
    keys = [
        symbol_handle(words(activity), phase_colour(place), "s")
        for activity, place in colours.items()
        if any((panel.bars["phase"] == place).any() for panel in drawn) and place != _GREY
    ]
    figure = timeline_figure(drawn, keys=keys, row_in=_LOW_ROW_IN)
    reading = (
        f"At {problem.name}: each warpgroup of one block that computes, and below it what it has "
        "under way, in the colour of what begins it; waiting is grey."
    )
    return make_chart("first", "What the warpgroups do", reading, figure)


def _working(inside: InKernelFindings) -> InKernelFindings:
    """The warpgroups that have operations under way; all where none has."""
    groups = inside.under_way["group"].unique()
    stamps = inside.stamps
    spans = stamps.spans[stamps.spans["group"].isin(groups)]
    return replace(inside, stamps=replace(stamps, spans=spans)) if len(groups) else inside


def _close_up(inside: InKernelFindings, block: int) -> tuple[float, float]:
    """A window a third into it that holds a few activities of the busiest warpgroup.

    Not in the middle, where a persistent kernel goes from the first tile on to the second.
    """
    spans = inside.spans_in_window(block)
    if spans.empty:
        return inside.window(block)
    busiest = spans[spans["group"] == spans["group"].value_counts().idxmax()]
    first = max(len(busiest) // 3 - _SHOWN_ACTIVITIES // 2, 0)
    shown_activities = busiest.iloc[first : first + _SHOWN_ACTIVITIES]
    return float(shown_activities["start_ns"].min()), float(shown_activities["end_ns"].max())


def _panel(
    inside: InKernelFindings,
    block: int,
    window: tuple[float, float],
    colours: Mapping[str, int],
    title: str,
) -> TimelinePanel | None:
    bars, rows = _bars(inside, block, colours)
    start, end = int(window[0]), int(np.ceil(window[1]))
    shown_bars = drawn_bars(bars, (start, end), _PIXELS)
    if shown_bars.empty:
        return None
    caption = f"block {block}, {title}, from {numbers.show(float(start), 'ns')}"
    return TimelinePanel(title=caption, rows=rows, first=0, bars=shown_bars, window=(start, end))


def _bars(
    inside: InKernelFindings, block: int, colours: Mapping[str, int]
) -> tuple[pd.DataFrame, tuple[PictureRow, ...]]:
    """Bars of a block and its rows: each warpgroup, and below it each of its operations."""
    rows: list[PictureRow] = []
    parts = []
    spans = inside.stamps.spans[inside.stamps.spans["block"] == block]
    operations = inside.under_way[inside.under_way["block"] == block]
    for group, name in inside.stamps.groups.items():
        of_row = spans[spans["group"] == group]
        if of_row.empty:
            continue
        names = of_row["activity"].map(words)
        parts.append(
            of_row[["start_ns", "end_ns"]].assign(
                name=names,
                short=names,
                row=len(rows),
                phase=[colours.get(activity, _GREY) for activity in of_row["activity"]],
            )
        )
        rows.append((GPU, name))
        of_group = operations[operations["group"] == group]
        for operation in inside.stamps.operations:
            times = of_group.loc[of_group["operation"] == operation.name, ["start_ns", "end_ns"]]
            if len(times):
                phase = colours.get(operation.begins, _GREY)
                parts.append(times.assign(name="", short="", row=len(rows), phase=phase))
                rows.append((GPU, f"{operation.name} under way"))
    empty = pd.DataFrame(columns=["start_ns", "end_ns", "name", "short", "row", "phase"])
    return (pd.concat(parts, ignore_index=True) if parts else empty), tuple(rows)


# ---- tables --------------------------------------------------------------------------------------


def _activity_table(name: str, inside: InKernelFindings) -> SmallTable:
    columns: tuple[Column[ActivityShare], ...] = (
        text_column("warpgroup", lambda share: inside.stamps.groups[share.group]),
        Column(
            "times",
            lambda share: Datum(str(share.count), str(share.count)),
            "In the blocks that were recorded",
        ),
        Column("median", lambda share: Datum.quantity(share.median_ns, "ns", "")),
        Column(
            "share of time",
            lambda share: _share_datum(share.time_share),
            "Of the time in which all warpgroups of the block were recorded",
        ),
        Column(
            "own under way",
            lambda share: _share_datum(share.with_own_operations),
            "Share of its time with an operation of this warpgroup under way",
        ),
        Column(
            "others' under way",
            lambda share: _share_datum(share.with_other_operations),
            "The same, of another warpgroup of the block",
        ),
    )
    return SmallTable.of(
        f"{name}: activities of each warpgroup",
        "activity",
        columns,
        inside.activity_shares,
        lambda share: Row(words(share.activity)),
    )


def _overlap_table(
    recorded: Sequence[InKernelFindings], names: dict[str, str], marks: dict[str, int]
) -> SmallTable | None:
    """Share of time by the number of warpgroups with operations under way, cells as rows."""
    most = max(len(inside.operation_shares) for inside in recorded)
    if not most:
        return None
    return SmallTable.of(
        "Warpgroups of the block at once, by whether operations of theirs were under way",
        "variant",
        list(map(_overlap_column, range(most))),
        [inside for inside in recorded if inside.operation_shares],
        lambda inside: Row(names[inside.cell], mark=marks[inside.cell]),
    )


def _overlap_column(count: int) -> Column[InKernelFindings]:
    def share(inside: InKernelFindings) -> Datum:
        shares = inside.operation_shares
        return _share_datum(shares[count] if count < len(shares) else math.nan)

    return Column(f"of {count}" if count else "of none", share)


def _share_datum(share: float) -> Datum:
    if numbers.is_missing(share):
        return Datum()
    return Datum(numbers.share(share), numbers.raw(share))
