"""The index of the folder of runs, written after every run; `profiler list` prints the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profiler.comparison.run_entries import (
    NO_DOCUMENTS,
    State,
    keep_entries,
    read_entries,
    run_states,
)
from profiler.errors import ProfilerError
from profiler.run_folder.folder import write_atomic

_OURS = 'content="kernel-profiler"'
_HEAD = 2000
"""Characters in which a page says what wrote it."""
_MOST_TRIES = 5
"""As many runs can end while one writes, before it leaves the rest to them."""


def write_index(
    out: Path,
    on_odd: Callable[[str], None],
    documents: Mapping[Path, Mapping[str, Any]] = NO_DOCUMENTS,
) -> Path | None:
    """Write the index of the runs under `out`; None, and a sentence, where that is not possible.

    `documents`: by folder, what this process wrote to summary.json just now, which takes a quarter
    of a second to read for 500 cells.
    Two runs that end at once each replace the whole file. What was written last may miss the other
    run, so it is read again whether anything has changed meanwhile.
    """
    from profiler.render.index import INDEX_FILE, render_runs

    target = out / INDEX_FILE
    try:
        if not _may_replace(target):
            on_odd(f"{target} is not of this program: the index of the runs is not written.")
            return None
        written: State = {}
        for _ in range(_MOST_TRIES):
            states = run_states(out)
            if states == written:
                break
            entries = read_entries(out, states, documents={} if written else documents)
            write_atomic(target, render_runs(entries))
            keep_entries(out, states, entries)
            written = states
    except (OSError, ProfilerError) as error:
        on_odd(f"The index of the runs was not written: {error}")
        return None
    return target


def _may_replace(target: Path) -> bool:
    """Whether the index is absent, or one that this program wrote."""
    if target.is_symlink():
        return False
    if not target.exists():
        return True
    with target.open(encoding="utf-8", errors="replace") as stream:
        return _OURS in stream.read(_HEAD)
