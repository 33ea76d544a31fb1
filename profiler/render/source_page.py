"""Launches of ncu's source page, as a page and on the console: hot lines and executed classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from profiler.findings.why.hot_lines import HotLine, ListedKernel, file_name
from profiler.notices import Notice
from profiler.render.console.terminal import TextTable
from profiler.render.html import notice_rows, render
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.names import readable_kernel, shorten
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.why import waited_for

MOST_KERNELS = 200
"""Kernels that a page or the console lists, each with up to twenty lines; a document has all."""
_MISSING = "not in the file"
_LONGEST_TEXT, _LONGEST_KERNEL = 60, 90


@dataclass(frozen=True)
class ListedKernelRows:
    """Tables of one kernel."""

    kernel: str
    has_lines: bool
    lines: tuple[Row, ...]
    """Where a line stands, its share of the samples without issue, their number, executed warp
    instructions; its note is what it waits for."""
    classes: tuple[tuple[str, Datum, Datum], ...]
    """Class, executed warp instructions, their share."""


def render_source_page(
    kernels: Sequence[ListedKernel], notices: Sequence[Notice], files: Sequence[str]
) -> str:
    """Render imported source pages as HTML; `files` are names without folders."""
    parts = {
        "files": list(files),
        "answer": source_sentence(kernels),
        "notice_rows": notice_rows(notices),
        **listed_kernel_parts(kernels),
    }
    return render("source.html", parts)


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
        f"{strong(where)} has {strong(numbers.show(100 * line.share, '%'))} of the samples without "
        f"issue of {shorten(readable_kernel(kernel.kernel), _LONGEST_KERNEL)}{waits}."
    )


def listed_kernel_parts(kernels: Sequence[ListedKernel]) -> dict[str, object]:
    """What `source_kernels.html` shows."""
    return {
        "listed_kernels": _kernel_rows(kernels),
        "left_out_kernels": max(0, len(kernels) - MOST_KERNELS),
    }


def _kernel_rows(kernels: Sequence[ListedKernel]) -> tuple[ListedKernelRows, ...]:
    """Tables of the first kernels, in their order."""
    return tuple(
        ListedKernelRows(
            kernel=readable_kernel(kernel.kernel),
            has_lines=kernel.has_lines,
            lines=tuple(_line(line) for line in kernel.lines),
            classes=_classes(kernel),
        )
        for kernel in kernels[:MOST_KERNELS]
    )


def source_tables(kernels: Sequence[ListedKernel]) -> tuple[RenderableType, ...]:
    """Show hot lines and executed classes of each kernel on the console."""
    tables = [
        shown
        for kernel in _kernel_rows(kernels)
        for shown in (_line_table(kernel), _class_table(kernel))
    ]
    if tables:
        tables[-1].add_rest_caption(len(kernels) - MOST_KERNELS, "kernel", " in --json")
    return tuple(tables)


def _line(line: HotLine) -> Row:
    place = "" if line.file is None else f"{file_name(line.file)}:{line.line}"
    counts = (_share(line.share), _count(line.samples), _count(line.executed))
    return Row(line.text, (Datum(place, css="code"), *counts), note=waited_for(line.reason))


def _classes(kernel: ListedKernel) -> tuple[tuple[str, Datum, Datum], ...]:
    total = sum(kernel.executed.values())
    return tuple(
        (name.replace("_", " "), _count(count), _share(count / total))
        for name, count in kernel.executed.items()
        if count > 0
    )


def _share(value: float) -> Datum:
    return Datum.quantity(100 * value, "%", _MISSING)


def _count(value: float) -> Datum:
    return Datum.quantity(value, "", _MISSING)


def _line_table(kernel: ListedKernelRows) -> TextTable:
    shown = TextTable(shorten(kernel.kernel, _LONGEST_KERNEL))
    heads = ("line", "source") if kernel.has_lines else ("instruction",)
    shown.add_columns(*heads[:-1], fixed=True)
    shown.add_columns(heads[-1], name=True)
    shown.add_columns("not issued", right=True)
    shown.add_columns("samples", right=True, drop=2)
    shown.add_columns("executed", right=True, drop=3)
    shown.add_columns("waits", drop=1)
    for line in kernel.lines:
        place, *counts = (datum.text for datum in line.data)
        places = [place] if kernel.has_lines else []
        shown.add_row(*places, shorten(line.name, _LONGEST_TEXT), *counts, line.note)
    return shown


def _class_table(kernel: ListedKernelRows) -> TextTable:
    shown = TextTable("Executed warp instructions")
    shown.add_columns("class")
    shown.add_columns("executed", "share", right=True)
    for name, count, share in kernel.classes:
        shown.add_row(name, count.text, share.text)
    return shown
