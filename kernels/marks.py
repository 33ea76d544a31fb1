"""Ranges that a workload marks inside its launches, for whichever tool listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import nvtx
from torch.autograd import profiler as torch_profiler


def mark(name: str) -> AbstractContextManager[None]:
    """Mark what the body launches as one part of a launch (`forward`, `layer 3`).

    Nsight tools see a push/pop range of the default NVTX domain, torch.profiler a user annotation
    of the same name (letters outside ASCII become `unknown` there). Where nothing listens, it costs
    about a microsecond. Ranges nest. It belongs outside of functions that torch.compile compiles:
    inside, it would break their graph.
    """
    return annotated_range(None, name)


@contextmanager
def annotated_range(domain_name: str | None, name: str) -> Iterator[None]:
    """Open a push/pop range in an NVTX domain (None: the default one) around the body.

    While torch.profiler records, it sees a user annotation of the same name.
    """
    domain = nvtx.get_domain(domain_name)
    domain.push_range(domain.get_event_attributes(message=name))
    try:
        # Not without a listener: it is an operator that is dispatched, some microseconds each.
        listens = torch_profiler._is_profiler_enabled
        with torch_profiler.record_function(name) if listens else nullcontext():
            yield
    finally:
        domain.pop_range()
