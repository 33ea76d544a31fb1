"""Imported files: an answer and tables, which the page and the console show in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from profiler.findings.why.hot_lines import HotLine, ListedKernel
from profiler.model import TunedConfig
from profiler.notices import Notice, counted
from profiler.render.console.tables import SmallTextTable, answer_lines
from profiler.render.console.terminal import Paragraph
from profiler.render.figures.charts import Chart
from profiler.render.html import notice_rows, render
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, text_column
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
