"""Ranges that a workload marks inside its launches, for whichever tool listens."""

from __future__ import annotations

from contextlib import AbstractContextManager

from runner.ranges import annotated_range


def mark(name: str) -> AbstractContextManager[None]:
    """Mark what the body launches as one part of a launch (`forward`, `layer 3`).

    Nsight tools see a push/pop range of the default NVTX domain, torch.profiler a user annotation
    of the same name (letters outside ASCII become `unknown` there). Where nothing listens, it costs
    about a microsecond. Ranges nest. It belongs outside of functions that torch.compile compiles:
    inside, it would break their graph.
    """
    return annotated_range(None, name)
