"""The timeline of one cell: what its launches did, on a time axis of its own; and its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analyse.samples import (
    SAMPLE_COLUMNS,
    SampleOrigin,
    command_identity,
    distinct_names,
    part_id,
    typed_samples,
)
from profiler.model import Visit


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
    """Number of launches of the workload inside; 0 for an external command."""
    operators: pd.DataFrame
    """Operators by torch.profiler: `name calls self_cpu_us cpu_us self_device_us
    device_us stack`, `stack` a tuple of texts, innermost first; without rows where torch did not
    record this cell."""
    originals: tuple[str, ...] = ()
    """Files that the tool itself wrote, relative to the run folder, which they never leave:
    `raw/nsys.001/private/report.nsys-rep.gz`. Empty for an imported file."""


_KERNEL = "kernel"


def samples_from_timeline(
    operations: pd.DataFrame,
    launches: pd.DataFrame,
    visit: Visit,
    origin: SampleOrigin,
    *,
    on_host: bool,
) -> pd.DataFrame:
    """One row per launch of a visit: `repeat`, its number, and `duration_ns`, that of its kernels.

    `launches` has `launch start_ns end_ns`; `launch_row` of the operations is the row of the launch
    that each belongs to, -1 for none. A launch without kernels has no duration.

    `on_host`: a workload on the CPU launches nothing: its time is that of the launch on the host.
    """
    kernels = operations[(operations["kind"] == _KERNEL) & (operations["launch_row"] >= 0)]
    durations = (kernels["end_ns"] - kernels["start_ns"]).groupby(kernels["launch_row"])
    spans = durations.agg(["sum", "size"]).reindex(range(len(launches)))
    duration = spans["sum"].astype("float64")
    if on_host:
        duration = (launches["end_ns"] - launches["start_ns"]).astype("float64")
    kernel_counts = spans["size"].astype("float64") if on_host else spans["size"].fillna(0.0)
    frame = pd.DataFrame(
        {
            **origin.columns,
            "cell": visit.cell,
            "block": visit.block,
            "arm": visit.arm,
            "repeat": launches["launch"].to_numpy(),
            "kernels": kernel_counts.to_numpy(),
            "kernel_names": distinct_names(kernels["name"], kernels["launch_row"], len(launches)),
            "duration_ns": duration.to_numpy(),
        }
    )
    return typed_samples(frame[[*SAMPLE_COLUMNS, "duration_ns"]])


def samples_from_program(
    operations: pd.DataFrame, visit: Visit, origin: SampleOrigin
) -> pd.DataFrame:
    """One row per kernel of an external command, in cells as its samples under ncu.

    Each combination of kernel, grid and block is a cell of its own; its launches are repeats.
    """
    kernels = operations[operations["kind"] == _KERNEL]
    names = kernels["demangled"].astype(object).fillna("").tolist()
    grid, block = _sizes(kernels, "grid"), _sizes(kernels, "block")
    cells = [part_id(visit.cell, *part) for part in zip(names, grid, block, strict=True)]
    frame = pd.DataFrame(
        {
            **command_identity(origin, visit, cells),
            "kernels": 1.0,
            "kernel_names": names,
            "duration_ns": (kernels["end_ns"] - kernels["start_ns"]).to_numpy(dtype=np.float64),
        }
    )
    return typed_samples(frame[[*SAMPLE_COLUMNS, "duration_ns"]])


def _sizes(kernels: pd.DataFrame, size_name: str) -> Sequence[str]:
    axes = [kernels[f"{size_name}_{axis}"].astype(object) for axis in "xyz"]
    return [f"{x}x{y}x{z}" for x, y, z in zip(*axes, strict=True)]
