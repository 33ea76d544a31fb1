"""What of a run may be shown: its search, builds, statuses and notices, without private texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from profiler.errors import ParseError, UsageError
from profiler.model import BuildResult, CellStatus
from profiler.notices import Notice, NoticeKind
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.redact import Redaction, without_private
from profiler.search.live.journal import SearchRecord, read_search


def search_of(
    run: RunFolder, redaction: Redaction
) -> tuple[SearchRecord | None, tuple[Notice, ...]]:
    """The search of a run, and what is to be said of its file; None where it has none."""
    path = run.path / SEARCH_JOURNAL_FILE
    packed = path.with_name(f"{path.name}.gz")
    if any(file.is_symlink() for file in (path.parent, path, packed)):
        return None, (Notice(NoticeKind.ATTEMPT_LINKED, {"attempt": SEARCH_JOURNAL_FILE}),)
    try:
        record = read_search(path)
    except (UsageError, ParseError):
        return None, (Notice(NoticeKind.SEARCH_DAMAGED, {"file": SEARCH_JOURNAL_FILE}),)
    if record is None:
        return None, ()
    values: dict[str, str | int | float] = {"file": SEARCH_JOURNAL_FILE, "count": record.left_out}
    lost = (Notice(NoticeKind.SEARCH_LINES_LOST, values),) if record.left_out else ()
    return _public(record, redaction), lost


def _public(record: SearchRecord, redaction: Redaction) -> SearchRecord:
    """The record without the folders and names of this machine."""
    return replace(
        record,
        evaluations=tuple(
            replace(evaluated, cause=redaction.words(evaluated.cause))
            for evaluated in record.evaluations
        ),
        runner_ends=tuple(map(redaction.words, record.runner_ends)),
    )


def public_build(build: BuildResult, redaction: Redaction) -> BuildResult:
    """A build as it may be shown: without the folders of this machine."""
    folders = redaction.folders
    return replace(
        build,
        library=None if build.library is None else without_private(build.library, folders),
        command=without_private(build.command, folders),
        error=redaction.words(build.error),
    )


def public_statuses(
    statuses: Mapping[str, CellStatus], redaction: Redaction
) -> dict[str, CellStatus]:
    """Statuses of cells as they may be shown, by cell id."""
    return {
        cell: replace(status, cause=redaction.words(status.cause))
        for cell, status in statuses.items()
    }


def public_notice(notice: Notice, redaction: Redaction) -> Notice:
    """A notice as it may be shown."""
    values = {
        key: redaction.words(value) if isinstance(value, str) else value
        for key, value in notice.values.items()
    }
    return replace(notice, values=values)
