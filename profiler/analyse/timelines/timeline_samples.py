"""Samples of a timeline: one row per launch, its kernels added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.samples import (
    SAMPLE_COLUMNS,
    part_id,
    typed_samples,
)
from profiler.model import KERNEL_SEPARATOR, SessionKind, Visit

_KERNEL = "kernel"


@dataclass(frozen=True)
class Source:
    """Where the samples of a timeline come from."""

    session: str
    collector: str
    on_host: bool
    """A workload on the CPU launches nothing: its time is that of the launch on the host."""


def samples_from_timeline(
    operations: pd.DataFrame,
    launch_of: npt.NDArray[np.int64],
    launches: pd.DataFrame,
    visit: Visit,
    source: Source,
) -> pd.DataFrame:
    """One row per launch of a visit, `repeat` its number and `duration_ns` that of its kernels.

    `launches` has `launch start_ns end_ns`; `launch_of` the row of the launch that each operation
    belongs to, -1 for none. A launch without kernels has no duration.
    """
    kernels = operations[(operations["kind"] == _KERNEL).to_numpy() & (launch_of >= 0)]
    launches_of_kernels = launch_of[kernels.index]
    spans = (
        (kernels["end_ns"] - kernels["start_ns"]).groupby(launches_of_kernels).agg(["sum", "size"])
    )
    spans = spans.reindex(range(len(launches)))
    duration = spans["sum"].astype("float64")
    if source.on_host:
        duration = (launches["end_ns"] - launches["start_ns"]).astype("float64")
    seen = spans["size"].astype("float64") if source.on_host else spans["size"].fillna(0.0)
    names = _names(kernels["name"], launches_of_kernels)
    frame = _identity(source, visit, len(launches)).assign(
        cell=visit.cell,
        repeat=launches["launch"].to_numpy(),
        kernels=seen.to_numpy(),
        kernel_names=[names.get(row, "") for row in range(len(launches))],
        duration_ns=duration.to_numpy(),
    )
    return typed_samples(frame[[*SAMPLE_COLUMNS, "duration_ns"]])


def samples_from_program(operations: pd.DataFrame, visit: Visit, source: Source) -> pd.DataFrame:
    """One row per kernel of an external command, told apart as those that ncu saw.

    Each combination of kernel, grid and block is a cell of its own; its launches are repeats.
    """
    kernels = operations[operations["kind"] == _KERNEL]
    names = kernels["demangled"].astype(object).fillna("").tolist()
    grid, block = _sizes(kernels, "grid"), _sizes(kernels, "block")
    cells = [part_id(visit.cell, *part) for part in zip(names, grid, block, strict=True)]
    frame = _identity(source, visit, len(kernels)).assign(
        cell=cells,
        repeat=pd.Series(cells, dtype=object).groupby(cells).cumcount() if cells else 0,
        kernels=1.0,
        kernel_names=names,
        duration_ns=(kernels["end_ns"] - kernels["start_ns"]).to_numpy(dtype=np.float64),
    )
    return typed_samples(frame[[*SAMPLE_COLUMNS, "duration_ns"]])


def _identity(source: Source, visit: Visit, rows: int) -> pd.DataFrame:
    columns = {
        "session": source.session,
        "collector": source.collector,
        "kind": SessionKind.TIMELINE.value,
        "block": visit.block,
        "arm": visit.arm,
    }
    return pd.DataFrame(columns, index=range(rows))


def _names(names: pd.Series[str], launch_of: npt.NDArray[np.int64]) -> Mapping[int, str]:
    """Distinct kernel names of each launch, in order."""
    by_launch: dict[int, dict[str, None]] = {}
    for name, launch in zip(names.astype(object), launch_of.tolist(), strict=True):
        if isinstance(name, str):
            by_launch.setdefault(launch, {})[name] = None
    return {launch: KERNEL_SEPARATOR.join(distinct) for launch, distinct in by_launch.items()}


def _sizes(kernels: pd.DataFrame, what: str) -> Sequence[str]:
    axes = [kernels[f"{what}_{axis}"].astype(object) for axis in "xyz"]
    return [f"{x}x{y}x{z}" for x, y, z in zip(*axes, strict=True)]
