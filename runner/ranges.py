"""NVTX ranges: how a profiler's rows find their cell and block again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import nvtx

from runner.protocol import NVTX_DOMAIN, range_name


@contextmanager
def visit_range(cell: str, block: int, arm: int = 0) -> Iterator[None]:
    """Mark everything that this thread launches inside as one visit of a cell.

    Push/pop ranges belong to a thread: what another thread launches is outside of it.
    """
    domain = nvtx.get_domain(NVTX_DOMAIN)
    domain.push_range(domain.get_event_attributes(message=range_name(cell, block, arm)))
    try:
        yield
    finally:
        domain.pop_range()


def tool_listens() -> bool:
    """Whether a tool is attached that sees our ranges; without one they cost and do nothing."""
    return isinstance(nvtx.get_domain(NVTX_DOMAIN), nvtx.Domain)
