"""Imported timelines as a page and on the console: pictures, summaries, ranges, gaps, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType

from profiler.findings.timelines.cells import TimelineFindings
from profiler.findings.timelines.overview import TimelineOverview
from profiler.notices import counted_kind
from profiler.render.console.terminal import Paragraph, TextTable
from profiler.render.html import render
from profiler.render.tables.rows import Datum, Row
from profiler.render.timeline.section import make_section
from profiler.render.timeline.timeline_tables import NamedTimeline, NamedTimelines
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_OF_THE_HOST = {"of the category python_function", "of the category cpu_instant_event"}
"""Events that are not read and are none of an accelerator: stacks of Python, and its memory."""
_NAMED_KINDS = 4
"""Kinds of events that were not read, in a sentence."""
MOST_ROWS = 500
"""Rows of a table of the page; a document has the rest."""
_MOST_OF_GROUP = 5
_MOST_LINES = 15
_LONGEST_NAME = 60
_LONGEST_ON_PAGE = 160
_INDENT = "  "


@dataclass(frozen=True)
class Column:
    """One column of numbers: its key in the frame, its head, its unit, what it means."""

    key: str
    head: str
    unit: str = ""
    hint: str = ""
    console: bool = True
    """Whether the console has room for it."""


@dataclass(frozen=True)
class TimelineTable:
    """One table of a timeline; `left_out`: rows without room."""

    id: str
    title: str
    reading: str
    heads: tuple[str, ...]
    """Heads of the columns of names and texts, which stand before the numbers of `columns`."""
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    left_out: int


@dataclass(frozen=True)
class TimelinePart:
    """Tables of one file, with its sentence."""

    file: str
    sentence: str
    tables: tuple[TimelineTable, ...]


_SUMMARY = (
    Column("time_pct", "time", "%", "Percent of the total of this table"),
    Column("total_ns", "total", "ns"),
    Column("instances", "instances"),
    Column("avg_ns", "average", "ns"),
    Column("med_ns", "median", "ns"),
    Column("min_ns", "shortest", "ns", console=False),
    Column("max_ns", "longest", "ns", console=False),
    Column("stddev_ns", "standard deviation", "ns", "Of a sample", console=False),
)
_TREE = (
    Column("instances", "instances"),
    Column("host_ns", "host", "ns", "How long its ranges were open on the host, together"),
    Column("operations", "operations", "", "Kernels, copies and memsets inside, at any depth"),
    Column("gpu_ns", "GPU, inclusive", "ns", "Durations of all operations inside, added"),
    Column("self_gpu_ns", "GPU, exclusive", "ns", "Without what lies in a range further in"),
    Column("busy_ns", "busy", "ns", "Time in which at least one of them ran", console=False),
    Column("idle_ns", "idle", "ns", "Between its first and last operation, nothing ran at all"),
    Column(
        "by_time",
        "by time",
        "",
        "Operations that another thread launched while the range was open on the main thread",
        console=False,
    ),
)
_TREE_ON_CPU = tuple(
    replace(
        column,
        head=column.head.replace("GPU", "CPU").replace("operations", "operators"),
        hint=column.hint.replace("Kernels, copies and memsets", "Operators"),
    )
    for column in _TREE
)
_MEMBERS = (
    *_TREE[:3],
    Column("gpu_ns", "GPU", "ns", "Durations of all operations inside, added"),
)
_GAPS = (
    Column("idle_ns", "idle", "ns", "How long the device ran nothing"),
    Column("start_ns", "at", "ns", "Since the first event of the file"),
    Column("device", "device", console=False),
)
_LATENCY = (
    Column("launches", "launches", "", "Calls; of a graph only its first node has a latency"),
    Column("avg_ns", "average", "ns"),
    Column("med_ns", "median", "ns"),
    Column("min_ns", "shortest", "ns", console=False),
    Column("max_ns", "longest", "ns"),
)
_LATE = {True: "launched late", False: "queued in time"}


def timeline_part(
    file: str, tool: str, overview: TimelineOverview, unread: Mapping[str, int]
) -> TimelinePart:
    """Tables of one timeline that hold something.

    `tool` with its version, for the sentence; `unread`: events that were left out, by what they
    are.
    """
    tables = (
        _summary_table("kernels", "Kernels", "As nsys stats sums them up.", overview.kernels),
        _summary_table(
            "others",
            "Copies and memsets" if overview.on_gpu else "Operators on the CPU",
            "",
            overview.others,
        ),
        _tree_table(overview.ranges, overview.on_gpu),
        _member_table(overview.members),
        _gap_table(overview.gaps, overview.on_gpu),
        _latency_table(overview.latency),
        _summary_table(
            "calls",
            _calls_title(overview.api),
            "Time on the host. Calls that wait for the GPU are long.",
            overview.api,
            "call",
        ),
    )
    return TimelinePart(
        file,
        f"{_sentence(tool, overview, unread)}{_unread_sentence(unread)}",
        tuple(table for table in tables if table.rows),
    )


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


def _summary_table(
    key: str, title: str, reading: str, frame: pd.DataFrame, first: str = "operation"
) -> TimelineTable:
    rows = _rows(frame, _SUMMARY)
    return TimelineTable(key, title, reading, (first,), _SUMMARY, rows, len(frame) - len(rows))


def _tree_table(frame: pd.DataFrame, on_gpu: bool) -> TimelineTable:
    reading = (
        "GPU time of the operations that were launched inside each range."
        if on_gpu
        else "CPU time of the operators that began inside each range."
    )
    rows = [
        replace(
            _row(row["name"], (str(row["domain"] or "default"),), row, _TREE),
            depth=int(row["depth"]) - 1,
        )
        for row in _records(frame)
    ]
    columns, left_out = _TREE if on_gpu else _TREE_ON_CPU, len(frame) - len(rows)
    return TimelineTable("ranges", "Ranges", reading, ("range", "domain"), columns, rows, left_out)


def _member_table(frame: pd.DataFrame) -> TimelineTable:
    shown = frame.groupby("group", sort=False).head(_MOST_OF_GROUP)
    reading = (
        "Single names of the rows with a star, or without their identifiers, above: those with the "
        "most GPU time of each."
    )
    rows = [_row(row["name"], (_word(row["group"]),), row, _MEMBERS) for row in _records(shown)]
    heads, left_out = ("name", "in"), len(frame) - len(rows)
    title = "Ranges of the groups"
    return TimelineTable("members", title, reading, heads, _MEMBERS, rows, left_out)


def _gap_table(frame: pd.DataFrame, on_gpu: bool) -> TimelineTable:
    total = numbers.show(float(frame["idle_ns"].sum()), "ns")
    idle = "a device ran nothing" if on_gpu else "no operator ran"
    reading = (
        f"{len(frame)} stretches between two operations in which {idle}, {total} together; the "
        "longest first."
    )
    rows = []
    for row in _records(frame):
        name = f"{_name(row['before_name'])} \N{RIGHTWARDS ARROW} {_name(row['after_name'])}"
        late = (_late(row["host_late"]),) if on_gpu else ()
        rows.append(_row(name, (_word(row["range"]), *late), row, _GAPS))
    heads = ("between", "range", *(("launch",) if on_gpu else ()))
    return TimelineTable("gaps", "Idle gaps", reading, heads, _GAPS, rows, len(frame) - len(rows))


def _latency_table(frame: pd.DataFrame) -> TimelineTable:
    reading = (
        "From the beginning of the launching call to the start on the GPU; work that is queued "
        "behind other work waits, too."
    )
    rows = _rows(frame, _LATENCY)
    heads, left_out = ("operation",), len(frame) - len(rows)
    return TimelineTable("latency", "Launch latency", reading, heads, _LATENCY, rows, left_out)


def _records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows that the page has room for."""
    return frame.head(MOST_ROWS).to_dict("records")


def _rows(frame: pd.DataFrame, columns: Sequence[Column]) -> list[Row]:
    return [_row(row["name"], (), row, columns) for row in _records(frame)]


def _row(
    name: object, texts: Sequence[str], row: Mapping[Any, Any], columns: Sequence[Column]
) -> Row:
    """Name as the page has room for; that of a templated kernel can fill a screen."""
    full = _name(name)
    shown = shorten(full, _LONGEST_ON_PAGE)
    data = (*(Datum(text, css="words") for text in texts), *_data(row, columns))
    return Row(shown, data, note=full if shown != full else "")


def _name(value: object) -> str:
    return _word(value) if _word(value) != numbers.MISSING else "without a name"


def _word(value: object) -> str:
    return value if isinstance(value, str) and value else numbers.MISSING


def _late(value: object) -> str:
    return numbers.MISSING if pd.isna(value) else _LATE[bool(value)]  # type: ignore[call-overload]


def _data(row: Mapping[Any, Any], wanted: Sequence[Column]) -> tuple[Datum, ...]:
    return tuple(
        Datum.quantity(
            None if pd.isna(row[column.key]) else float(row[column.key]),
            column.unit,
            "there is none",
        )
        for column in wanted
    )


def render_timelines_page(parts: Sequence[TimelinePart], timelines: TimelineFindings) -> str:
    """Render imported timelines as HTML: pictures and phases, then the tables of every file."""
    data = {"parts": list(parts), "timeline": _pictures(timelines), "timeline_files": ()}
    return render("import_timeline.html", data)


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


def timelines_console(parts: Sequence[TimelinePart]) -> RenderableType:
    """Show imported timelines on the console: the first rows of every table."""
    shown: list[RenderableType] = []
    for part in parts:
        shown.append(Paragraph(f"{part.file}: {part.sentence}"))
        shown += [_console_table(table) for table in part.tables]
    return Group(*shown)


def _console_table(timeline_table: TimelineTable) -> RenderableType:
    places = [place for place, column in enumerate(timeline_table.columns) if column.console]
    first, *text_heads = timeline_table.heads
    count = len(text_heads)
    shown = TextTable(timeline_table.title)
    shown.add_columns(first, name=True)
    shown.add_columns(*text_heads, drop=1)
    for number, place in enumerate(places):
        shown.add_columns(timeline_table.columns[place].head, right=True, drop=number)
    for row in timeline_table.rows[:_MOST_LINES]:
        name = _INDENT * row.depth + shorten(row.name, _LONGEST_NAME)
        texts = (shorten(datum.text, _LONGEST_NAME) for datum in row.data[:count])
        shown.add_row(name, *texts, *(row.data[count + place].text for place in places))
    shown.add_rest_caption(
        max(0, len(timeline_table.rows) - _MOST_LINES) + timeline_table.left_out,
        "row",
    )
    return shown
