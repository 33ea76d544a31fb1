"""The timeline of one cell: what its launches did, on a time axis of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Original:
    """A file that the tool itself wrote; it never leaves the run folder."""

    collector: str
    path: str
    """Relative to the run folder: `raw/nsys.001/private/report.nsys-rep.gz`."""


@dataclass(frozen=True, eq=False)
class CellTimeline:
    """One visit of a cell (block 0, arm 0), or the whole process of an external command.

    Times are nanoseconds since the start of the visit. Rows of `ranges`, `stacks` and `api` are
    what the other frames refer to by number. The ranges of the visit and of its launches stay in
    `ranges`.
    """

    cell: str
    collector: str
    """`nsys` or `torch`."""
    operations: pd.DataFrame
    """Kernels, copies, memsets, graphs with the stack of ranges that launched them: columns as
    `profiler.parse.nsys_attribution.Attribution.operations`."""
    ranges: pd.DataFrame
    """NVTX ranges: RANGE_COLUMNS of `profiler.parse.nsys`, and `stack`."""
    stacks: pd.DataFrame
    """`parent range depth`: a stack of open ranges as its innermost range and the stack around it;
    -1: none."""
    api: pd.DataFrame
    """CUDA calls: API_COLUMNS of `profiler.parse.nsys`."""
    launches: int
    """How many launches of the workload lie inside; 0 for an external command."""
    operators: pd.DataFrame
    """What torch.profiler says of operators: `name calls self_cpu_us cpu_us self_device_us
    device_us stack`, `stack` a tuple of texts, innermost first; without rows where torch did not
    record this cell."""
    originals: tuple[Original, ...] = ()
    """What it was read from; empty for a file that was imported."""
