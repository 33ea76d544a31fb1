"""The busiest unit of a launch: what limits kernels that are near no roof.

A roof counts bytes or operations. A unit is as busy with requests for single sectors, wavefronts of
bank conflicts, or instructions that a roof does not count; ncu's throughput metrics are the share
of its peak that the busiest unit of the memory system, or of the multiprocessors, reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from profiler.analyse.why.kernel_profiles import KernelProfile

NEAR_PEAK = 0.8
"""From here on ncu's rule SOLBottleneck calls a unit close to its limit (2025.3.1)."""
_PEAK = "avg.pct_of_peak_sustained_elapsed"
_COMPUTE = f"sm__throughput.{_PEAK}"
_MEMORY = f"gpu__compute_memory_throughput.{_PEAK}"
_PARTS: Mapping[str, Mapping[str, str]] = {
    _MEMORY: {
        "l2_units": f"lts__throughput.{_PEAK}",
        "l1_units": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    },
    _COMPUTE: {"issue_slots": "smsp__issue_active.avg.pct_of_peak_sustained_active"},
}
_OTHER = {_MEMORY: "memory_units", _COMPUTE: "sm_pipes"}
BUSY_UNITS = (*(name for parts in _PARTS.values() for name in parts), *_OTHER.values())
_SAME = 0.95
"""A unit this near to the throughput of its group is the one that it is of."""


@dataclass(frozen=True)
class BusyUnit:
    """One kind of unit, and how busy it was."""

    name: str
    """One of BUSY_UNITS."""
    share: float
    """Part of its peak that it reached."""


def busy_unit(profile: KernelProfile) -> BusyUnit | None:
    """The unit that is close to its peak; None where none is, or throughputs are missing."""
    groups = {raw: value for raw in _PARTS if math.isfinite(value := profile.value(raw) / 100)}
    if not groups or max(groups.values()) < NEAR_PEAK:
        return None
    busiest = max(groups, key=groups.__getitem__)
    shares = {name: profile.value(raw) / 100 for name, raw in _PARTS[busiest].items()}
    counted = {name: share for name, share in shares.items() if share >= _SAME * groups[busiest]}
    name = max(counted, key=counted.__getitem__, default=_OTHER[busiest])
    return BusyUnit(name, groups[busiest])
