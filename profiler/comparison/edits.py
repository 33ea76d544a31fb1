"""Source files that were edited between two runs, and the variants that this changed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from profiler.comparison.runs import ComparedRun

_MOST_LINES = 200
"""Lines of a diff that are kept: a page shows what was edited, and is no archive."""


@dataclass(frozen=True)
class EditedFile:
    """A source file whose content differs between two runs."""

    name: str
    """Path from the workload's folder."""
    older: str | None
    """Digest of its content; None where the run has no such file."""
    newer: str | None
    diff: tuple[str, ...] = ()
    """Lines of a unified diff, without its head; empty where a run has no text of the file."""
    left_out: int = 0
    """Further lines of the diff."""


def edited_files(older: ComparedRun, newer: ComparedRun) -> tuple[EditedFile, ...]:
    """Source files that differ between two runs, by name.

    Of runs that did not keep digests of their sources: of the files that sessions of both opened.
    """
    first, second = older.record.sources, newer.record.sources
    if first is not None and second is not None:
        names = sorted(first.files.keys() | second.files.keys())
        digests = ((name, first.files.get(name), second.files.get(name)) for name in names)
    else:
        opened = older.record.opened, newer.record.opened
        names = sorted(opened[0].keys() & opened[1].keys())
        digests = ((name.partition(":")[2], opened[0][name], opened[1][name]) for name in names)
    return tuple(
        _edited(name, before, after, older.source_texts, newer.source_texts)
        for name, before, after in digests
        if before != after
    )


def _edited(
    name: str,
    older: str | None,
    newer: str | None,
    older_texts: Mapping[str, str],
    newer_texts: Mapping[str, str],
) -> EditedFile:
    if any(
        digest is not None and name not in texts
        for digest, texts in ((older, older_texts), (newer, newer_texts))
    ):
        return EditedFile(name, older, newer)
    lines = list(
        difflib.unified_diff(
            older_texts.get(name, "").splitlines(),
            newer_texts.get(name, "").splitlines(),
            lineterm="",
        )
    )[2:]
    return EditedFile(
        name, older, newer, tuple(lines[:_MOST_LINES]), max(0, len(lines) - _MOST_LINES)
    )


def is_source_changed(older: ComparedRun, newer: ComparedRun, variant: str) -> bool | None:
    """Whether what a variant is made from differs; None where that was not recorded."""
    digests = [
        None if run.record.sources is None else run.record.sources.variants.get(variant)
        for run in (older, newer)
    ]
    return None if None in digests else digests[0] != digests[1]
