"""Raw ncu metrics of an explain session, beside those of its sections.

Names and their presence by architecture: `ncu --query-metrics --chips …` (2025.3.1), see
`profiler.metrics.queries`. Only metrics that are known to exist are requested.
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
    "Occupancy",
    "LaunchStats",
    "InstructionStats",
    "WorkloadDistribution",
    "SourceCounters",
)
"""Sections of ncu (2025.3.1, `ncu --list-sections`) with the counters of a profile, and whose rules
advise on it."""

SAMPLES = "PmSampling"
"""Section of samples inside a kernel: 2 of 23 passes on an H200. Its rules name no causes."""

TABLES = "MemoryWorkloadAnalysis_Tables"
"""Section with half of the time of an explain session (H200: 10.8 s of a process that takes 4.5 s
without it): requested only where the names of its counters that are read here are unknown."""
_LOCAL_OUTPUT = (
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_{}.sum.pct_of_peak_sustained_elapsed"
)
_TABLE_METRICS: Mapping[str, tuple[str, ...]] = {
    "9.0": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",
        "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed",
        "l1tex__m_l1tex2xbar_req_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed",
        _LOCAL_OUTPUT.format("ld"),
        _LOCAL_OUTPUT.format("st"),
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st_lookup_miss.sum",
        "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed",
    )
}
"""Counters of memory that causes and roofs read, of any section, by compute capability.
Each stands in a raw page of an H200."""

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


def explain_sections(compute_capability: str | None) -> tuple[str, ...]:
    """Sections of an explain session on an architecture."""
    sections = (*SECTIONS, SAMPLES)
    return sections if compute_capability in _TABLE_METRICS else (*sections, TABLES)


def explain_metrics(compute_capability: str | None) -> tuple[str, ...]:
    """Raw names that an explain session requests beside its sections, on an architecture."""
    tensor = ncu_names(
        (f"tensor_{kind}_{quantity}" for kind in TENSOR_TYPES for quantity in ("ops", "peak")),
        compute_capability,
    )
    stalls = [
        f"smsp__average_warp_latency_issue_stalled_{reason}.ratio"
        for reason in STALL_CAUSES
        if ncu_name(f"{STALL_PREFIX}{reason}", compute_capability) is not None
    ]
    peaks = [f"{name}.peak_sustained" for name in _BYTES]
    memory = _TABLE_METRICS.get(compute_capability or "", ())
    arithmetic = (*tensor, FMA_PEAK, *_CLOCKS, *_PIPES)
    return (*_ACCOUNT, *stalls, *_BYTES, *peaks, *memory, *arithmetic)
