"""The figure of where the seconds of a run went: a row for each session, one of the profiler."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler.findings.findings import Findings
from profiler.model import SessionStep
from profiler.render.figures.charts import Chart, make_chart
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


def run_chart(findings: Findings) -> Chart | None:
    """Steps of the sessions of the newest execution over time; None where none were recorded."""
    spans = findings.report.seconds
    if not spans:
        return None
    rows = list(dict.fromkeys(span.row for span in spans))
    bars = pd.DataFrame(
        {
            "start_ns": [round(span.begin_s * _NS) for span in spans],
            "end_ns": [round(span.end_s * _NS) for span in spans],
            "short": [span.step for span in spans],
            "row": [rows.index(span.row) for span in spans],
            "phase": [_PHASES.get(span.step, -1) for span in spans],
        }
    )
    end = int(bars["end_ns"].max())
    measured = sum(span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES)
    reading = (
        f"Visits were made for {numbers.seconds(measured)} of {numbers.seconds(end / _NS)}. Each "
        "row is a process: it starts (the tool, Python, torch, the workload), waits for its turn, "
        "creates its context (orange), measures until its last launch (blue), and ends."
    )
    panel = Panel("", tuple(PictureRow(GPU, row) for row in rows), 0, bars, (0, max(end, 1)))
    shares = Shares("", (0, max(end, 1)), np.zeros(0))
    figure = timeline_figure(shares, [panel])
    return make_chart("seconds", "Where the seconds went", reading, figure)
