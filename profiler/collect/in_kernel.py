"""A timeline inside kernels: each warpgroup writes down when it began what."""

from __future__ import annotations

from profiler.collect.kind import CollectorKind, Need, Records
from profiler.collect.timer import Timer

KIND: CollectorKind = CollectorKind(
    name="in_kernel",
    alias=None,
    title="in-kernel timeline",
    measures="when each warpgroup of a few blocks of a kernel began what, in a build with "
    "stamps that nothing else measures; for kernels that include `profiler/timeline.cuh`",
    records=Records.STAMPS,
    metric=None,
    judged=False,
    in_journal=False,
    create=lambda tools: Timer(tools.python, "in_kernel"),
    needs=frozenset({Need.GPU, Need.TORCH}),
    visit_s=3e-3,
)
