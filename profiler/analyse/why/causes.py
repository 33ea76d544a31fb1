"""Causes of time that counters show: of each, an estimated share of a kernel's duration.

A share is an estimate: the part of the work that the cause makes (excess sectors of all sectors,
conflicting wavefronts of all wavefronts, spill instructions of all) times how much the kernel
depends on the unit that does it, which is how busy that unit is, or how much of their time warps
wait for it, whichever is more. It is cut to the idle share of the units whose work stays the same:
a kernel at 96 % of the tensor cores' peak has 4 % to gain from shorter waits, however long they
are. Shares of different causes overlap and are never added. What ncu's rules estimate is not used:
the two stand beside each other.

The counters are described in the metrics reference of the Nsight Compute Profiling Guide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pandas as pd

from profiler.analyse.why.filling import FILLING, MOST_WARPS, active_warps
from profiler.analyse.why.kernel_profiles import (
    BUSIEST_SLICE,
    COMPUTE,
    DRAM_BYTES,
    DURATION,
    ELAPSED_PEAK,
    L2_BYTES,
    SHARED_WAVEFRONTS,
    SHARED_WAVEFRONTS_PCT,
    SPILLING,
    UNITS,
    Detected,
    Evidence,
    Facts,
    KernelProfile,
    part,
    stall_per_issue,
)
from profiler.analyse.why.roofs import fp32_operations
from profiler.analyse.why.sass_code import in_slow_path, in_swap_loop, instruction_class
from profiler.metrics.catalogue import SECTOR_BYTES
from profiler.parse.ncu_source import EXECUTED, NOT_ISSUED, SAMPLES_NOT_ISSUED, STALL

LEAST_SHARE = 0.02
"""Smaller shares of the duration are not reported: counters of two passes differ by as much."""
UNFUSED = "unfused_operations"
"""The cause that concerns all kernels of a visit together."""
_LINE_BYTES = 16
"""Widest access of a thread in one instruction."""
_BANK_BYTES = 4
"""Bytes of a thread from which on an access of a warp fills its wavefronts, of 128 bytes."""
_COUNTED_BY_L2 = 2
"""Most counts by L2 of one sector that the SMs ask for: also on its way from or to DRAM (1.6
times in kernels with nothing but such accesses, on an H200)."""
_BUSY_PIPE = 0.6
"""From this part of its peak on a pipe limits, as a roof does."""
_USUALLY_OFF = 0.2
"""Part of all threads that predicates switch off in code that has nothing wrong with it, at most:
0 to 16 % in the explained kernels of this project's recordings."""
_MATRIX_SHARE = 0.5
"""Multiply-adds of all instructions of a thread from which on a kernel counts as such a product."""
_MATRIX_LOADS = 1 / 64
"""Loads from shared memory per multiply-add from which on a kernel counts as a product of tiles."""
_LIMIT_OF_WARPS = "occupancy_"
"""Prefix of the names of causes that keep warps away from an SM."""
_SYMPTOMS = frozenset({"tensor_core_waits", "dependent_chain"})
"""Waits that the warps of other blocks would hide, if the limits let them in. Waits for memory are
none: `few_loads_in_flight` is only what more warps would not hide."""
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Cause:
    """One cause, with its estimated share of the duration."""

    name: str
    share: float
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """Counters behind the cause, by what they mean in words of the field."""


def causes(profile: KernelProfile, least_bytes: float = math.nan) -> tuple[Cause, ...]:
    """Causes that the counters of a launch show, largest share first, reasons before symptoms."""
    facts = Facts(profile, least_bytes)
    estimates = [(name, *detect(facts)) for name, detect in _DETECTORS.items()]
    # Among causes that one unit bounds to the same share, the largest estimate comes first.
    bounded = [
        Cause(
            name, min(share, facts.share_without_other_units(_UNITS_OF.get(name, _NONE))), evidence
        )
        for name, share, evidence in sorted(estimates, key=lambda estimate: -estimate[1])
    ]
    reported = [cause for cause in bounded if cause.share >= LEAST_SHARE]
    by_share = sorted(reported, key=lambda cause: -cause.share)
    return limits_first(by_share, lambda cause: cause.name)


def limits_first(items: Sequence[_Item], name: Callable[[_Item], str]) -> tuple[_Item, ...]:
    """Items in their order, but limits on warps before the waits that more warps would hide.

    Such a wait is a symptom of the limit, however much longer it is: where shared memory leaves one
    block to an SM, nothing runs while its warps wait for tensor cores.
    """
    first_symptom = next(
        (at for at, item in enumerate(items) if name(item) in _SYMPTOMS), len(items)
    )
    following = items[first_symptom:]
    reasons = [item for item in following if name(item).startswith(_LIMIT_OF_WARPS)]
    other_items = [item for item in following if not name(item).startswith(_LIMIT_OF_WARPS)]
    return (*items[:first_symptom], *reasons, *other_items)


def unfused(profiles: Sequence[KernelProfile], least_bytes: float = math.nan) -> Cause | None:
    """Intermediate results of several kernels as a cause, by its share of all their durations.

    The part of their bytes of device memory beyond those that the problem needs, times how much
    they depend on memory, by their durations. None of one kernel, below LEAST_SHARE, and where the
    bytes are not stated or were not counted.
    """
    duration_ns = sum(profile.value(DURATION) for profile in profiles)
    if len(profiles) < 2 or not duration_ns > 0:
        return None
    moved = sum(profile.value(DRAM_BYTES) for profile in profiles)
    depends = sum(Facts(item, least_bytes).dram * item.value(DURATION) for item in profiles)
    share, evidence = _excess_traffic(moved, least_bytes, depends / duration_ns)
    return Cause(UNFUSED, share, evidence) if share >= LEAST_SHARE else None


def _uncoalesced(facts: Facts, opcode: str) -> Detected:
    """Share of excess sectors among all sectors that L2 served.

    The source page has no sectors of asynchronous copies: where these are most of the traffic, all
    of its sectors are few (0.5 to 1 % in attention with TMA on an H200).
    """
    excess = facts.column("global_sectors_excessive", opcode)
    served = facts.value(L2_BYTES) / SECTOR_BYTES / _COUNTED_BY_L2
    every = max(facts.column("global_sectors"), served)
    evidence = {
        "sectors beyond those needed": Evidence(
            excess, "sector", "L2 Theoretical Sectors Global Excessive"
        ),
        "sectors of all accesses": Evidence(every, "sector", "L2 Theoretical Sectors Global"),
    }
    # The needed sectors come from DRAM all the same, and take as long.
    needed = facts.percent(UNITS["dram"]) * part(
        (every - excess) * SECTOR_BYTES, facts.value(DRAM_BYTES)
    )
    return min(part(excess, every) * facts.memory, 1 - needed), evidence


def _bank_conflicts(facts: Facts) -> Detected:
    """Wavefronts of conflicts, without those of atomics, whose lanes meet at the same word."""
    excess = facts.column("shared_wavefronts_excessive")
    excess -= facts.column("shared_wavefronts_excessive", "ATOMS")
    every = facts.value(SHARED_WAVEFRONTS)
    evidence = {
        "wavefronts beyond those needed": Evidence(
            excess, "wavefront", "L1 Wavefronts Shared Excessive"
        ),
        "wavefronts of shared memory": Evidence(every, "wavefront", SHARED_WAVEFRONTS),
    }
    shared = part(facts.value(SHARED_WAVEFRONTS_PCT), facts.value(UNITS["l1"]))
    return part(excess, every) * facts.load_store * max(shared, 0.5), evidence


_LOCAL_ACCESSES = ("LDL", "STL")
_LOCAL_OUTPUT = "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_{}.sum.{}"
_LOCAL_MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}_lookup_miss.sum"


def _local_cost(facts: Facts) -> float:
    """Part of the duration for local memory.

    Its wavefronts in L1, its misses on the way to L2, or the waits for memory by its part of the
    instructions that are waited for so: those that poll mbarriers are among them.
    """
    wavefronts = sum(facts.value(_LOCAL_OUTPUT.format(op, ELAPSED_PEAK)) for op in ("ld", "st"))
    every = facts.value(UNITS["l1"])
    misses = sum(facts.value(_LOCAL_MISSES.format(op)) for op in ("ld", "st"))
    in_l2 = part(misses * SECTOR_BYTES, facts.value(L2_BYTES))
    polls = part(facts.column("executed", "SYNCS"), facts.column("executed"))
    waits = (
        facts.waits_for_memory * _share_of_memory_instructions(facts, _LOCAL_ACCESSES)
        if not polls
        else 0.0
    )
    return max(part(wavefronts, every) * facts.load_store, in_l2 * facts.memory, waits)


def _local_memory(facts: Facts, instructions: float, counted_by: str) -> Detected:
    """Cost of `instructions`, which are part of those on local memory."""
    executed = facts.value("smsp__inst_executed.sum")
    of_local = part(instructions, max(instructions, facts.column("executed", _LOCAL_ACCESSES)))
    evidence = {
        "instructions on local memory": Evidence(instructions, "inst", counted_by),
        "instructions executed": Evidence(executed, "inst", "smsp__inst_executed.sum"),
    }
    share = max(of_local * _local_cost(facts), part(instructions, executed) * facts.issuing)
    return share, evidence


def _register_spills(facts: Facts) -> Detected:
    return _local_memory(facts, facts.value(SPILLING), SPILLING)


def _local_arrays(facts: Facts) -> Detected:
    array_accesses = facts.column("executed", _LOCAL_ACCESSES) - facts.value(SPILLING)
    return _local_memory(facts, max(array_accesses, 0.0), "Instructions Executed")


_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"


def _divergence(facts: Facts) -> Detected:
    threads = facts.value(_THREADS)
    if not threads:
        return 0.0, {}
    evidence = {"threads per instruction": Evidence(threads, "thread", _THREADS)}
    return (1 - threads / 32) * max(facts.issuing, facts.percent(COMPUTE), 0.5), evidence


def _predicated_threads(facts: Facts) -> Detected:
    """Active threads whose instruction a predicate switches off; branches are left out."""
    active, on = facts.by_opcode("thread_executed"), facts.by_opcode("predicated_on")
    off = sum(
        threads - on.get(opcode, threads)
        for opcode, threads in active.items()
        if instruction_class(opcode) != "control"
    )
    off_share = part(off, 32 * facts.column("executed"))
    evidence = {
        "threads predicated off": Evidence(
            100 * off_share, "%", "Predicated-On Thread Instructions Executed"
        )
    }
    depends = max(facts.issuing, facts.percent(COMPUTE))
    return (off_share * depends if off_share > _USUALLY_OFF else 0.0), evidence


_ATOMIC_BUSY = "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed"
_ATOMIC_AVERAGE = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"


def _atomic_contention(facts: Facts) -> Detected:
    """Atomics of one slice of L2 while other slices have none, by its busy share or by waits."""
    busiest, average = facts.percent(_ATOMIC_BUSY), facts.percent(_ATOMIC_AVERAGE)
    waits = facts.waits_for_memory * _share_of_memory_instructions(facts, _ATOMICS)
    uneven = 1 - part(average, busiest) if busiest else 0.0
    return uneven * max(busiest, waits), {
        "busiest slice of L2 with atomics": Evidence(100 * busiest, "%", _ATOMIC_BUSY),
        "average slice": Evidence(100 * average, "%", _ATOMIC_AVERAGE),
    }


def _global_atomics(facts: Facts) -> Detected:
    """Atomics that all slices of L2 share, by their busy share or by waits."""
    busiest, average = facts.percent(_ATOMIC_BUSY), facts.percent(_ATOMIC_AVERAGE)
    part_of_accesses = _share_of_memory_instructions(facts, _GLOBAL_ATOMICS)
    waits = facts.waits_for_memory * part_of_accesses
    return part(average, busiest) * max(average, waits), {
        "slices of L2 with atomics": Evidence(100 * average, "%", _ATOMIC_AVERAGE),
        "of the memory instructions": Evidence(
            100 * part_of_accesses, "%", "Instructions Executed"
        ),
    }


def _shared_atomics(facts: Facts) -> Detected:
    """Atomics on shared memory, by their share of its wavefronts or of memory instructions.

    Loops that compare and swap (floats have no other atomics) count with all their cycles.
    """
    wavefronts = facts.column("shared_wavefronts", "ATOMS")
    of_shared = part(wavefronts, facts.value(SHARED_WAVEFRONTS))
    of_instructions = _share_of_memory_instructions(facts, ("ATOMS",))
    in_loops = _cycle_share(facts, lambda rows: in_swap_loop(rows, _SWAP))
    evidence = {
        "wavefronts of atomics": Evidence(wavefronts, "wavefront", "L1 Wavefronts Shared"),
        "of the memory instructions": Evidence(100 * of_instructions, "%", "Instructions Executed"),
        "cycles in loops of compare-and-swap": Evidence(100 * in_loops, "%", _OF_CYCLES),
    }
    return max(of_shared * facts.load_store, of_instructions * facts.load_store, in_loops), evidence


_SWAP = "ATOMS.CAS"
"""Opcodes of compare-and-swap on shared memory (`ATOMS.CAS`, `ATOMS.CAST.SPIN`)."""


_OF_CYCLES = "Instructions Executed, Warp Stall Sampling (Not-issued Samples)"


def _cycle_share(facts: Facts, select: Callable[[pd.DataFrame], pd.Series]) -> float:
    """Share of the cycles of the instructions that `select` selects.

    A cycle in which a scheduler issues counts for the issued instruction, whatever other warps wait
    for; the other cycles count by samples.
    """
    rows = facts.profile.instructions
    if rows is None or SAMPLES_NOT_ISSUED not in rows:
        return 0.0
    is_selected = select(rows)

    def part_of(column: str) -> float:
        return part(float(rows[column][is_selected].sum()), float(rows[column].sum()))

    issuing = facts.issuing
    return issuing * part_of(EXECUTED) + (1 - issuing) * part_of(SAMPLES_NOT_ISSUED)


def _uneven_l2_slices(facts: Facts) -> Detected:
    """Accesses that a slice of L2 serves while others wait, as strides of powers of two make."""
    average, busiest = facts.percent(UNITS["l2"]), facts.percent(BUSIEST_SLICE)
    without_atomics = 1 - _share_of_memory_instructions(facts, _ATOMICS)
    evidence = {
        "busiest slice of L2": Evidence(100 * busiest, "%", BUSIEST_SLICE),
        "average slice": Evidence(100 * average, "%", UNITS["l2"]),
    }
    uneven = 1 - part(average, busiest) if busiest else 0.0
    return uneven * busiest * without_atomics, evidence


_ATOMICS = ("ATOM", "RED")
_GLOBAL_ATOMICS = ("ATOM.", "ATOMG", "RED")
_ACCESSES = ("LDG", "STG", "LDS", "STS")


def _share_of_memory_instructions(facts: Facts, opcodes: tuple[str, ...]) -> float:
    """Share of the executed memory instructions that have these opcodes."""
    names = (*_ATOMICS, *_ACCESSES, *_LOCAL_ACCESSES)
    every = sum(facts.column("executed", name) for name in names)
    return part(sum(facts.column("executed", name) for name in opcodes), every)


def _l2_reuse(facts: Facts) -> Detected:
    return _excess_traffic(facts.value(DRAM_BYTES), facts.least_bytes, facts.dram)


def _excess_traffic(moved: float, least_bytes: float, dram: float) -> Detected:
    """Bytes of DRAM beyond those of the problem, where `dram` of the time depends on them."""
    excess = moved - least_bytes
    if not excess > 0:  # also where the workload states nothing, or they were not counted
        return 0.0, {}
    return part(excess, moved) * dram, {
        "bytes of DRAM": Evidence(moved, "byte", DRAM_BYTES),
        "bytes that the problem needs": Evidence(least_bytes, "byte", "bytes (workload)"),
    }


def _empty_issue_slots(facts: Facts, reason: str) -> Detected:
    """Issue slots that stay empty while warps wait for a reason."""
    waits = facts.waits(reason)
    evidence = {"of a warp's time": Evidence(100 * waits, "%", stall_per_issue(reason))}
    return waits * (1 - facts.issuing), evidence


def _idle_issue_cycles(facts: Facts, reason: str) -> Detected:
    """Share of cycles without an issue in which warps wait for a reason, by samples in them.

    For reasons that hold up all warps. Without a source page, the samples of all cycles but those
    of a ready warp, as none is ready where none issues.
    """
    waits, samples = facts.waits(reason), facts.column(SAMPLES_NOT_ISSUED)
    idle_cycles = part(facts.column(f"{STALL}{reason}{NOT_ISSUED}"), samples)
    if not samples:
        idle_cycles = part(waits, 1 - facts.waits("selected", "not_selected"))
    evidence = {"of a warp's time": Evidence(100 * waits, "%", stall_per_issue(reason))}
    return idle_cycles * (1 - facts.issuing), evidence


def _tensor_core_waits(facts: Facts) -> Detected:
    """Waits for the results of warpgroup matrix instructions, and to start the next ones."""
    waits = facts.waits("gmma")
    return waits, {
        "of a warp's time": Evidence(100 * waits, "%", stall_per_issue("gmma")),
        "tensor cores": Evidence(100 * facts.percent(UNITS["tensor"]), "%", UNITS["tensor"]),
    }


def _few_loads_in_flight(facts: Facts) -> Detected:
    """Waits for memory that is not busy, by the share of warps that are active.

    The waits that more warps would hide have causes of their own; the others take more loads in
    flight in each warp (Little's law: bytes in flight are throughput times latency).
    """
    waits, warps = facts.waits("long_scoreboard"), active_warps(facts)
    return warps * facts.idle * waits, {
        "of a warp's time": Evidence(100 * waits, "%", stall_per_issue("long_scoreboard")),
        "busiest unit": facts.busiest,
        "warps in flight of those that an SM has": Evidence(100 * warps, "%", MOST_WARPS),
    }


def _barrier_waits(facts: Facts) -> Detected:
    share = facts.waits("barrier", "membar")
    return share, {"of a warp's time": Evidence(100 * share, "%", stall_per_issue("barrier"))}


def _narrow_accesses(facts: Facts) -> Detected:
    """Load-store slots that wider accesses would save, where that unit is the limit."""
    rows = facts.profile.instructions
    if rows is None:
        return 0.0, {}
    accesses = [str(opcode).startswith(_ACCESSES) for opcode in rows["opcode"]]
    loads = rows.loc[accesses, ["executed", "access_size"]]
    executed = loads["executed"]
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
    narrow = (
        max(1 - average / _LINE_BYTES, 0.0) * busy * _share_of_memory_instructions(facts, _ACCESSES)
    )
    # Wider accesses are fewer, each with more wavefronts: wavefronts full of words stay.
    words_per_access = sizes[sized] / _BANK_BYTES
    wavefronts_kept = (words_per_access * executed[sized]).sum() / (
        words_per_access.clip(lower=1.0) * executed[sized]
    ).sum()
    return min(narrow, 1 - facts.percent(UNITS["l1"]) * float(wavefronts_kept)), evidence


_FMA_PIPE = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"


def _no_tensor_cores(facts: Facts) -> Detected:
    """Multiply-adds of a product of tiles on the FMA pipe, where no tensor core works."""
    tensor = sum(
        value
        for name, value in facts.profile.values.items()
        if name.startswith("sm__ops_path_tensor") and name.endswith(".sum")
    )
    multiplied = fp32_operations(facts.profile) / 2
    loads = 32 * facts.column("executed", "LDS")
    threads = 32 * facts.value("smsp__inst_executed.sum")
    of_tiles = loads >= _MATRIX_LOADS * multiplied and multiplied >= _MATRIX_SHARE * threads
    if tensor > 0 or not multiplied > 0 or not of_tiles:
        return 0.0, {}
    busy = facts.percent(_FMA_PIPE)
    return busy, {
        "tensor operations": Evidence(tensor, "op", "sm__ops_path_tensor_*.sum"),
        "FMA pipe": Evidence(100 * busy, "%", _FMA_PIPE),
    }


_FP64_PIPE = "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"


_DOUBLE = ("DADD", "DFMA", "DMUL", "DSETP", "DMNMX")
_DOUBLES = ".F64"
"""Part of the opcodes of conversions to and from double precision."""


def _fp64(facts: Facts) -> Detected:
    """Arithmetic in double precision, and conversions to and from it."""
    rows = facts.profile.instructions
    busy = facts.percent(_FP64_PIPE)
    if rows is None:
        return busy, {"FP64 pipe": Evidence(100 * busy, "%", _FP64_PIPE)}
    opcodes = rows["opcode"].astype(str)
    double = opcodes.str.startswith(_DOUBLE) | opcodes.str.contains(_DOUBLES, regex=False)
    instructions, every = float(rows["executed"][double].sum()), float(rows["executed"].sum())
    conversions = sum(total for name, total in _xu_instructions(facts).items() if _DOUBLES in name)
    waits = facts.waits("mio_throttle", "short_scoreboard", "math_pipe_throttle")
    depends = part(instructions, every) * max(waits, facts.percent(COMPUTE))
    on_xu = facts.percent(UNITS["xu"]) * part(conversions, sum(_xu_instructions(facts).values()))
    # Single precision takes as many arithmetic instructions, but no conversions.
    without_double = 1 - facts.issuing * (1 - part(conversions, every))
    share = min(max(busy, on_xu, depends), without_double)
    return share, {
        "FP64 instructions": Evidence(instructions, "inst", "Instructions Executed"),
        "FP64 pipe": Evidence(100 * busy, "%", _FP64_PIPE),
    }


_ON_XU = ("MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV")
"""Opcodes of the pipe XU alone: other pipes take `I2FP`, `F2FP`."""


def _xu_instructions(facts: Facts) -> Mapping[str, float]:
    """Executed instructions of the pipe XU by opcode."""
    executed = facts.by_opcode("executed").items()
    return {name: total for name, total in executed if name.split(".", 1)[0] in _ON_XU}


def _xu_pipe(facts: Facts, opcodes: tuple[str, ...]) -> Detected:
    """Busy share of the pipe XU where it limits, by the share of its instructions."""
    counts = _xu_instructions(facts)
    instructions = sum(
        total for name, total in counts.items() if name.startswith(opcodes) and _DOUBLES not in name
    )
    busy = facts.percent(UNITS["xu"])
    evidence = {
        "instructions": Evidence(instructions, "inst", "Instructions Executed"),
        "pipe of special functions": Evidence(100 * busy, "%", UNITS["xu"]),
    }
    share = part(instructions, sum(counts.values())) * busy if busy >= _BUSY_PIPE else 0.0
    return share, evidence


_REQUEST_CYCLES = 2.0
"""Cycles that constant memory takes for one address of a warp (H100: 2.0 and 64.3 a request where
all lanes ask for one address, and each for another)."""


def _constant_by_lane(facts: Facts) -> Detected:
    """Constant memory that is indexed by lane: it serves one address of a warp at a time."""
    busy = facts.percent(UNITS["constants"])
    cycles = busy * facts.value("sm__cycles_elapsed.sum")
    requests = facts.column("executed", "LDC")
    return busy * (1 - part(_REQUEST_CYCLES * requests, cycles)), {
        "indexed constant memory": Evidence(100 * busy, "%", UNITS["constants"]),
        "cycles per request": Evidence(cycles / requests if requests else 0.0, "cycle", "LDC"),
    }


def _slow_path_math(facts: Facts) -> Detected:
    """Sines and cosines of large arguments, by the cycles in the path that reduces them."""
    share = _cycle_share(facts, in_slow_path)
    return share, {"cycles in the slow path": Evidence(100 * share, "%", _OF_CYCLES)}


_INTEGERS = ("integer", "compare")
"""Classes of instructions that compute with integers and predicates."""


def _integer_arithmetic(facts: Facts) -> Detected:
    """Issue slots of addresses and remainders, where issuing is the limit."""
    executed = facts.by_opcode("executed")
    integer = sum(
        total for opcode, total in executed.items() if instruction_class(opcode) in _INTEGERS
    )
    every = sum(executed.values())
    return part(integer, every) * max(facts.issuing, facts.pipes), {
        "integer instructions": Evidence(integer, "inst", "Instructions Executed"),
        "instructions executed": Evidence(every, "inst", "Instructions Executed"),
    }


_DETECTORS: Mapping[str, Callable[[Facts], Detected]] = {
    "uncoalesced_loads": partial(_uncoalesced, opcode="LD"),
    "uncoalesced_stores": partial(_uncoalesced, opcode="ST"),
    "bank_conflicts": _bank_conflicts,
    "register_spills": _register_spills,
    "local_arrays": _local_arrays,
    **FILLING,
    "divergence": _divergence,
    "predicated_threads": _predicated_threads,
    "atomic_contention": _atomic_contention,
    "global_atomics": _global_atomics,
    "shared_atomics": _shared_atomics,
    "uneven_l2_slices": _uneven_l2_slices,
    "l2_reuse": _l2_reuse,
    "dependent_chain": partial(_empty_issue_slots, reason="wait"),
    "few_loads_in_flight": _few_loads_in_flight,
    "barrier_waits": _barrier_waits,
    "tensor_core_waits": _tensor_core_waits,
    "instruction_fetch": partial(_idle_issue_cycles, reason="no_instruction"),
    "constant_misses": partial(_idle_issue_cycles, reason="imc_miss"),
    "dispatch_stalls": partial(_empty_issue_slots, reason="dispatch_stall"),
    "sleeping": partial(_idle_issue_cycles, reason="sleeping"),
    "narrow_accesses": _narrow_accesses,
    "special_functions": partial(_xu_pipe, opcodes=("MUFU",)),
    "conversions": partial(_xu_pipe, opcodes=("F2F", "F2I", "I2F", "FRND")),
    "constant_by_lane": _constant_by_lane,
    "slow_path_math": _slow_path_math,
    "no_tensor_cores": _no_tensor_cores,
    "fp64": _fp64,
    "integer_arithmetic": _integer_arithmetic,
}
CAUSES = tuple(_DETECTORS)
"""Names of the causes of one launch."""
_NONE: frozenset[str] = frozenset()
_L2_UNITS = frozenset({"l2", "to_l2", "from_l2"})
_MEMORY_UNITS = _L2_UNITS | {"dram", "l1"}
_ALL_INSTRUCTIONS = frozenset({"l1", "issue", "fma", "alu", "xu", "fp64", "constants"})
_UNITS_OF: Mapping[str, frozenset[str]] = {
    "uncoalesced_loads": _MEMORY_UNITS,
    "uncoalesced_stores": _MEMORY_UNITS,
    "bank_conflicts": frozenset({"l1"}),
    "register_spills": _MEMORY_UNITS | {"issue"},
    "local_arrays": _MEMORY_UNITS | {"issue", "alu"},
    "divergence": _ALL_INSTRUCTIONS,
    "predicated_threads": _ALL_INSTRUCTIONS,
    "atomic_contention": _L2_UNITS,
    "global_atomics": _L2_UNITS,
    "shared_atomics": frozenset({"l1", "issue", "fma", "alu"}),
    "l2_reuse": frozenset({"dram"}),
    "narrow_accesses": frozenset({"l1", "issue", "alu"}),
    # Done by another pipe they are as many instructions or more.
    "special_functions": frozenset({"xu"}),
    "conversions": frozenset({"xu"}),
    "constant_by_lane": frozenset({"constants"}),
    "slow_path_math": _MEMORY_UNITS | _ALL_INSTRUCTIONS,
    "no_tensor_cores": _ALL_INSTRUCTIONS,
    "fp64": frozenset({"fp64", "xu", "issue", "alu"}),
    "integer_arithmetic": frozenset({"issue", "alu", "fma", "xu"}),
}
"""Units part of whose work a cause makes; the work of all other units would stay without the cause.
Causes that only let warps wait make no work."""
