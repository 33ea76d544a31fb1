"""Kernel time as torch.profiler reports it."""

from __future__ import annotations

from profiler.collect.kind import CollectorKind, Need, Records
from profiler.collect.timer import Timer

KIND: CollectorKind = CollectorKind(
    name="torch_kernels",
    alias="profiler_kernels",
    title="torch.profiler kernels",
    measures="the kernels of a launch as torch.profiler reports them, with a cold L2 cache; "
    "on a CPU the time that operators took themselves",
    records=Records.TIMES,
    metric="profiler_duration_ns",
    judged=True,
    in_journal=True,
    create=lambda tools: Timer(tools.python, "torch_kernels"),
    needs=frozenset({Need.TORCH}),
    visit_s=2e-3,
)
