"""Causes of time that counters show: of each, the share of a kernel's duration that it may cost.

A share is an estimate: the part of the work that the cause makes (excess sectors of all sectors,
conflicting wavefronts of all wavefronts, spill instructions of all) times how much the kernel
depends on the unit that does it, which is how busy that unit is, or how much of their time warps
wait for it, whichever is more. Shares of different causes overlap and are never added. What ncu's
rules estimate is not used: the two stand beside each other.

The counters are described in the metrics reference of the Nsight Compute Profiling Guide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from profiler.analyse.why.kernel_profiles import ACTIVE_AVERAGE, DURATION, ELAPSED, KernelProfile
from profiler.analyse.why.sass_classes import instruction_class
from profiler.metrics.explain import operations

LEAST_SHARE = 0.02
"""Smaller shares of the duration are not told: counters of two passes differ by as much."""
UNFUSED = "unfused_operations"
"""The cause that is of all kernels of a launch together."""
_DRAM = "dram__bytes.sum"
_LINE_BYTES = 16
"""Widest access of a thread in one instruction."""
_SECTOR_BYTES = 32
_MATRIX_SHARE = 0.5
"""Multiply-adds of all instructions of a thread from which on it does too."""
_MATRIX_LOADS = 1 / 64
"""Loads from shared memory per multiply-add from which on a kernel counts as a product of tiles."""


@dataclass(frozen=True)
class Evidence:
    """One counter behind a cause."""

    value: float
    unit: str
    metric: str
    """Raw name of ncu, or the column of the source page."""


@dataclass(frozen=True)
class Cause:
    """One cause, with the share of the duration that it may cost."""

    name: str
    share: float
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """By what it says, in words of the field."""


@dataclass(frozen=True, eq=False)
class Facts:
    """One launch, and what the workload states of it."""

    profile: KernelProfile
    least_bytes: float
    """Compulsory traffic to device memory as the workload states it; NaN where it does not."""
    _sums: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)
    """Sums by opcode of the columns that were asked for: each is, many times."""

    def value(self, raw: str) -> float:
        """A raw metric; 0 where it was not measured, so that a cause of it is not told."""
        value = self.profile.value(raw)
        return 0.0 if math.isnan(value) else value

    def percent(self, raw: str) -> float:
        """A percentage as a share, at most 1."""
        return min(self.value(raw) / 100, 1.0)

    def waits(self, *reasons: str) -> float:
        """Share of a warp's time that it waits for these reasons."""
        stalls, total = self.profile.stalls(), self.profile.latency
        return sum(stalls.get(reason, 0.0) for reason in reasons) / total if total else 0.0

    def column(self, name: str, prefix: str = "") -> float:
        """Sum of a column of the source page over opcodes that begin with a prefix."""
        sums = self.by_opcode(name)
        return sum((total for opcode, total in sums.items() if opcode.startswith(prefix)), 0.0)

    def by_opcode(self, name: str) -> Mapping[str, float]:
        """Sum of a column of the source page by opcode; empty where there is none."""
        if name not in self._sums:
            self._sums[name] = self._count(name)
        return self._sums[name]

    def _count(self, name: str) -> dict[str, float]:
        rows = self.profile.instructions
        if rows is None or name not in rows:
            return {}
        numbers = pd.to_numeric(rows[name], errors="coerce")
        sums = numbers.groupby(rows["opcode"].astype(str)).sum()
        return {str(opcode): float(total) for opcode, total in sums.items()}

    @property
    def issuing(self) -> float:
        """Share of the cycles in which a scheduler issues."""
        return self.percent("smsp__issue_active.avg.pct_of_peak_sustained_active")

    @property
    def memory(self) -> float:
        """Share of the duration that depends on the way to L2 and DRAM."""
        busy = max(
            self.percent("lts__t_sectors.avg.pct_of_peak_sustained_elapsed"),
            self.percent("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
            self.percent("l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed"),
            self.percent("l1tex__m_l1tex2xbar_req_cycles_active.avg.pct_of_peak_sustained_elapsed"),
        )
        return max(busy, self.waits("long_scoreboard", "lg_throttle", "drain"))

    @property
    def load_store(self) -> float:
        """Share of the duration that depends on the load-store unit and its data stage."""
        busy = max(
            self.percent("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
            self.percent("l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"),
            self.percent("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"),
        )
        return max(busy, self.waits("lg_throttle", "mio_throttle", "short_scoreboard"))


def causes(profile: KernelProfile, least_bytes: float = math.nan) -> tuple[Cause, ...]:
    """Causes that the counters of a launch show, by their share, largest first."""
    facts = Facts(profile, least_bytes)
    found = [Cause(name, *detect(facts)) for name, detect in _DETECTORS.items()]
    shown = [cause for cause in found if cause.share >= LEAST_SHARE]
    return tuple(sorted(shown, key=lambda cause: -cause.share))


def unfused(profiles: Sequence[KernelProfile], least_bytes: float = math.nan) -> Cause | None:
    """Intermediate results of several kernels as a cause, by its share of all their durations.

    The part of their bytes of device memory beyond those that the problem needs, times how much
    they depend on memory, by their durations. None of one kernel, below LEAST_SHARE, and where the
    bytes are not stated or were not counted.
    """
    duration_ns = sum(profile.value(DURATION) for profile in profiles)
    if len(profiles) < 2 or not duration_ns > 0:
        return None
    moved = sum(profile.value(_DRAM) for profile in profiles)
    depends = sum(Facts(item, least_bytes).memory * item.value(DURATION) for item in profiles)
    share, evidence = _more_than_needed(moved, least_bytes, depends / duration_ns)
    return Cause(UNFUSED, share, evidence) if share >= LEAST_SHARE else None


Detected = tuple[float, Mapping[str, Evidence]]


def _part(amount: float, of: float) -> float:
    return min(max(amount / of, 0.0), 1.0) if of else 0.0


def _uncoalesced(facts: Facts, opcode: str) -> Detected:
    excess = facts.column("global_sectors_excessive", opcode)
    every = facts.column("global_sectors")
    evidence = {
        "sectors beyond those needed": Evidence(
            excess, "sector", "L2 Theoretical Sectors Global Excessive"
        ),
        "sectors of all global accesses": Evidence(
            every, "sector", "L2 Theoretical Sectors Global"
        ),
    }
    return _part(excess, every) * facts.memory, evidence


def _uncoalesced_loads(facts: Facts) -> Detected:
    return _uncoalesced(facts, "LD")


def _uncoalesced_stores(facts: Facts) -> Detected:
    return _uncoalesced(facts, "ST")


def _bank_conflicts(facts: Facts) -> Detected:
    excess = facts.column("shared_wavefronts_excessive")
    every = facts.value("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
    evidence = {
        "wavefronts beyond those needed": Evidence(
            excess, "wavefront", "L1 Wavefronts Shared Excessive"
        ),
        "wavefronts of shared memory": Evidence(
            every, "wavefront", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
        ),
    }
    shared = _part(
        facts.value("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"),
        facts.value("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
    )
    return _part(excess, every) * facts.load_store * max(shared, 0.5), evidence


def _local_instructions(facts: Facts) -> float:
    return facts.value("sass__inst_executed_local_loads") + facts.value(
        "sass__inst_executed_local_stores"
    )


_LOCAL_OUTPUT = "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_{}.sum.{}"
_PEAK = "pct_of_peak_sustained_elapsed"
_LOCAL_MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}_lookup_miss.sum"


def _local_cost(facts: Facts) -> float:
    """Part of the duration for local memory: its wavefronts in L1, its misses on the way to L2."""
    wavefronts = sum(facts.value(_LOCAL_OUTPUT.format(op, _PEAK)) for op in ("ld", "st"))
    every = facts.value(f"l1tex__data_pipe_lsu_wavefronts.avg.{_PEAK}")
    misses = sum(facts.value(_LOCAL_MISSES.format(op)) for op in ("ld", "st"))
    in_l2 = _part(misses * _SECTOR_BYTES, facts.value("lts__t_bytes.sum"))
    return max(_part(wavefronts, every) * facts.load_store, in_l2 * facts.memory)


def _local_memory(facts: Facts, instructions: float) -> Detected:
    """Cost of some of the instructions on local memory."""
    executed = facts.value("smsp__inst_executed.sum")
    of_local = _part(instructions, _local_instructions(facts))
    evidence = {
        "instructions on local memory": Evidence(
            instructions, "inst", "sass__inst_executed_register_spilling"
        ),
        "instructions executed": Evidence(executed, "inst", "smsp__inst_executed.sum"),
    }
    share = max(of_local * _local_cost(facts), _part(instructions, executed) * facts.issuing)
    return share, evidence


def _register_spills(facts: Facts) -> Detected:
    return _local_memory(facts, facts.value("sass__inst_executed_register_spilling"))


def _local_arrays(facts: Facts) -> Detected:
    spills = facts.value("sass__inst_executed_register_spilling")
    return _local_memory(facts, max(_local_instructions(facts) - spills, 0.0))


_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared_memory": "launch__occupancy_limit_shared_mem",
    "block_size": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}


def _occupancy(facts: Facts, limit: str) -> Detected:
    """Issue slots that stay empty while the SM could hold more warps, if this is what limits it."""
    limits = {name: facts.value(raw) for name, raw in _LIMITS.items() if facts.value(raw) > 0}
    theoretical = facts.percent(_MOST_WARPS)
    if not limits or not theoretical or limits.get(limit) != min(limits.values()):
        return 0.0, {}
    busiest = max(facts.issuing, facts.percent(_COMPUTE), facts.percent(_MEMORY_THROUGHPUT))
    evidence = {
        "theoretical occupancy": Evidence(100 * theoretical, "%", _MOST_WARPS),
        "blocks per SM": Evidence(limits[limit], "block", _LIMITS[limit]),
        "busiest unit": Evidence(100 * busiest, "%", _COMPUTE),
    }
    # More warps hide only what warps wait for because of latencies.
    latencies = facts.waits("long_scoreboard", "short_scoreboard", "wait")
    return (1 - theoretical) * (1 - busiest) * latencies, evidence


_MOST_WARPS = "sm__maximum_warps_per_active_cycle_pct"
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY_THROUGHPUT = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def _occupancy_registers(facts: Facts) -> Detected:
    return _occupancy(facts, "registers")


def _occupancy_shared_memory(facts: Facts) -> Detected:
    return _occupancy(facts, "shared_memory")


def _idle_part(facts: Facts) -> float:
    """Part of the elapsed cycles in which the average scheduler has no warp."""
    active, elapsed = facts.value(ACTIVE_AVERAGE), facts.value(ELAPSED)
    return 1 - _part(active, elapsed) if active and elapsed else 0.0


_WAVES = "launch__waves_per_multiprocessor"


def _tail(facts: Facts) -> float:
    """Part of the last wave that stays empty, of all waves."""
    waves = facts.value(_WAVES)
    return 1 - waves / math.ceil(waves) if waves > 0 else 0.0


def _idle_evidence(facts: Facts) -> dict[str, Evidence]:
    return {
        "waves": Evidence(facts.value(_WAVES), "wave/SM", _WAVES),
        "cycles without a warp": Evidence(100 * _idle_part(facts), "%", ACTIVE_AVERAGE),
    }


def _tail_wave(facts: Facts) -> Detected:
    idle, tail = _idle_part(facts), _tail(facts)
    return (min(idle, tail) if tail >= idle / 2 else 0.0), _idle_evidence(facts)


def _block_imbalance(facts: Facts) -> Detected:
    idle, tail = _idle_part(facts), _tail(facts)
    return (0.0 if tail >= idle / 2 else idle - tail), _idle_evidence(facts)


_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"


def _divergence(facts: Facts) -> Detected:
    threads = facts.value(_THREADS)
    if not threads:
        return 0.0, {}
    evidence = {"threads per instruction": Evidence(threads, "thread", _THREADS)}
    return (1 - threads / 32) * max(facts.issuing, facts.percent(_COMPUTE), 0.5), evidence


_ATOMIC_BUSY = "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed"
_ATOMIC_AVERAGE = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"


def _atomic_contention(facts: Facts) -> Detected:
    """Atomics of one slice of L2 while the others have none, by how busy or waited for it is."""
    busiest, average = facts.percent(_ATOMIC_BUSY), facts.percent(_ATOMIC_AVERAGE)
    waits = facts.waits("long_scoreboard", "lg_throttle", "drain") * _of_memory(facts, _ATOMICS)
    uneven = 1 - _part(average, busiest) if busiest else 0.0
    evidence = {
        "busiest slice of L2 with atomics": Evidence(100 * busiest, "%", _ATOMIC_BUSY),
        "average slice": Evidence(100 * average, "%", _ATOMIC_AVERAGE),
    }
    return uneven * max(busiest, waits), evidence


_ATOMICS = ("ATOM", "RED")
_ACCESSES = ("LDG", "STG", "LDS", "STS")


def _of_memory(facts: Facts, opcodes: tuple[str, ...]) -> float:
    """Part of the executed memory instructions that have these opcodes."""
    local = ("LDL", "STL")
    every = sum(facts.column("executed", name) for name in (*_ATOMICS, *_ACCESSES, *local))
    return _part(sum(facts.column("executed", name) for name in opcodes), every)


def _l2_reuse(facts: Facts) -> Detected:
    return _more_than_needed(facts.value(_DRAM), facts.least_bytes, facts.memory)


def _more_than_needed(moved: float, least_bytes: float, memory: float) -> Detected:
    """Bytes of DRAM beyond those of the problem, where `memory` of the time depends on them."""
    excess = moved - least_bytes
    if not excess > 0:  # also where the workload states nothing, or they were not counted
        return 0.0, {}
    evidence = {
        "bytes of DRAM": Evidence(moved, "byte", _DRAM),
        "bytes that the problem needs": Evidence(least_bytes, "byte", "bytes (workload)"),
    }
    return _part(excess, moved) * memory, evidence


def _dependent_chain(facts: Facts) -> Detected:
    share = facts.waits("wait") * (1 - facts.issuing)
    metric = "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"
    return share, {"of a warp's time": Evidence(100 * facts.waits("wait"), "%", metric)}


def _few_loads_in_flight(facts: Facts) -> Detected:
    """Waits for memory that is not busy, in as many warps as the limits of the SM allow.

    What more warps would hide is the share of an occupancy limit; the rest takes more loads in
    flight in each warp (Little's law: bytes in flight are throughput times latency).
    """
    waits, occupancy = facts.waits("long_scoreboard"), facts.percent(_MOST_WARPS)
    busiest = max(facts.issuing, facts.percent(_COMPUTE), facts.percent(_MEMORY_THROUGHPUT))
    metric = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    evidence = {
        "of a warp's time": Evidence(100 * waits, "%", metric),
        "busiest unit": Evidence(100 * busiest, "%", _MEMORY_THROUGHPUT),
        "theoretical occupancy": Evidence(100 * occupancy, "%", _MOST_WARPS),
    }
    return occupancy * (1 - busiest) * waits, evidence


def _barrier_waits(facts: Facts) -> Detected:
    share = facts.waits("barrier", "membar")
    metric = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
    return share, {"of a warp's time": Evidence(100 * share, "%", metric)}


def _narrow_accesses(facts: Facts) -> Detected:
    """Load-store slots that wider accesses would save, where that unit is the limit."""
    rows = facts.profile.instructions
    if rows is None:
        return 0.0, {}
    loads = rows[rows["opcode"].astype(str).str.startswith(_ACCESSES)]
    executed = pd.to_numeric(loads["executed"], errors="coerce").fillna(0.0)
    sizes = pd.to_numeric(loads["access_size"], errors="coerce") / 8
    sized = sizes.notna() & (executed > 0)
    if not sized.any():
        return 0.0, {}
    average = float((sizes[sized] * executed[sized]).sum() / executed[sized].sum())
    busy = max(
        facts.percent("l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"),
        facts.percent("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"),
        facts.waits("lg_throttle"),
    )
    evidence = {
        "bytes per thread and access": Evidence(average, "byte", "Access Size"),
        "load-store unit": Evidence(
            100 * busy, "%", "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
        ),
    }
    narrow = max(1 - average / _LINE_BYTES, 0.0)
    return narrow * busy * _of_memory(facts, _ACCESSES), evidence


_FMA_PIPE = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"


def _no_tensor_cores(facts: Facts) -> Detected:
    """The multiply-adds of a product of tiles on the FMA pipe, where no tensor core works."""
    values = facts.profile.values
    tensor = sum(value for name, value in values.items() if _is_tensor(name))
    multiplied = operations(values, "f") / 2
    loads = 32 * facts.column("executed", "LDS")
    threads = 32 * facts.value("smsp__inst_executed.sum")
    of_tiles = loads >= _MATRIX_LOADS * multiplied and multiplied >= _MATRIX_SHARE * threads
    if tensor > 0 or not multiplied > 0 or not of_tiles:
        return 0.0, {}
    busy = facts.percent(_FMA_PIPE)
    evidence = {
        "tensor operations": Evidence(tensor, "op", "sm__ops_path_tensor_*.sum"),
        "FMA pipe": Evidence(100 * busy, "%", _FMA_PIPE),
    }
    return busy, evidence


def _is_tensor(name: str) -> bool:
    return name.startswith("sm__ops_path_tensor") and name.endswith(".sum")


_FP64_PIPE = "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"


_DOUBLE = ("DADD", "DFMA", "DMUL", "DSETP", "DMNMX")


def _fp64(facts: Facts) -> Detected:
    """Arithmetic in double precision, and conversions to and from it."""
    rows = facts.profile.instructions
    busy = facts.percent(_FP64_PIPE)
    if rows is None:
        return busy, {"FP64 pipe": Evidence(100 * busy, "%", _FP64_PIPE)}
    opcodes = rows["opcode"].astype(str)
    double = opcodes.str.startswith(_DOUBLE) | opcodes.str.contains(".F64", regex=False)
    executed = pd.to_numeric(rows["executed"], errors="coerce")
    instructions, every = float(executed[double].sum()), float(executed.sum())
    waits = facts.waits("mio_throttle", "short_scoreboard", "math_pipe_throttle")
    share = _part(instructions, every) * max(busy, waits, facts.percent(_COMPUTE))
    evidence = {
        "FP64 instructions": Evidence(instructions, "inst", "Instructions Executed"),
        "FP64 pipe": Evidence(100 * busy, "%", _FP64_PIPE),
    }
    return share, evidence


_INTEGERS = ("integer", "compare")
"""Classes of instructions that compute with integers and predicates."""


def _integer_arithmetic(facts: Facts) -> Detected:
    """Issue slots of addresses and remainders, where issuing is the limit."""
    executed = facts.by_opcode("executed")
    integer = sum(
        total for opcode, total in executed.items() if instruction_class(opcode) in _INTEGERS
    )
    every = sum(executed.values())
    evidence = {
        "integer instructions": Evidence(integer, "inst", "Instructions Executed"),
        "instructions executed": Evidence(every, "inst", "Instructions Executed"),
    }
    return _part(integer, every) * max(facts.issuing, facts.percent(_COMPUTE)), evidence


_DETECTORS: Mapping[str, Callable[[Facts], Detected]] = {
    "uncoalesced_loads": _uncoalesced_loads,
    "uncoalesced_stores": _uncoalesced_stores,
    "bank_conflicts": _bank_conflicts,
    "register_spills": _register_spills,
    "local_arrays": _local_arrays,
    "occupancy_registers": _occupancy_registers,
    "occupancy_shared_memory": _occupancy_shared_memory,
    "tail_wave": _tail_wave,
    "block_imbalance": _block_imbalance,
    "divergence": _divergence,
    "atomic_contention": _atomic_contention,
    "l2_reuse": _l2_reuse,
    "dependent_chain": _dependent_chain,
    "few_loads_in_flight": _few_loads_in_flight,
    "barrier_waits": _barrier_waits,
    "narrow_accesses": _narrow_accesses,
    "no_tensor_cores": _no_tensor_cores,
    "fp64": _fp64,
    "integer_arithmetic": _integer_arithmetic,
}
CAUSES = tuple(_DETECTORS)
"""Names of the causes of one launch."""


def cost_ns(cause: Cause, profile: KernelProfile) -> float:
    """Share of a cause as time of its launch."""
    return cause.share * profile.value(DURATION)
