"""Data of the metric catalogue, one entry per metric; nothing is computed here.

Names of ncu metrics, their passes and what exists on which architecture are from captures on an
H200 (ncu 2025.3.1) and from the PerfWorks host library of CUPTI 13.0; the meaning of each counter
is from the metrics reference of the Nsight Compute Profiling Guide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Literal

from profiler.metrics.formulas import (
    Formula,
    cell_fact,
    gpu_fact,
    metric,
    metric_of_visit,
    needed_metrics,
)

Better = Literal["lower", "higher"]

DEFAULT = "default"
"""Key of `Metric.ncu` for every architecture that has no entry of its own."""

SECTOR_BYTES = 32
"""Bytes of one cache sector: the unit of traffic between L1, L2 and DRAM."""

TIME = "gpu__time_duration.sum"
"""The raw metric that percentages are weighted by when several kernels share a range."""

ISSUED = "smsp__inst_issued.sum"
"""The raw metric that values per issued instruction are weighted by."""


class PassClass(StrEnum):
    """Cost of collecting a metric, in passes."""

    STATIC = "static"
    """Known from the launch or the build: no counter, no pass."""
    TIMING = "timing"
    """Durations, of every visit, and cycles, where no other session can count them."""
    SINGLE = "single"
    """One pass on most GPUs: `profiler.metrics.passes` has the metrics that need more, and those
    that do not share a pass."""
    MULTI = "multi"
    """Needs several passes: the kernel is replayed."""
    DERIVED = "derived"
    """Computed from other metrics and from facts that the workload states."""


class Combine(StrEnum):
    """Rule by which the values of several kernels in one range become one value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    WEIGHTED = "weighted"
    """Mean weighted by `Metric.weight` (the duration unless the entry says otherwise)."""
    RATIO_OF_SUMS = "ratio_of_sums"
    """100 · Σ numerator ÷ Σ denominator; weighted by time where the parts did not come back."""


@dataclass(frozen=True)
class Metric:
    """One metric: its name in frames, its names in ncu, and how its values are combined."""

    name: str
    """Column name, with its unit as suffix."""
    label: str
    """Short form for people: table heads, axes."""
    unit: str
    """Unit as shown; empty for plain counts."""
    pass_class: PassClass
    definition: str
    """One or two sentences for the glossary."""
    source: str = "ncu"
    """Source of the value: `ncu`, `timer`, `ptxas`, `runner`, `counted` (the launches of a
    range) or `derived` (from its formula)."""
    better: Better | None = None
    """Direction that is better by itself; None without such a direction."""
    ncu: Mapping[str, str | None] = field(default_factory=dict)
    """Raw ncu name by compute capability (`12.0`), by its major number (`12`) or `default`.

    None: the metric does not exist there.
    """
    combine: Combine = Combine.SUM
    weight: str = TIME
    """Raw ncu name of the weight, for `Combine.WEIGHTED`."""
    numerator: str | None = None
    denominator: str | None = None
    """Raw ncu names of the parts, for `Combine.RATIO_OF_SUMS`."""
    scale: float = 1.0
    """Raw value in ncu's base unit times this is the value in `unit`."""
    beside: tuple[str, ...] = ()
    """Metrics that are collected in the same launch where both are asked for: a ceiling moves with
    the clock of its launch."""
    parts: tuple[str, ...] = ()
    """Metrics that add up to this one where they exist, and may be counted in its place: each in
    one pass. The ceiling is collected beside the first part, nearly all of it in new kernels."""
    formula: Formula | None = None
    """Formula of a derived metric; None for any other metric."""
    most: float = math.inf
    """Largest value that the formula can have of one launch. Above it, parts that were counted in
    different launches disagree, and the metric is missing."""
    fact: str | None = None
    """Field that the value is taken from: of `CellFacts` (`runner`) or of `KernelFacts` (`ptxas`;
    also where the build knows what ncu measures)."""
    aliases: tuple[str, ...] = ()
    """Other raw ncu names of the same quantity, in older versions or other sections."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the metrics that the formula reads, which are collected with this metric."""
        return needed_metrics(self.formula)


# Entries with common values.
_timer_metric = partial(Metric, pass_class=PassClass.STATIC, source="timer")
_duration_metric = partial(_timer_metric, unit="ns", better="lower")
_counter_metric = partial(Metric, pass_class=PassClass.SINGLE)
_traffic_metric = partial(_counter_metric, unit="byte", better="lower")
_runner_metric = partial(Metric, pass_class=PassClass.STATIC, source="runner")
_launch_metric = partial(Metric, pass_class=PassClass.STATIC, combine=Combine.MAX)
_ptxas_metric = partial(_launch_metric, unit="byte/thread", source="ptxas", better="lower")
_derived_metric = partial(Metric, pass_class=PassClass.DERIVED, source="derived", better="higher")
_percentage_metric = partial(Metric, unit="%", better="higher", combine=Combine.WEIGHTED)

_TIMING = (
    Metric(
        name="duration_ns",
        label="Duration",
        unit="ns",
        pass_class=PassClass.TIMING,
        definition="Time on the GPU from the start of a kernel to its end, added over the kernels "
        "of the range. Gaps between kernels are not in it.",
        better="lower",
        ncu={DEFAULT: TIME},
        aliases=("gpu__time_duration.avg", "gpu__time_duration.max", "gpu__time_duration"),
    ),
    Metric(
        name="cycles",
        label="Cycles",
        unit="cycle",
        pass_class=PassClass.TIMING,
        definition="Elapsed cycles of the part of the GPU (GPC) that took longest, at the clock of "
        "its SMs. Unlike the duration it does not change with the clock, except where memory, "
        "which has a clock of its own, is the limit.",
        better="lower",
        # Beside the duration, a launch on an H200 takes 16 ms with it and 20 ms with the SMs' own.
        ncu={DEFAULT: "gpc__cycles_elapsed.max"},
        aliases=("sm__cycles_elapsed.max", "smsp__cycles_elapsed.max"),
    ),
    _duration_metric(
        name="timer_duration_ns",
        label="Duration (timer)",
        definition="Time of one launch by CUDA events on a GPU, gaps between its kernels "
        "included, or by the host's clock on a CPU; outside of ncu. Never compared with the "
        "duration that ncu measures.",
    ),
    _duration_metric(
        name="cupti_duration_ns",
        label="Duration (CUPTI)",
        definition="Time of the kernels of one launch by CUPTI's range profiler in the process "
        "that launches, gaps left out. Never compared with the duration that ncu measures in a "
        "verdict.",
    ),
    _duration_metric(
        name="sustained_duration_ns",
        label="Duration (sustained)",
        definition="Time of one launch among many that follow each other without a gap, once clock "
        "and power have settled; gaps between the kernels of a launch included. Never compared "
        "with the duration of one launch on an idle GPU in a verdict.",
    ),
    _timer_metric(
        name="power_w",
        label="Power",
        unit="W",
        definition="Mean power of the GPU while launches follow each other (`sustained`), by "
        "NVML's energy counter. Of the whole board, with what it takes when idle.",
    ),
    _timer_metric(
        name="energy_j",
        label="Energy per launch",
        unit="J",
        definition="Mean power while launches follow each other, times the sustained duration of "
        "one.",
        better="lower",
    ),
    _timer_metric(
        name="sampled_power_w",
        label="Power (sampled)",
        unit="W",
        definition="Mean of the power that NVML names meanwhile: a check of the energy counter.",
    ),
    _timer_metric(
        name="sustained_clock_ghz",
        label="SM clock (sustained)",
        unit="GHz",
        definition="Mean SM clock while launches follow each other, by NVML.",
    ),
    _timer_metric(
        name="temperature_c",
        label="Temperature",
        unit="°C",
        definition="Mean temperature of the GPU while launches follow each other, by NVML.",
    ),
    _timer_metric(
        name="power_limited_pct",
        label="Held by the power limit",
        unit="%",
        definition="Readings, while launches follow each other, in which NVML names the power "
        "limit of the board as what holds the clock.",
    ),
    _duration_metric(
        name="profiler_duration_ns",
        label="Duration (torch.profiler)",
        definition="Time of the kernels of one launch as torch.profiler reports it, with a cold "
        "L2 cache; on a CPU the time that operators took themselves. Never compared with that of "
        "ncu in a verdict.",
    ),
    _duration_metric(
        name="wall_clock_duration_ns",
        label="Duration (wall clock)",
        definition="Wall clock from a launch until the device is idle again, mean of three after "
        "one to warm up: what a quick benchmark does. It holds the way to the device and back, and "
        "caches that the launch before has filled. Never compared with that of ncu in a verdict.",
    ),
    _duration_metric(
        name="nsys_duration_ns",
        label="Duration (nsys)",
        definition="Time of the kernels of one launch on the timeline of Nsight Systems, launches "
        "one after another without a flush of caches. Never compared with that of ncu in a "
        "verdict.",
    ),
    _duration_metric(
        name="torch_duration_ns",
        label="Duration (timeline of torch.profiler)",
        definition="Time of the kernels of one launch on the timeline of torch.profiler, launches "
        "one after another without a flush of caches; on a CPU the time of the launch. Never "
        "compared with that of ncu in a verdict.",
    ),
)

_LAUNCHES = (
    _launch_metric(
        name="registers",
        label="Registers",
        unit="register/thread",
        definition="Registers per thread; the largest where a range has several kernels.",
        fact="registers",
        ncu={DEFAULT: "launch__registers_per_thread"},
    ),
    _launch_metric(
        name="shared_static_bytes",
        label="Static shared memory",
        unit="byte/block",
        definition="Shared memory per block that the kernel declares with a fixed size.",
        fact="shared_bytes",
        ncu={DEFAULT: "launch__shared_mem_per_block_static"},
    ),
    _launch_metric(
        name="shared_dynamic_bytes",
        label="Dynamic shared memory",
        unit="byte/block",
        definition="Shared memory per block that the launch asks for.",
        ncu={DEFAULT: "launch__shared_mem_per_block_dynamic"},
    ),
    _launch_metric(
        name="block_size",
        label="Block size",
        unit="thread",
        definition="Threads per block; the largest where a range has several kernels.",
        ncu={DEFAULT: "launch__block_size"},
    ),
    _launch_metric(
        name="grid_size",
        label="Grid size",
        unit="block",
        definition="Blocks per launch; the largest where a range has several kernels.",
        ncu={DEFAULT: "launch__grid_size"},
    ),
    Metric(
        name="waves",
        label="Waves",
        unit="wave/SM",
        pass_class=PassClass.STATIC,
        definition="How often the blocks of the grid fill the GPU. Just above a whole number, the "
        "last wave leaves most SMs idle.",
        ncu={DEFAULT: "launch__waves_per_multiprocessor"},
        combine=Combine.WEIGHTED,
    ),
    _percentage_metric(
        name="theoretical_occupancy_pct",
        label="Theoretical occupancy",
        pass_class=PassClass.STATIC,
        definition="Warps that registers, shared memory and block size let reside on an SM, in "
        "percent of what the SM can hold.",
        ncu={DEFAULT: "sm__maximum_warps_per_active_cycle_pct"},
    ),
)

_OCCUPANCY_AND_TRAFFIC = (
    _percentage_metric(
        name="achieved_occupancy_pct",
        label="Achieved occupancy",
        pass_class=PassClass.SINGLE,
        definition="Warps that were resident on an SM on average while it was active, in percent "
        "of what the SM can hold.",
        ncu={DEFAULT: "sm__warps_active.avg.pct_of_peak_sustained_active"},
    ),
    _counter_metric(
        name="l1_hit_pct",
        label="L1 hit rate",
        unit="%",
        definition="Share of the sectors looked up in L1 that were there. Data that goes past L1 "
        "(TMA, bypassing asynchronous copies) is not looked up and not counted.",
        better="higher",
        ncu={DEFAULT: "l1tex__t_sector_hit_rate.pct"},
        combine=Combine.RATIO_OF_SUMS,
        numerator="l1tex__t_sectors_lookup_hit.sum",
        denominator="l1tex__t_sectors.sum",
    ),
    _traffic_metric(
        name="dram_read_bytes",
        label="DRAM read",
        definition="Bytes read from device memory.",
        ncu={DEFAULT: "dram__bytes_read.sum", "12": "dram__bytes_op_read.sum"},
    ),
    _traffic_metric(
        name="dram_write_bytes",
        label="DRAM written",
        definition="Bytes written to device memory. Results that still lie in L2 when the kernel "
        "ends are not in it.",
        ncu={DEFAULT: "dram__bytes_write.sum", "12": "dram__bytes_op_write.sum"},
    ),
    _traffic_metric(
        name="l2_bytes",
        label="L2 traffic",
        definition="Bytes that were asked of the L2 cache, from all sides: those of the SMs, and "
        "up to 0.1 MB a kernel of other units and of system memory, of which ncu sees more than "
        "CUPTI.",
        ncu={DEFAULT: "lts__t_bytes.sum"},
    ),
    _percentage_metric(
        name="tensor_pipe_pct",
        label="Tensor pipe",
        pass_class=PassClass.SINGLE,
        definition="Cycles in which the tensor pipe was busy, in percent of the cycles in which "
        "an SM was active. On compute capability 9.0 packed half-precision arithmetic of ordinary "
        "code counts too.",
        ncu={
            DEFAULT: "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "10": "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active",
        },
    ),
    _counter_metric(
        name="instructions",
        label="Instructions",
        unit="inst",
        definition="Warp instructions executed.",
        better="lower",
        ncu={DEFAULT: "smsp__inst_executed.sum"},
    ),
    _counter_metric(
        name="instructions_issued",
        label="Instructions issued",
        unit="inst",
        definition="Warp instructions issued. More than were executed means that some were issued "
        "again.",
        better="lower",
        ncu={DEFAULT: ISSUED},
    ),
)

_ROOF_PEAKS = (
    ("dram", "DRAM", "dram__bytes.sum"),
    ("l2", "L2", "lts__t_bytes.sum"),
    ("l1", "L1", "l1tex__t_bytes.sum"),
)
_ROOF_CLOCKS = (("dram", "DRAM"), ("lts", "L2"), ("sm", "SM"))
TENSOR_TYPES: Mapping[str, Mapping[str, str | None]] = MappingProxyType(
    {
        "bf16": {DEFAULT: "sm__ops_path_tensor_src_bf16_dst_fp32", "7": None},
        "fp16": {
            DEFAULT: "sm__ops_path_tensor_src_fp16_dst_fp32",
            "9.0": "sm__ops_path_tensor_src_fp16",
            "7": None,  # it counts products that are added up in fp16, no others
        },
        "tf32": {DEFAULT: "sm__ops_path_tensor_src_tf32_dst_fp32", "7": None},
        "fp8": {
            DEFAULT: None,
            "8.9": "sm__ops_path_tensor_src_fp8",
            "9.0": "sm__ops_path_tensor_src_fp8",
            "12": "sm__ops_path_tensor_src_fp8_dst_fp32",
        },
        "int8": {DEFAULT: "sm__ops_path_tensor_src_int8"},
        "fp64": {DEFAULT: "sm__ops_path_tensor_src_fp64", "7": None},
    }
)
"""Raw counter of the operations of tensor cores by type of the inputs, without its roll-up."""
TENSOR_PARTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "fp16": {
            "hgmma": "sm__ops_path_tensor_op_hgmma_src_fp16",
            "hmma_to_fp32": "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32",
            "hmma_to_fp16": "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16",
        }
    }
)
"""Counters whose sum is that of one of `TENSOR_TYPES` on compute capability 9.0, by type and part.
The sum takes ncu three passes there (0.21 s a launch of attention on an H200), each part one
(`benchmarks/speed/launch_costs.py`, which has seen them add up)."""
SPARSE_PEAK = 0.5
"""Dense share of ncu's peak of tensor operations, which is that of sparse inputs (seen on 9.0)."""


def _with_rollup(names: Mapping[str, str | None], rollup: str) -> dict[str, str | None]:
    return {key: None if name is None else f"{name}.{rollup}" for key, name in names.items()}


def _tensor_metrics(kind: str, names: Mapping[str, str | None]) -> tuple[Metric, ...]:
    label = kind.upper()
    return (
        _counter_metric(
            name=f"tensor_{kind}_ops",
            label=f"Tensor operations, {label}",
            unit="op",
            definition=f"Operations that tensor cores did on inputs of type {label}; a "
            "multiply-add counts as two.",
            ncu=_with_rollup(names, "sum"),
            beside=(f"tensor_{kind}_peak", "sm_clock_hz"),
            parts=tuple(_part_name(kind, part) for part in TENSOR_PARTS.get(kind, ())),
        ),
        _counter_metric(
            name=f"tensor_{kind}_peak",
            label=f"Peak of tensor cores, {label}",
            unit="op/cycle",
            definition=f"Dense operations on inputs of type {label} that all tensor cores together "
            "sustain in a cycle of the SM clock.",
            ncu=_with_rollup(names, "sum.peak_sustained"),
            combine=Combine.MAX,
            scale=1.0 if kind == "fp64" else SPARSE_PEAK,
        ),
        *(_tensor_part(kind, part) for part in TENSOR_PARTS.get(kind, ())),
    )


def _part_name(kind: str, part: str) -> str:
    return f"tensor_{kind}_{part}_ops"


def _tensor_part(kind: str, part: str) -> Metric:
    instruction, _, result = part.partition("_to_")
    sums = f", with sums in {result.upper()}" if result else ""
    first = part == next(iter(TENSOR_PARTS[kind]))
    return _counter_metric(
        name=_part_name(kind, part),
        label=f"Tensor operations, {kind.upper()} by {instruction.upper()}{sums}",
        unit="op",
        definition=f"Operations on inputs of type {kind.upper()} that {instruction.upper()} did"
        f"{sums}; a part of `tensor_{kind}_ops`, counted in its place where launches are many.",
        ncu={DEFAULT: None, "9.0": f"{TENSOR_PARTS[kind][part]}.sum"},
        beside=(f"tensor_{kind}_peak", "sm_clock_hz") if first else (),
    )


_ROOFLINE = (
    _traffic_metric(
        name="l1_bytes",
        label="L1 traffic",
        definition="Bytes that were asked of the L1 cache. What TMA moves goes past it.",
        ncu={DEFAULT: "l1tex__t_bytes.sum"},
    ),
    *(
        _counter_metric(
            name=f"{name}_peak",
            label=f"Peak of {label}",
            unit="byte/cycle",
            definition=f"Bytes that {label} sustains in a cycle of its own clock.",
            ncu={DEFAULT: f"{raw}.peak_sustained"},
            combine=Combine.MAX,
        )
        for name, label, raw in _ROOF_PEAKS
    ),
    *(
        _counter_metric(
            name=f"{name}_clock_hz",
            label=f"Clock of {label}",
            unit="Hz",
            definition=f"Cycles of {label} per second while the kernel ran.",
            ncu={DEFAULT: f"{name}__cycles_elapsed.avg.per_second"},
            combine=Combine.WEIGHTED,
        )
        for name, label in _ROOF_CLOCKS
    ),
    *(entry for kind, names in TENSOR_TYPES.items() for entry in _tensor_metrics(kind, names)),
    *(
        Metric(
            name=f"fp32_{name}",
            label=f"FP32 {label}",
            unit="inst",
            pass_class=PassClass.MULTI,
            definition=f"FP32 {label}, counted for each thread. ncu rewrites the machine code to "
            "count them: a kernel of 25 ms took 1.6 s.",
            ncu={DEFAULT: f"smsp__sass_thread_inst_executed_op_f{name}_pred_on.sum"},
            beside=("fp32_fma_peak", "sm_clock_hz"),
        )
        for name, label in (("fma", "multiply-adds"), ("add", "additions"), ("mul", "products"))
    ),
    _counter_metric(
        name="fp32_fma_peak",
        label="Peak of FP32 multiply-adds",
        unit="inst/cycle",
        definition="FP32 multiply-adds that all SMs together sustain in a cycle.",
        ncu={DEFAULT: "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"},
        combine=Combine.MAX,
    ),
)

CEILING_PARTS = frozenset(
    entry.name for entry in _ROOFLINE if entry.name.endswith(("_peak", "_clock_hz"))
)
"""Peaks and clocks, the factors of roofs' ceilings. Pages show the share of a roof instead."""

_MEMORY_AND_LIMITS = (
    _counter_metric(
        name="l2_hit_sectors",
        label="L2 hits",
        unit="sector",
        definition="Sectors of 32 bytes that were looked up in L2 and were there.",
        ncu={DEFAULT: "lts__t_sectors_lookup_hit.sum"},
    ),
    _counter_metric(
        name="bank_conflicts",
        label="Bank conflicts",
        unit="",
        definition="Extra turns of the shared-memory data banks because threads of one warp "
        "needed the same bank.",
        better="lower",
        ncu={DEFAULT: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
    ),
    _percentage_metric(
        name="compute_throughput_pct",
        label="Compute throughput",
        pass_class=PassClass.MULTI,
        definition="How busy the busiest part of the SM was, in percent of what it can sustain.",
        ncu={DEFAULT: "sm__throughput.avg.pct_of_peak_sustained_elapsed"},
    ),
    _percentage_metric(
        name="memory_throughput_pct",
        label="Memory throughput",
        pass_class=PassClass.MULTI,
        definition="How busy the busiest part of the memory system was (L1, L2, DRAM or the ways "
        "between them), in percent of what it can sustain.",
        ncu={DEFAULT: "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"},
    ),
    _percentage_metric(
        name="dram_throughput_pct",
        label="DRAM throughput",
        pass_class=PassClass.SINGLE,
        definition="How busy the DRAM interface was, in percent of what it can sustain.",
        ncu={DEFAULT: "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"},
    ),
    _traffic_metric(
        name="local_load_bytes",
        label="Local memory loads",
        definition="Bytes loaded from local memory: spilled registers, and arrays that the "
        "compiler could not keep in registers.",
        ncu={DEFAULT: "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"},
        scale=SECTOR_BYTES,
    ),
    _traffic_metric(
        name="local_store_bytes",
        label="Local memory stores",
        definition="Bytes stored to local memory: spilled registers, and arrays that the compiler "
        "could not keep in registers.",
        ncu={DEFAULT: "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"},
        scale=SECTOR_BYTES,
    ),
)

STALL_PREFIX = "stall_"

STALL_CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "barrier": "at a barrier for the other warps of the block",
        "branch_resolving": "for the target of a branch",
        "dispatch_stall": "for the dispatcher, which held instructions back",
        "drain": "at its end for its last stores to leave",
        "gmma": "for a warpgroup matrix instruction (compute capability 9.0 only)",
        "imc_miss": "for a constant that was not in the immediate-constant cache",
        "lg_throttle": "for room in the queue of local and global memory instructions",
        "long_scoreboard": "for data from global, local, surface or texture memory",
        "math_pipe_throttle": "for an arithmetic pipe that was busy",
        "membar": "at a memory fence",
        "mio_throttle": "for room in the queue of shared-memory and special-function instructions",
        "misc": "for a cause that has no counter of its own",
        "no_instruction": "for its next instruction: an instruction-cache miss or a jump",
        "not_selected": "ready to go while another warp was chosen",
        "selected": "for nothing: it issued",
        "short_scoreboard": "for the result of a shared-memory or special-function instruction",
        "sleeping": "because it was put to sleep",
        "tex_throttle": "for room in the queue of texture instructions",
        "wait": "for the fixed latency of its previous instruction",
    }
)
"""Cause of a warp's wait, by ncu's stall reason."""

_STALL_EXCEPTIONS: Mapping[str, Mapping[str, bool]] = {
    "gmma": {DEFAULT: False, "9.0": True},
    "imc_miss": {DEFAULT: True, "10": False, "12": False},
}
"""Whether a reason exists, by architecture; others exist on all."""


def _stall_metric(reason: str, cause: str) -> Metric:
    raw = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    exists = _STALL_EXCEPTIONS.get(reason, {DEFAULT: True})
    return Metric(
        name=f"{STALL_PREFIX}{reason}",
        label=f"Stall: {reason.replace('_', ' ')}",
        unit="warp/issue",
        pass_class=PassClass.MULTI,
        definition=f"Warps that waited {cause}, on average when an instruction was issued; about "
        "the cycles that a warp spends so between two of its instructions.",
        ncu={key: raw if here else None for key, here in exists.items()},
        combine=Combine.WEIGHTED,
        weight=ISSUED,
    )


_STALLS = tuple(_stall_metric(reason, cause) for reason, cause in STALL_CAUSES.items())

_BUILD = (
    _ptxas_metric(
        name="spill_store_bytes",
        label="Spill stores",
        definition="Bytes per thread in the store instructions that ptxas added to spill "
        "registers.",
        fact="spill_store_bytes",
    ),
    _ptxas_metric(
        name="spill_load_bytes",
        label="Spill loads",
        definition="Bytes per thread in the load instructions that ptxas added to bring spilled "
        "registers back.",
        fact="spill_load_bytes",
    ),
    _ptxas_metric(
        name="stack_bytes",
        label="Stack frame",
        definition="Local memory that ptxas reserved per thread.",
        fact="stack_bytes",
    ),
)

_RUNNER = (
    _runner_metric(
        name="compile_s",
        label="Compile time",
        unit="s",
        definition="Compilation and first call, as the workload measured it; never part of a "
        "sample.",
        fact="compile_seconds",
        better="lower",
    ),
    _runner_metric(
        name="buffer_bytes",
        label="Buffers",
        unit="byte",
        definition="Device memory that one call allocates, results included.",
        fact="buffer_bytes",
        better="lower",
    ),
    _runner_metric(
        name="peak_bytes",
        label="Peak memory",
        unit="byte",
        definition="The most device memory that one call has allocated at one time, beyond its "
        "inputs.",
        fact="peak_bytes",
        better="lower",
    ),
    _runner_metric(
        name="max_abs_error",
        label="Largest error",
        unit="",
        definition="Largest absolute difference from the reference.",
        fact="max_abs_error",
        better="lower",
    ),
    _runner_metric(
        name="max_rel_error",
        label="Largest relative error",
        unit="",
        definition="Largest difference from the reference, relative to it, over elements whose "
        "reference is not 0. Where results pass through 0, a rounding error of a tiny element "
        "makes it large: read it beside the largest error.",
        fact="max_rel_error",
        better="lower",
    ),
    _runner_metric(
        name="flops",
        label="Operations",
        unit="FLOP",
        definition="Operations that the workload states for the problem. Workloads of this project "
        "state what the field counts, matrix products alone where there are some: 4·b·h·s²·d for "
        "attention, half of it under a causal mask; 2·m·n·k for a product.",
        fact="flops",
    ),
    _runner_metric(
        name="non_matmul_flops",
        label="Non-matmul operations",
        unit="FLOP",
        definition="Operations beside matrix products that the workload states for the problem: "
        "attention's softmax, what follows a product. They are no part of TFLOP/s.",
        fact="non_matmul_flops",
    ),
)


_COUNTED = (
    Metric(
        name="kernels",
        label="Kernels",
        unit="",
        pass_class=PassClass.STATIC,
        definition="Kernels launched inside the range.",
        source="counted",
        better="lower",
    ),
)

_DRAM_BYTES = metric("dram_read_bytes") + metric("dram_write_bytes")
_DURATION_NS = metric("duration_ns")

_DERIVED = (
    _derived_metric(
        name="l2_hit_pct",
        label="L2 hit rate",
        unit="%",
        definition="L2 hits in percent of the sectors that were asked of L2. Hits and traffic are "
        "counted in different passes, as ncu does for its own hit rate: it varies more than other "
        "counters. Missing where they disagree, with more hits than accesses.",
        formula=100 * (metric("l2_hit_sectors") / (metric_of_visit("l2_bytes") / SECTOR_BYTES)),
        aliases=("lts__t_sector_hit_rate.pct",),
        most=100.0,
    ),
    _derived_metric(
        name="tflops",
        label="TFLOP/s",
        unit="TFLOP/s",
        definition="Operations that the workload states for the problem, divided by the duration. "
        "Attention: 4·b·h·s²·d, half of it under a causal mask; matrix product: 2·m·n·k.",
        formula=cell_fact("flops") / _DURATION_NS / 1e3,
    ),
    _derived_metric(
        name="gbps",
        label="Effective bandwidth",
        unit="GB/s",
        definition="Least traffic to device memory that the workload states for the problem, "
        "divided by the duration (1 GB = 10⁹ bytes).",
        formula=cell_fact("bytes") / _DURATION_NS,
    ),
    _derived_metric(
        name="dram_gbps",
        label="DRAM bandwidth",
        unit="GB/s",
        definition="Bytes read from and written to device memory, divided by the duration (1 GB = "
        "10⁹ bytes).",
        formula=_DRAM_BYTES / _DURATION_NS,
    ),
    _derived_metric(
        name="peak_dram_pct",
        label="DRAM bandwidth of peak",
        unit="%",
        definition="DRAM bandwidth in percent of what the memory clock and bus width of this GPU "
        "allow.",
        formula=100 * (_DRAM_BYTES / _DURATION_NS) * 1e9 / gpu_fact("peak_dram_bytes_per_s"),
    ),
    _derived_metric(
        name="memory_efficiency_pct",
        label="Memory efficiency",
        unit="%",
        definition="Least traffic that the workload states, in percent of the bytes that moved to "
        "and from device memory. Above 100 % when results stay in L2.",
        formula=100 * (cell_fact("bytes") / _DRAM_BYTES),
    ),
    _derived_metric(
        name="arithmetic_intensity",
        label="Arithmetic intensity",
        unit="FLOP/byte",
        definition="Operations that the workload states per byte that moved to or from device "
        "memory.",
        formula=cell_fact("flops") / _DRAM_BYTES,
        better=None,
    ),
    _derived_metric(
        name="sm_clock_ghz",
        label="SM clock",
        unit="GHz",
        definition="Cycles divided by duration: the clock that the SMs ran at.",
        formula=metric("cycles") / _DURATION_NS,
        better=None,
    ),
    _derived_metric(
        name="gflop_per_j",
        label="Operations per joule",
        unit="GFLOP/J",
        definition="Operations that the workload states for a launch, divided by its energy.",
        formula=cell_fact("flops") / metric("energy_j") / 1e9,
    ),
    _derived_metric(
        name="gb_per_j",
        label="Bytes per joule",
        unit="GB/J",
        definition="Least traffic to device memory that the workload states for a launch, divided "
        "by its energy (1 GB = 10⁹ bytes).",
        formula=cell_fact("bytes") / metric("energy_j") / 1e9,
    ),
)

_FP32_OPS = 2 * metric("fp32_fma") + metric("fp32_add") + metric("fp32_mul")
_SM_CLOCK = metric("sm_clock_hz")


def _share_of_roof(label: str, amount: Formula, peak: str, clock: str) -> tuple[str, Formula]:
    """Definition and formula of the share of a roof that a kernel reaches."""
    definition = (
        f"Rate of {label} in percent of what the hardware sustains at the clock of the same launch."
    )
    return definition, 100 * (amount / _DURATION_NS * 1e9 / (metric(peak) * metric(clock)))


_ROOFS = {
    "dram": _share_of_roof("DRAM traffic", _DRAM_BYTES, "dram_peak", "dram_clock_hz"),
    "l2": _share_of_roof("L2 traffic", metric("l2_bytes"), "l2_peak", "lts_clock_hz"),
    "l1": _share_of_roof("L1 traffic", metric("l1_bytes"), "l1_peak", "sm_clock_hz"),
    **{
        f"tensor_{kind}": _share_of_roof(
            f"tensor operations on {kind.upper()}",
            metric(f"tensor_{kind}_ops"),
            f"tensor_{kind}_peak",
            "sm_clock_hz",
        )
        for kind in TENSOR_TYPES
    },
    "fp32": (
        "Rate of FP32 operations (a multiply-add counts as two) in percent of what the hardware "
        "sustains at the clock of the same launch.",
        100 * (_FP32_OPS / _DURATION_NS * 1e9 / (2 * metric("fp32_fma_peak") * _SM_CLOCK)),
    ),
}
ROOF_PREFIX = "roof_"


def _roof_label(roof: str) -> str:
    """Label of a roof as on pages: `L2 roof`, `BF16 tensor roof`."""
    kind = roof.removeprefix("tensor_")
    return f"{kind.upper()} roof" if kind == roof else f"{kind.upper()} tensor roof"


_ROOF_METRICS = tuple(
    _derived_metric(
        name=f"{ROOF_PREFIX}{name}_pct",
        label=_roof_label(name),
        unit="%",
        definition=definition,
        formula=formula,
    )
    for name, (definition, formula) in _ROOFS.items()
)

CATALOGUE: Mapping[str, Metric] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            *_TIMING,
            *_OCCUPANCY_AND_TRAFFIC,
            *_ROOFLINE,
            *_MEMORY_AND_LIMITS,
            *_STALLS,
            *_LAUNCHES,
            *_BUILD,
            *_RUNNER,
            *_COUNTED,
            *_DERIVED,
            *_ROOF_METRICS,
        )
    }
)
"""Every metric with a name of this project."""

_STALL_NAMES = tuple(entry.name for entry in _STALLS if entry.name != "stall_selected")

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "timing": ("duration_ns", "cycles"),
        "roofline": tuple(entry.name for entry in _ROOF_METRICS),
        # Without the counters for which ncu rewrites the machine code: those of FP32 operations.
        "tensor_roofline": (
            *(entry.name for entry in _ROOF_METRICS if entry.name != "roof_fp32_pct"),
            "fp32_fma_peak",
        ),
        "default": (
            "duration_ns",
            "cycles",
            "registers",
            "shared_static_bytes",
            "shared_dynamic_bytes",
            "waves",
            "theoretical_occupancy_pct",
            "achieved_occupancy_pct",
            "l1_hit_pct",
            "l2_hit_pct",
            "dram_read_bytes",
            "dram_write_bytes",
            "l2_bytes",
            "bank_conflicts",
            "compute_throughput_pct",
            "memory_throughput_pct",
            "dram_throughput_pct",
            "tensor_pipe_pct",
            "instructions",
            "stall_long_scoreboard",
            "stall_short_scoreboard",
            "stall_barrier",
            "stall_math_pipe_throttle",
            "stall_mio_throttle",
            "stall_lg_throttle",
            "stall_wait",
            "stall_not_selected",
            *(entry.name for entry in _ROOF_METRICS),
        ),
        "launch": tuple(entry.name for entry in _LAUNCHES),
        "memory": (
            "l1_hit_pct",
            "l2_hit_pct",
            "dram_read_bytes",
            "dram_write_bytes",
            "l2_bytes",
            "bank_conflicts",
            "memory_throughput_pct",
            "dram_throughput_pct",
        ),
        "spills": ("local_load_bytes", "local_store_bytes"),
        "stalls": _STALL_NAMES,
        "all": tuple(
            entry.name
            for entry in CATALOGUE.values()
            if entry.ncu and all(entry.name not in total.parts for total in CATALOGUE.values())
        ),
    }
)
"""Names that stand for several metrics in `collect.metrics`."""
