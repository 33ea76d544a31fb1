"""What was found in a file, and not read."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.notices import Notice, NoticeKind, counted_kind


def unread_notices(file: str, unread: Mapping[str, int]) -> tuple[Notice, ...]:
    """A warning for each kind of what was left out, with how many there are."""
    return tuple(
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file, "what": counted_kind(count, what)})
        for what, count in unread.items()
    )
