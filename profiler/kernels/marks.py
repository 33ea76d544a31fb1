"""Ranges that a workload marks inside its launches, for any listening tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import nvtx
import torch
from torch.autograd import profiler as torch_profiler
from torch.cuda import nvtx as torch_nvtx

_push, _pop = (
    (torch_nvtx.range_push, torch_nvtx.range_pop)
    if torch.version.cuda
    else (nvtx.push_range, nvtx.pop_range)
)
"""Open and close a push/pop range of the default domain.

The package nvtx registers every text with the tool, and each registered text makes each later
launch under ncu 0.2 us slower, so that 900 visits more than doubled it (benchmarks/speed). torch
passes the text on as it is, but has NVTX only where it is built for CUDA.
"""


@contextmanager
def mark(name: str) -> Iterator[None]:
    """Mark the body's kernels as one part of a launch (`forward`, `layer 3`).

    Nsight tools see a push/pop range of the default NVTX domain, torch.profiler a user annotation
    of the same name (letters outside ASCII become `unknown` there). Where nothing listens, it costs
    about a microsecond. Ranges nest. It belongs outside of functions that torch.compile compiles:
    inside, it would break their graph.
    """
    _push(name)
    try:
        # Not without a listener: it is an operator that is dispatched, some microseconds each.
        listens = torch_profiler._is_profiler_enabled
        with torch_profiler.record_function(name) if listens else nullcontext():
            yield
    finally:
        _pop()
