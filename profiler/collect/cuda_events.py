"""CUDA events around launches; on a CPU the process clock."""

from __future__ import annotations

from profiler.collect.kind import CollectorKind, Records
from profiler.collect.timer import Timer

KIND: CollectorKind = CollectorKind(
    name="timer",
    alias="cuda_events",
    title="CUDA events",
    measures="launches by CUDA events, gaps between their kernels included; on a CPU by the "
    "process clock",
    records=Records.TIMES,
    metric="timer_duration_ns",
    judged=True,
    in_journal=True,
    create=lambda tools: Timer(tools.python, "timer"),
    settings=("repeats",),
)
