"""Launches of source pages: where warps could not issue, and what was executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from profiler.analyse.why.sass_code import executed_by_class
from profiler.analyse.why.waited_for import by_wait
from profiler.findings.json_model import json_value
from profiler.findings.why.hot_lines import HotLine, ListedKernel, file_name, hot_lines
from profiler.importers.importer import Imported, notices_document
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice
from profiler.parse.ncu_source import Listing

MOST_LINES = 20


@dataclass(frozen=True, eq=False)
class ImportedSource(Imported):
    """Launches of one or several source pages."""

    shows: ClassVar[str] = (
        "of each launch the 20 lines with the most samples in which the warp could not issue, what "
        "it waited for, and executed warp instructions by class"
    )
    kernels: tuple[ListedKernel, ...]
    notices: tuple[Notice, ...]

    def document(self) -> dict[str, Any]:
        """The launches as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kernels": kernels_document(self.kernels),
            "warnings": notices_document(self.notices),
        }


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
