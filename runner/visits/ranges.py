"""Ranges: how a profiler's rows find their cell, their block and their launch again.

Each is an NVTX range and, while torch.profiler records, a user annotation of the same name.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import nvtx

from profiler.kernels.marks import mark
from profiler.runner.protocol import launch_range_name, range_name, roof_range_name


def visit_range(cell: str, block: int, arm: int = 0) -> AbstractContextManager[None]:
    """Mark everything that this thread launches inside as one visit of a cell.

    Push/pop ranges belong to a thread: what another thread launches is outside of it.
    """
    return mark(range_name(cell, block, arm))


def launch_range(number: int) -> AbstractContextManager[None]:
    """Mark one launch of a visit, inside the range of the visit."""
    return mark(launch_range_name(number))


def roof_range(roof: str, launch: int) -> AbstractContextManager[None]:
    """Mark one launch for a practical roof, which is a visit of no cell."""
    return mark(roof_range_name(roof, launch))


def tool_listens() -> bool:
    """Whether a tool is attached that sees our ranges; without one they cost and do nothing."""
    return isinstance(nvtx.get_domain(), nvtx.Domain)
