"""A timeline by torch.profiler."""

from __future__ import annotations

from profiler.collect.kind import CollectorKind, Need, Records
from profiler.collect.timer import Timer

KIND: CollectorKind = CollectorKind(
    name="torch",
    alias="profiler_timeline",
    title="torch.profiler timeline",
    measures="the kernels of a launch on the timeline of torch.profiler, launches one after "
    "another without a flush of caches; on a CPU the launch",
    records=Records.TIMELINE,
    metric="torch_duration_ns",
    judged=False,
    in_journal=False,
    create=lambda tools: Timer(tools.python, "torch"),
    needs=frozenset({Need.TORCH}),
    visit_s=0.05,
    settings=("timeline",),
)
