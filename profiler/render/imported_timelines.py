"""Imported timelines: pictures, then of each file its summaries, ranges, gaps, latency, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from profiler.findings.timelines.cells import TimelineFindings
from profiler.findings.timelines.overview import TimelineOverview
from profiler.notices import counted_kind
from profiler.render.imported import ImportedPage, ImportedSection
from profiler.render.tables.rows import Datum, Row, SmallTable
from profiler.render.timeline.section import make_section
from profiler.render.timeline.timeline_tables import (
    NamedTimeline,
    NamedTimelines,
    RangeColumn,
    latency_table,
    name_of,
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
_BY_TIME = RangeColumn(
    "by time",
    "Operations that another thread launched while the range was open on the main thread",
    "by_time",
    "",
    "there is none",
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
    section = make_section(NamedTimelines(cells, timelines))
    if section is None:
        return None
    pictures = [replace(cell, tables=()) for cell in section["cells"]]
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
        _summary(overview.kernels, "Kernels", "operation"),
        _summary(
            overview.others,
            "Copies and memsets" if overview.on_gpu else "Operators on the CPU",
            "operation",
        ),
        range_table(overview.ranges, "Ranges", device, MOST_ROWS, (_BY_TIME,)),
        _member_table(overview.members),
        _gap_table(overview.gaps, overview.on_gpu),
        latency_table(overview.latency, MOST_ROWS),
        _summary(overview.api, _calls_title(overview.api), "call"),
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


def _summary(frame: pd.DataFrame, caption: str, first: str) -> SmallTable:
    rows = frame.head(MOST_ROWS).to_dict("records")
    return summary_table(rows, caption, first, len(frame) - len(rows))


def _unread_sentence(unread: Mapping[str, int]) -> str:
    if not unread:
        return ""
    kinds = [counted_kind(count, what) for what, count in unread.items()]
    named = ", ".join(kinds[:_NAMED_KINDS]) + (", …" if len(kinds) > _NAMED_KINDS else "")
    return f" Not read: {named}."


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
        return (
            f"Recorded by {tool}{without}. {overview.operations} operators within {span} on "
            "the CPU."
        )
    count = overview.operations
    operations = f"{count} operation{'' if count == 1 else 's'}"
    devices = "the device was" if overview.devices == 1 else f"the {overview.devices} devices were"
    return (
        f"Recorded by {tool}. {operations} within {span}; {devices} busy for "
        f"{numbers.show(100 * overview.busy_share, '%')} of that time."
    )


def _member_table(frame: pd.DataFrame) -> SmallTable:
    shown = frame.groupby("group", sort=False).head(_MOST_OF_GROUP).head(MOST_ROWS)
    lines = (
        Row(
            name_of(row["name"]),
            (
                Datum(name_of(row["group"]), css="words"),
                _quantity(row["instances"], ""),
                _quantity(row["host_ns"], "ns"),
                _quantity(row["operations"], ""),
                _quantity(row["gpu_ns"], "ns"),
            ),
        )
        for row in shown.to_dict("records")
    )
    return SmallTable(
        caption="Ranges of the groups",
        first="name",
        heads=(
            ("in", ""),
            ("instances", ""),
            ("host", "How long its ranges were open on the host, together"),
            ("operations", "Kernels, copies and memsets inside, at any depth"),
            ("GPU", "Durations of all operations inside, added"),
        ),
        lines=tuple(lines),
        left_out=len(frame) - len(shown),
        text_heads=("in",),
        long_names=True,
        reading="Single names of the rows with a star, or without their identifiers, above: those "
        "with the most GPU time of each.",
    )


def _gap_table(frame: pd.DataFrame, on_gpu: bool) -> SmallTable:
    total = numbers.show(float(frame["idle_ns"].sum()), "ns")
    idle = "a device ran nothing" if on_gpu else "no operator ran"
    lines = (
        Row(
            f"{name_of(row['before_name'])} \N{RIGHTWARDS ARROW} {name_of(row['after_name'])}",
            (
                Datum(_word(row["range"]), css="words"),
                *((Datum(_late(row["host_late"]), css="words"),) * on_gpu),
                _quantity(row["idle_ns"], "ns"),
                _quantity(row["start_ns"], "ns"),
                _quantity(row["device"], ""),
            ),
        )
        for row in frame.head(MOST_ROWS).to_dict("records")
    )
    return SmallTable(
        caption="Idle gaps",
        first="between",
        heads=(
            ("range", ""),
            *((("launch", ""),) * on_gpu),
            ("idle", "How long the device ran nothing"),
            ("at", "Since the first event of the file"),
            ("device", ""),
        ),
        lines=tuple(lines),
        left_out=max(0, len(frame) - MOST_ROWS),
        text_heads=("range", "launch"),
        long_names=True,
        reading=f"{len(frame)} stretches between two operations in which {idle}, {total} together; "
        "the longest first.",
        page_only=("device",),
    )


def _word(value: object) -> str:
    return value if isinstance(value, str) and value else numbers.MISSING


def _late(value: object) -> str:
    return numbers.MISSING if pd.isna(value) else _LATE[bool(value)]  # type: ignore[call-overload]


def _quantity(value: Any, unit: str) -> Datum:
    return Datum.quantity(None if pd.isna(value) else float(value), unit, "there is none")
