"""Limit of a kernel: which part of the GPU is busy, and what warps wait for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from profiler.metrics.catalogue import STALL_PREFIX

IDLE_PCT = 60.0
"""Below this on both sides ncu's rule SOLBottleneck looks for latency (2025.3.1)."""
CLOSE_PCT = 10.0
"""Compute and memory this close to each other count as balanced, as in the same rule."""

NOT_WAITING = frozenset({"selected", "not_selected"})
"""Reasons of warps that could run: they say that there is enough work, not what is in its way."""


class LimitKind(StrEnum):
    """Kind of limit that a kernel reaches."""

    COMPUTE = "compute"
    MEMORY = "memory"
    BALANCED = "balanced"
    """Compute and memory are equally busy."""
    LATENCY = "latency"
    """Neither is busy: warps wait."""
    UNKNOWN = "unknown"
    """The throughput percentages were not measured."""


@dataclass(frozen=True)
class Stall:
    """One reason to wait."""

    reason: str
    """As ncu spells it."""
    warps: float
    """Warps that waited for it per issued instruction."""
    share_pct: float
    """Of all measured waiting, in percent."""


@dataclass(frozen=True)
class Limit:
    """Limit of one cell, as data; None where a metric was not measured."""

    cell: str
    kind: LimitKind
    compute_pct: float | None
    memory_pct: float | None
    stalls: tuple[Stall, ...]
    """Longest first; reasons that nothing waited for are left out."""


def limit(summary: pd.DataFrame, cell: str) -> Limit:
    """Limit of a cell, from the medians of its throughputs and stall reasons."""
    rows = summary[summary["cell"] == cell]
    medians = {
        str(metric): float(median)
        for metric, median in zip(rows["metric"], rows["median"], strict=True)
        if pd.notna(median)
    }
    compute = medians.get("compute_throughput_pct")
    memory = medians.get("memory_throughput_pct")
    return Limit(
        cell=cell,
        kind=_kind(compute, memory),
        compute_pct=compute,
        memory_pct=memory,
        stalls=_stalls(medians),
    )


def _kind(compute: float | None, memory: float | None) -> LimitKind:
    if compute is None or memory is None:
        return LimitKind.UNKNOWN
    if max(compute, memory) < IDLE_PCT:
        return LimitKind.LATENCY
    if abs(compute - memory) < CLOSE_PCT:
        return LimitKind.BALANCED
    return LimitKind.COMPUTE if compute > memory else LimitKind.MEMORY


def _stalls(medians: dict[str, float]) -> tuple[Stall, ...]:
    waits = {
        name.removeprefix(STALL_PREFIX): value
        for name, value in medians.items()
        if name.startswith(STALL_PREFIX) and value > 0
    }
    waits = {reason: value for reason, value in waits.items() if reason not in NOT_WAITING}
    total = sum(waits.values())
    longest = sorted(waits.items(), key=lambda item: -item[1])
    return tuple(Stall(reason, value, 100 * value / total) for reason, value in longest)
