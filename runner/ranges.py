"""Ranges: how a profiler's rows find their cell, their block and their launch again.

Each is an NVTX range and, while torch.profiler records, a user annotation of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import nvtx
from torch.autograd import profiler as torch_profiler

from runner.protocol import NVTX_DOMAIN, launch_range_name, range_name


def visit_range(cell: str, block: int, arm: int = 0) -> AbstractContextManager[None]:
    """Mark everything that this thread launches inside as one visit of a cell.

    Push/pop ranges belong to a thread: what another thread launches is outside of it.
    """
    return annotated_range(NVTX_DOMAIN, range_name(cell, block, arm))


def launch_range(number: int) -> AbstractContextManager[None]:
    """Mark one launch of a visit, inside the range of the visit."""
    return annotated_range(NVTX_DOMAIN, launch_range_name(number))


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


def tool_listens() -> bool:
    """Whether a tool is attached that sees our ranges; without one they cost and do nothing."""
    return isinstance(nvtx.get_domain(NVTX_DOMAIN), nvtx.Domain)
