"""Raw ncu metrics of an explain session, beside those of its sections.

Names and their presence by architecture: `ncu --query-metrics --chips gh100` (2025.3.1), and the
PerfWorks host library of CUPTI 13.0 for the others. What is not known to exist is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from profiler.metrics.catalogue import STALL_CAUSES, STALL_PREFIX, TENSOR_TYPES
from profiler.metrics.queries import ncu_name, ncu_names

SECTIONS = (
    "SpeedOfLight",
    "WarpStateStats",
    "SchedulerStats",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "Occupancy",
    "LaunchStats",
    "InstructionStats",
    "WorkloadDistribution",
    "SourceCounters",
)
"""Sections of ncu (2025.3.1, `ncu --list-sections`) with what is told of a kernel, and whose rules
advise on it."""

_ACCOUNT = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "smsp__cycles_active.sum",
    "smsp__cycles_active.avg",
    "smsp__warps_active.sum",
    "smsp__warps_launched.sum",
    "smsp__inst_issued.sum",
    "smsp__inst_executed.sum",
)
_FP32 = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum"
_FP64 = "smsp__sass_thread_inst_executed_op_d{}_pred_on.sum"
_FP16 = "smsp__sass_thread_inst_executed_op_h{}_pred_on.sum"
_ARITHMETIC = tuple(
    name.format(operation) for name in (_FP32, _FP64, _FP16) for operation in ("fma", "add", "mul")
)
FMA_PEAK = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
_PIPES = (
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
)
_BYTES = ("dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum")
_CLOCKS = (
    "dram__cycles_elapsed.avg.per_second",
    "lts__cycles_elapsed.avg.per_second",
    "sm__cycles_elapsed.avg.per_second",
)


def operations(values: Mapping[str, float], precision: str) -> float:
    """Operations of ordinary arithmetic (`f`: FP32, `d`: FP64): 2 · FMA + additions + products."""
    name = {"f": _FP32, "d": _FP64}[precision]
    fma, add, mul = (values.get(name.format(op), float("nan")) for op in ("fma", "add", "mul"))
    return 2 * fma + add + mul


def explain_metrics(compute_capability: str | None) -> tuple[str, ...]:
    """Raw names that an explain session asks for beside its sections, on an architecture."""
    tensor = ncu_names(
        (f"tensor_{kind}_{what}" for kind in TENSOR_TYPES for what in ("ops", "peak")),
        compute_capability,
    )
    stalls = [
        f"smsp__average_warp_latency_issue_stalled_{reason}.ratio"
        for reason in STALL_CAUSES
        if ncu_name(f"{STALL_PREFIX}{reason}", compute_capability) is not None
    ]
    peaks = [f"{name}.peak_sustained" for name in _BYTES]
    return (*_ACCOUNT, *stalls, *_BYTES, *peaks, *tensor, FMA_PEAK, *_CLOCKS, *_ARITHMETIC, *_PIPES)
