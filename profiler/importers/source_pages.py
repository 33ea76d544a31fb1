"""`profiler import` of source pages of ncu: where warps could not issue, and what was executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.analyse.safe_frames import safe_frames
from profiler.analyse.why.sass_classes import executed_by_class
from profiler.analyse.why.waited_for import by_wait
from profiler.errors import ParseError, UsageError
from profiler.findings.why.hot_lines import HotLine, ListedKernel, file_name, hot_lines
from profiler.importers.file_heads import head
from profiler.importers.json_values import json_value
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice, severity, text
from profiler.parse.ncu_source import Listing, is_source_page, read_source_page

MOST_LINES = 20


@dataclass(frozen=True, eq=False)
class ImportedSource:
    """Launches of one or several source pages."""

    kernels: tuple[ListedKernel, ...]
    notices: tuple[Notice, ...]


def read_source_pages(files: Sequence[Path]) -> ImportedSource | None:
    """Launches of source pages, packed by gzip or not; None where no file is one.

    Raises UsageError where only some are, ParseError where one cannot be read.
    """
    pages = [file for file in files if is_source_page(head(file))]
    if not pages:
        return None
    if len(pages) < len(files):
        other = next(file for file in files if file not in pages)
        raise UsageError(
            f"{pages[0].name} is a source page, and {other.name} is none.",
            remedy="Import source pages and files of other kinds one kind at a time.",
        )
    kernels: list[ListedKernel] = []
    notices: list[Notice] = []
    for file in files:
        page = read_source_page(file)
        notices += page.notices
        if not page.listings:
            raise ParseError(
                f"{file.name}: a source page without instructions",
                remedy="Print it with --print-source sass or cuda,sass.",
            )
        kernels += listed_kernels(file.name, page.listings)
    return safe_frames(ImportedSource(tuple(kernels), tuple(notices)))


def listed_kernels(file: str, listings: Sequence[Listing]) -> tuple[ListedKernel, ...]:
    """Hottest lines and executed instructions of each listing; `file` is where they stand."""
    return tuple(
        ListedKernel(
            file=file,
            kernel=listing.kernel,
            has_lines=listing.has_lines,
            lines=hot_lines(by_wait(listing.instructions), MOST_LINES),
            executed={str(k): float(v) for k, v in executed_by_class(listing).dropna().items()},
        )
        for listing in listings
    )


def source_document(imported: ImportedSource) -> dict[str, Any]:
    """The launches as JSON; a value that is absent is null, never 0."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kernels": kernels_document(imported.kernels),
        "warnings": [
            {"kind": n.kind.value, "severity": severity(n).value, "text": text(n)}
            for n in imported.notices
        ],
    }


def kernels_document(kernels: Sequence[ListedKernel]) -> list[dict[str, Any]]:
    """Launches of source pages as JSON."""
    return [
        {
            "file": kernel.file,
            "kernel": kernel.kernel,
            "lines": [_line(line) for line in kernel.lines],
            "executed": {name: json_value(count) for name, count in kernel.executed.items()},
        }
        for kernel in kernels
    ]


def _line(line: HotLine) -> dict[str, Any]:
    return {
        "file": None if line.file is None else file_name(line.file),
        "line": line.line,
        "text": line.text,
        "samples_not_issued": json_value(line.samples),
        "share": json_value(line.share),
        "reason": line.reason or None,
        "executed": json_value(line.executed),
    }
