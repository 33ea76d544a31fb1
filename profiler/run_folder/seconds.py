"""Where the seconds of a run went: `seconds.json`, one list of spans for each execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from profiler.errors import UsageError
from profiler.model import SessionStep, Span
from profiler.run_folder.documents import read_dataclass

SECONDS_FILE = "seconds.json"
PROFILER = "profiler"
"""Row of what the orchestrator does itself."""


@dataclass(frozen=True)
class Seconds:
    """Spans of each execution of a run, oldest first."""

    executions: tuple[tuple[Span, ...], ...] = ()


def read_seconds(folder: Path) -> Seconds:
    """Read the file of a run folder; without executions where it is absent or damaged."""
    if not (folder / SECONDS_FILE).exists():
        return Seconds()
    try:
        return read_dataclass(folder / SECONDS_FILE, Seconds)
    except UsageError:
        return Seconds()


def session_seconds(seconds: Seconds) -> tuple[Span, ...]:
    """Spans of the newest execution in which something was measured; empty where none was."""
    for spans in reversed(seconds.executions):
        if any(span.step == SessionStep.MEASURES for span in spans):
            return spans
    return ()


def seconds_in_sessions(spans: Iterable[Span]) -> float:
    """Seconds in which a session starts, measures or ends, not those in which it waits.

    Sessions beside each other count once.
    """
    busy = sorted(
        (span.begin_s, span.end_s)
        for span in spans
        if span.row != PROFILER and span.step != SessionStep.WAITS
    )
    seconds, until = 0.0, 0.0
    for begin, end in busy:
        seconds += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return seconds


def seconds_document(earlier: Seconds, spans: Sequence[Span]) -> dict[str, object]:
    """Content of the file: what earlier executions took, and the spans of this one."""
    return asdict(Seconds((*earlier.executions, tuple(spans))))
