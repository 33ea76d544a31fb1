"""Imported timelines: pictures, then of each file its summaries, ranges, gaps, latency, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from profiler.findings.timelines.cells import TimelineFindings
from profiler.findings.timelines.overview import TimelineOverview
from profiler.notices import counted, counted_kind
from profiler.render.imported import ImportedPage, ImportedSection
from profiler.render.tables.rows import (
    PAGE_ONLY,
    FrameRow,
    Row,
    SmallTable,
    frame_column,
    frame_table,
    frame_text,
    name_of,
)
from profiler.render.timeline.section import make_section
from profiler.render.timeline.timeline_tables import (
    NamedTimeline,
    latency_table,
    range_table,
    summary_table,
)
from profiler.render.words import numbers

_OF_THE_HOST = {"of the category python_function", "of the category cpu_instant_event"}
"""Events that are not read and are none of an accelerator: stacks of Python, and its memory."""
_NAMED_KINDS = 4
"""Kinds of events that were not read, in a sentence."""
MOST_ROWS = 500
"""Rows of a table of the page; a document has the rest."""
_MOST_OF_GROUP = 5
_LATE = {True: "launched late", False: "queued in time"}
_BY_TIME = frame_column(
    "by time",
    "by_time",
    hint="Operations that another thread launched while the range was open on the main thread",
    drop=PAGE_ONLY,
)


def timelines_page(
    sections: Sequence[ImportedSection], timelines: TimelineFindings
) -> ImportedPage:
    """Pictures and phases, then the tables of every file."""
    several = "" if len(sections) == 1 else "s"
    return ImportedPage(
        lead=f"Timeline{several} of GPU work: what ran, when nothing ran, and which ranges "
        "launched it.",
        sections=tuple(sections),
        pictures=_pictures(timelines),
    )


def _pictures(timelines: TimelineFindings) -> dict[str, Any] | None:
    """Pictures of timelines; of their tables only those that the files' own do not have."""
    cells = tuple(
        NamedTimeline(timeline.cell, "", mark, timeline)
        for mark, timeline in enumerate(timelines.cells)
    )
    section = make_section(cells, timelines)
    if section is None:
        return None
    pictures = [cell | {"tables": ()} for cell in section["cells"]]
    return section | {"cells": pictures, "calls": None}


def timeline_section(
    file: str, tool: str, overview: TimelineOverview, unread: Mapping[str, int]
) -> ImportedSection:
    """Tables of one timeline that hold something.

    `tool` with its version, for the sentence; `unread`: events that were left out, by what they
    are.
    """
    device = "GPU" if overview.on_gpu else "CPU"
    tables: tuple[SmallTable | None, ...] = (
        summary_table("Kernels", "operation", overview.kernels, MOST_ROWS),
        summary_table(
            "Copies and memsets" if overview.on_gpu else "Operators on the CPU",
            "operation",
            overview.other_operations,
            MOST_ROWS,
        ),
        range_table("Ranges", overview.ranges, device, MOST_ROWS, (_BY_TIME,)),
        _member_table(overview.members),
        _gap_table(overview.gaps, overview.on_gpu),
        latency_table(overview.latency, MOST_ROWS),
        summary_table(_calls_title(overview.api), "call", overview.api, MOST_ROWS),
    )
    return ImportedSection(
        file,
        tuple(
            replace(table, elsewhere="; --json has them")
            for table in tables
            if table and table.lines
        ),
        sentence=f"{_sentence(tool, overview, unread)}{_unread_sentence(unread)}",
    )


def _unread_sentence(unread: Mapping[str, int]) -> str:
    if not unread:
        return ""
    kinds = [counted_kind(count, kind) for kind, count in unread.items()]
    kind_names = ", ".join(kinds[:_NAMED_KINDS]) + (", …" if len(kinds) > _NAMED_KINDS else "")
    return f" Not read: {kind_names}."


def _calls_title(api: pd.DataFrame) -> str:
    names = [str(name) for name in api["name"].dropna()]
    if names and all(name.startswith("hip") for name in names):
        return "HIP calls"
    return "CUDA calls" if all(name.startswith("cu") for name in names) else "Calls"


def _sentence(tool: str, overview: TimelineOverview, unread: Mapping[str, int]) -> str:
    hidden = unread.keys() - _OF_THE_HOST  # what may have run on a GPU
    if overview.span_ns is None and overview.busy_ns is None:
        return f"Sums of {tool}, which do not say when anything ran."
    if overview.span_ns is None:
        done = "read" if hidden else "recorded"
        return f"Recorded by {tool}. No kernel, copy or memset was {done}."
    span = numbers.show(overview.span_ns, "ns")
    if not overview.on_gpu:
        without = "; no operation of a GPU was read" if hidden else ", without a GPU"
        operators = counted(overview.operations or 0, "operator")
        return f"Recorded by {tool}{without}. {operators} within {span} on the CPU."
    devices = "the device was" if overview.devices == 1 else f"the {overview.devices} devices were"
    busy = f"; {devices} busy for {numbers.share(overview.busy_share)} of that time"
    operations = counted(overview.operations or 0, "operation")
    return f"Recorded by {tool}. {operations} within {span}{busy if overview.span_ns else ''}."


def _member_table(frame: pd.DataFrame) -> SmallTable:
    shown_members = frame.groupby("group", sort=False).head(_MOST_OF_GROUP)
    columns = (
        frame_text("in", "group"),
        frame_column("instances", "instances"),
        frame_column("host", "host_ns", "ns", "How long its ranges were open, together"),
        frame_column("operations", "operations", hint="Inside, at any depth"),
        frame_column("GPU", "gpu_ns", "ns", "Durations of all operations inside, added"),
    )
    reading = (
        "Single names of the rows with a star, or without their identifiers, above: those with the "
        "most GPU time of each."
    )
    table = frame_table(
        "Ranges of the groups", "name", columns, shown_members, MOST_ROWS, reading=reading
    )
    return replace(table, left_out=len(frame) - len(table.lines))


def _gap_table(frame: pd.DataFrame, on_gpu: bool) -> SmallTable:
    total = numbers.show(float(frame["idle_ns"].sum()), "ns")
    idle = "a device ran nothing" if on_gpu else "no operator ran"
    late = frame["host_late"].map(_LATE)  # missing where its launch is not known
    columns = (
        frame_text("range", "range"),
        *((frame_text("launch", "late"),) * on_gpu),
        frame_column("idle", "idle_ns", "ns", "How long the device ran nothing"),
        frame_column("at", "start_ns", "ns", "Since the first event of the file"),
        frame_column("device", "device", drop=PAGE_ONLY),
    )
    return frame_table(
        "Idle gaps",
        "between",
        columns,
        frame.assign(late=late),
        MOST_ROWS,
        head_row=_gap_row,
        reading=f"{len(frame)} stretches between two operations in which {idle}, {total} together; "
        "the longest first.",
    )


def _gap_row(row: FrameRow) -> Row:
    return Row(f"{name_of(row['before_name'])} \u2192 {name_of(row['after_name'])}")
