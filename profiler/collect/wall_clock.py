"""Wall clock around a few launches, as a quick benchmark does."""

from __future__ import annotations

from profiler.collect.kind import CollectorKind, Records
from profiler.collect.timer import Timer

KIND: CollectorKind = CollectorKind(
    name="wall_clock",
    alias="plain_timer",
    title="wall clock",
    measures="the wall clock from a launch until the device is idle again, mean of three "
    "launches: what a quick benchmark does",
    records=Records.TIMES,
    metric="wall_clock_duration_ns",
    judged=True,
    in_journal=True,
    create=lambda tools: Timer(tools.python, "wall_clock"),
    launches=4,
    visit_s=2e-4,
)
