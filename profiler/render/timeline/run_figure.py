"""The figure of where the seconds of a run went: a row for each session, one of the profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from profiler.findings.findings import Findings
from profiler.model import SessionStep, Span
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Drawing
from profiler.render.timeline.picture import GPU, PictureRow
from profiler.render.timeline.still_figure import Panel, Shares, timeline_figure
from profiler.render.words import numbers

_PHASES: dict[str, int] = {
    SessionStep.MEASURES: 0,
    SessionStep.CONTEXT: 1,
    SessionStep.STARTS: 2,
    SessionStep.ENDS: 3,
}
"""Number of the colour of a step; what has none is grey."""

_NS = 1e9
_MOST_ROWS = 40
"""An external command has a process for each visit, hundreds in a long run."""


def run_chart(findings: Findings) -> Chart | None:
    """Steps of the sessions of the newest execution over time; None where none were recorded."""
    spans = findings.report.execution.seconds
    if not spans:
        return None
    rows = list(dict.fromkeys(span.row for span in spans))
    shown = rows[:_MOST_ROWS]
    drawn = spans if shown == rows else _spans_of(shown, spans)
    measured = sum(span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES)
    whole_s = max(span.end_s for span in spans)
    left_out = f" The first {len(shown)} of {len(rows)} rows are shown." if shown != rows else ""
    reading = (
        f"Visits were made for {numbers.seconds(measured)} of {numbers.seconds(whole_s)}. Each "
        "row is a process: it starts (the tool, Python, torch, the workload), waits for its turn, "
        f"creates its context (orange), measures until its last launch (blue), and ends.{left_out}"
    )
    figure = seconds_figure({"": drawn})
    return make_chart("seconds", "Where the seconds went", reading, figure)


def seconds_figure(runs: Mapping[str, Sequence[Span]]) -> Drawing:
    """Steps of the sessions of runs over one time axis, a panel for each title."""
    end_ns = max(round(span.end_s * _NS) for spans in runs.values() for span in spans)
    window = (0, max(end_ns, 1))
    panels, first = [], 0
    for title, spans in runs.items():
        panels.append(_panel(title, spans, first, window))
        first += len(panels[-1].rows)
    return timeline_figure(Shares("", window, np.zeros(0)), panels)


def _panel(title: str, spans: Sequence[Span], first: int, window: tuple[int, int]) -> Panel:
    rows = list(dict.fromkeys(span.row for span in spans))
    bars = pd.DataFrame(
        {
            "start_ns": [round(span.begin_s * _NS) for span in spans],
            "end_ns": [round(span.end_s * _NS) for span in spans],
            "short": [span.step for span in spans],
            "row": [first + rows.index(span.row) for span in spans],
            "phase": [_PHASES.get(span.step, -1) for span in spans],
        }
    )
    return Panel(title, tuple(PictureRow(GPU, row) for row in rows), first, bars, window)


def _spans_of(rows: Sequence[str], spans: Sequence[Span]) -> list[Span]:
    """Spans of some processes, and what the profiler did until the last of them ended."""
    of_rows = [span for span in spans if span.row in rows]
    until_s = max(span.end_s for span in of_rows if span.step in frozenset(SessionStep))
    return [span for span in of_rows if span.begin_s <= until_s]
