"""The search of a run folder, as it may be shown."""

from __future__ import annotations

from dataclasses import replace

from profiler.errors import ParseError, UsageError
from profiler.notices import Notice, NoticeKind
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.redact import PrivateTexts, without_names, without_private
from profiler.search.live.journal import Evaluated, SearchRecord, read_search


def search_of(
    run: RunFolder, private: PrivateTexts, names: PrivateTexts
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
    return _public(record, private, names), lost


def _public(record: SearchRecord, private: PrivateTexts, names: PrivateTexts) -> SearchRecord:
    """The record without the folders and names of this machine."""

    def public(text: str) -> str:
        return without_names(without_private(text, private), names)

    def public_evaluation(evaluated: Evaluated) -> Evaluated:
        return replace(evaluated, cause=public(evaluated.cause))

    return replace(
        record,
        evaluations=tuple(map(public_evaluation, record.evaluations)),
        runner_ends=tuple(map(public, record.runner_ends)),
    )
