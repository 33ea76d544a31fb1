"""Imported files: an answer and tables, which the page and the console show in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType

from profiler.findings.timelines.cells import TimelineFindings
from profiler.findings.timelines.overview import TimelineOverview
from profiler.findings.why.hot_lines import HotLine, ListedKernel
from profiler.model import TunedConfig
from profiler.notices import Notice, counted, counted_kind
from profiler.render.console.tables import SmallTextTable, answer_lines
from profiler.render.console.terminal import Paragraph
from profiler.render.figures.charts import Chart
from profiler.render.html import notice_rows, render
from profiler.render.tables.rows import (
    PAGE_ONLY,
    Column,
    Datum,
    FrameRow,
    Row,
    SmallTable,
    frame_column,
    frame_table,
    frame_text,
    name_of,
    text_column,
)
from profiler.render.timeline.section import make_section
from profiler.render.timeline.timeline_tables import (
    NamedTimeline,
    latency_table,
    range_table,
    summary_table,
)
from profiler.render.tuning import MOST_CONFIGS, tuning_tables
from profiler.render.words import numbers
from profiler.render.words.names import readable_kernel, shorten
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.why import waited_for

MISSING = "not in the file"


@dataclass(frozen=True)
class ImportedSection:
    """Tables under a title."""

    title: str
    tables: tuple[SmallTable, ...]
    sentence: str = ""
    id: str = ""
    is_code: bool = False
    """Whether the title is the name of a kernel or operation."""
    folded: bool = False
    """Whether each of its tables opens when it is asked for; a terminal has none of them."""


@dataclass(frozen=True)
class ImportedPage:
    """Page on imported files of one kind: lead, sections, answer and chart."""

    lead: str
    sections: tuple[ImportedSection, ...]
    answer: Sentence = ()
    chart: Chart | None = None
    pictures: Mapping[str, Any] | None = None
    """Parts of the section of timelines."""
    left_out: str = ""
    """Sentence on rows that the page has no room for; empty where it has all."""


def render_imported(
    page: ImportedPage,
    files: Sequence[str],
    notices: Sequence[Notice] = (),
    *,
    account: str = "",
    csv: str = "",
) -> str:
    """Render imported files as HTML; `files` are names without folders.

    `account`: text on what two files differ by; `csv`: name of a file beside the page with all
    that the page has no room for, empty where there is none.
    """
    parts = {
        "shown": page,
        "files": list(files),
        "notice_rows": notice_rows(notices),
        "account": account,
        "csv": csv,
        "timeline": page.pictures,
        "timeline_files": (),
    }
    return render("imported.html", parts)


def imported_text(page: ImportedPage) -> RenderableType:
    """The answer and the first rows of the tables, for a terminal."""
    parts: list[RenderableType] = [answer_lines([page.answer])]
    for section in page.sections:
        if section.folded:
            continue
        if section.sentence:
            parts.append(Paragraph(f"{section.title}: {section.sentence}"))
        elif len(section.tables) > 1:
            parts.append(Paragraph(section.title, "bold"))
        parts += map(SmallTextTable, section.tables)
    return Group(*parts)


# ---- configurations that an autotuner tried ------------------------------------------------------


def tunings_page(tuned: Sequence[TunedConfig]) -> ImportedPage:
    """Every configuration of logs and caches of autotuners."""
    tables = tuning_tables(tuned)
    operations = len({candidate.operation for candidate in tuned})
    return ImportedPage(
        lead=f"{counted(len(tuned), 'configuration')} that an autotuner tried "
        f"for {counted(operations, 'operation')}, fastest first. Times are its "
        "own: a few launches each, without intervals and not comparable with those of ncu.",
        sections=tuple(ImportedSection(t.caption, (t,), is_code=True) for t in tables),
        left_out=first_of(MOST_CONFIGS, len(tuned), "configurations"),
    )


def first_of(most: int, count: int, things: str) -> str:
    """Sentence on things that have no room; empty where all have."""
    return f"The first {most:,} of {count:,} {things} are listed" if count > most else ""


# ---- launches whose instructions were counted ----------------------------------------------------


MOST_KERNELS = 200
"""Kernels that a page or the console lists, each with up to twenty lines; a document has all."""
_LONGEST_TEXT, _LONGEST_KERNEL = 60, 90


def source_sections(kernels: Sequence[ListedKernel]) -> tuple[ImportedSection, ...]:
    """A section for each of the first kernels."""
    return tuple(
        ImportedSection(
            title=readable_kernel(kernel.kernel),
            tables=tuple(table for table in (_hot_lines(kernel), _classes(kernel)) if table.lines),
            sentence="" if kernel.lines else "no samples in which a warp could not issue.",
            is_code=True,
        )
        for kernel in kernels[:MOST_KERNELS]
    )


def source_sentence(kernels: Sequence[ListedKernel]) -> Sentence:
    """Where most samples could not issue, of all kernels; empty without samples."""
    lines = [
        (line.samples, kernel, line)
        for kernel in kernels
        for line in kernel.lines
        if line.samples > 0
    ]
    if not lines:
        return ()
    _, kernel, line = max(lines, key=lambda row: row[0])
    where = line.place or shorten(line.text, _LONGEST_TEXT)
    waits = f", which wait {waited_for(line.reason)}" if line.reason else ""
    return sentence_of(
        f"{strong(where)} has {strong(numbers.share(line.share))} of the samples without "
        f"issue of {shorten(readable_kernel(kernel.kernel), _LONGEST_KERNEL)}{waits}."
    )


def _hot_lines(kernel: ListedKernel) -> SmallTable:
    """Lines, or without line information instructions, with the most samples without issue."""
    caption = "Source lines"
    if not kernel.has_lines:
        caption = "Instructions (the kernel has no line information: nvcc -lineinfo)"
    columns: tuple[Column[HotLine], ...] = (
        *(
            (text_column("line", lambda line: line.place, css="code", without=""),)
            if kernel.has_lines
            else ()
        ),
        Column(
            "not issued",
            lambda line: _number(100 * line.share, "%"),
            "Share of the kernel's samples in which the warp could not issue",
        ),
        Column(
            "samples",
            lambda line: _number(line.samples),
            "Samples in which the warp could not issue",
        ),
        Column("executed", lambda line: _number(line.executed), "Warp instructions"),
        text_column(
            "waits",
            lambda line: waited_for(line.reason),
            "What most of these samples waited for",
        ),
    )
    return SmallTable.of(
        "Where warps could not issue",
        "source" if kernel.has_lines else "instruction",
        columns,
        kernel.lines,
        lambda line: Row(line.text),
        long_names=True,
        reading=f"{caption} with the most samples in which the warp could not issue.",
    )


def _number(value: float, unit: str = "") -> Datum:
    return Datum.quantity(value, unit, MISSING)


def _classes(kernel: ListedKernel) -> SmallTable:
    total = sum(kernel.executed.values())
    columns: tuple[Column[tuple[str, float]], ...] = (
        Column("executed", lambda counted_class: _number(counted_class[1]), "Warp instructions"),
        Column("share", lambda counted_class: _number(100 * counted_class[1] / total, "%")),
    )
    counted = [counted_class for counted_class in kernel.executed.items() if counted_class[1] > 0]
    return SmallTable.of(
        "Executed warp instructions by class",
        "class",
        columns,
        counted,
        lambda counted_class: Row(counted_class[0].replace("_", " ")),
    )


# ---- timelines -----------------------------------------------------------------------------------


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
