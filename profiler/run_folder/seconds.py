"""`seconds.json`: where the seconds of a run went, as a list of spans for each execution."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from profiler.errors import UsageError
from profiler.model import SessionKind, SessionStep, Span
from profiler.run_folder.documents import read_value

SECONDS_FILE = "seconds.json"
PROFILER = "profiler"
"""Row of the orchestrator's own steps."""
BUILDS = "builds"
SEARCHES = "searches"
KEEPS_PAGES = "keeps pages"
"""Step of printing what an explain session counted from ncu's report."""
WAITS_FOR_GPU = "waits for the GPU"
"""Step of waiting for the GPU's lock, which another process holds."""
_SHOWN_S = 0.05
"""Least seconds of a part to be printed."""


Executions = tuple[tuple[Span, ...], ...]
"""Spans of each execution of a run, oldest first."""


def read_seconds(folder: Path) -> Executions:
    """Executions in `seconds.json` of a run folder; empty where it is absent or damaged."""
    if not (folder / SECONDS_FILE).exists():
        return ()
    try:
        return read_value(folder / SECONDS_FILE, "executions", Executions)
    except UsageError:
        return ()


def session_seconds(executions: Executions) -> tuple[Span, ...]:
    """Spans of the newest execution that measured; empty without one."""
    for spans in reversed(executions):
        if any(span.step == SessionStep.MEASURES for span in spans):
            return spans
    return ()


def measured_seconds(spans: Iterable[Span]) -> float:
    """Seconds in which sessions measured, those beside each other twice."""
    return sum(span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES)


def seconds_in_sessions(spans: Iterable[Span]) -> float:
    """Seconds in which a session starts, measures or ends, or a search runs.

    Not those in which sessions wait. Sessions beside each other count once.
    """
    return _covered_seconds(filter(_is_busy, spans))


def seconds_beside_sessions(spans: Collection[Span], steps: Collection[str]) -> float:
    """Seconds of orchestrator steps in which no session starts, measures or ends."""
    of_steps = [span for span in spans if span.row == PROFILER and span.step in steps]
    busy = list(filter(_is_busy, spans))
    return _covered_seconds([*busy, *of_steps]) - _covered_seconds(busy)


def seconds_line(spans: Collection[Span], total_s: float) -> str:
    """Line on where the seconds of an execution went; `spans`: empty for a replay.

    Sessions count as measuring from their start on, and no second counts twice.
    """
    if not spans:
        return f"{total_s:.1f} s."
    measuring_s = seconds_in_sessions(span for span in spans if not _explains(span))
    parts_s = {
        "measuring": measuring_s,
        "explaining": seconds_in_sessions(spans)
        - measuring_s
        + seconds_beside_sessions(spans, (KEEPS_PAGES,)),
        "building": seconds_beside_sessions(spans, (BUILDS,)),
        "waiting for another run": seconds_beside_sessions(spans, (WAITS_FOR_GPU,)),
    }
    parts_s["planning and writing"] = max(total_s - sum(parts_s.values()), 0.0)
    listed = (f"{seconds:.1f} {doing}" for doing, seconds in parts_s.items() if seconds >= _SHOWN_S)
    return f"{total_s:.1f} s: {', '.join(listed)}."


def _explains(span: Span) -> bool:
    """Whether a span belongs to an explain session, by the name of its attempt."""
    return span.row.partition(".")[0].endswith(f"-{SessionKind.EXPLAIN.value}")


def _is_busy(span: Span) -> bool:
    """Whether a session starts, measures or ends in a span, or a search runs."""
    if span.row == PROFILER:
        return span.step == SEARCHES
    return span.step != SessionStep.WAITS


def _covered_seconds(spans: Iterable[Span]) -> float:
    """Seconds in the union of spans."""
    seconds, covered_until = 0.0, 0.0
    for begin, end in sorted((span.begin_s, span.end_s) for span in spans):
        seconds += max(end - max(begin, covered_until), 0.0)
        covered_until = max(covered_until, end)
    return seconds
