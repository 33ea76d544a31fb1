"""Words for the why: parts of an account, limits, causes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from profiler.findings.caveats import CLOCKS_DIFFER
from profiler.findings.findings import Findings
from profiler.findings.verdicts import Reason
from profiler.findings.why import pairs as accounts
from profiler.findings.why.cells import LATENCY, CellWhy, KernelWhy
from profiler.findings.why.find import idle_difference
from profiler.findings.why.hot_lines import HotLine
from profiler.findings.why.pairs import BYTES, Account, AccountPart, PairWhy, RoofAccount
from profiler.findings.why.planted import PLANTED, has_time
from profiler.model import Verdict
from profiler.notices import counted
from profiler.render.words import numbers
from profiler.render.words.names import plain_kernel

MOST_NAMED = 4
"""Parts that the sentence of an account names; the rest are added up."""
MOST_PARTS = 9
"""Parts of an account that have a row of their own."""
_MOST_POOLED = 3
"""Kernels of each side that are named where several are compared together."""
_SMALL = 0.03
"""Parts below this share of the largest are not named."""
_NO_PERCENT = 0.05
"""Below this `0.0 %` is shown, which has no sign."""
_SMALL_UNDER_ROOF = 0.01
"""Parts below this share of the difference are not named."""

_FACTORS: Mapping[str, tuple[str, str]] = {
    accounts.INSTRUCTIONS: ("more instructions", "fewer instructions"),
    accounts.WARPS: ("fewer warps in flight", "more warps in flight"),
    accounts.IMBALANCE: (
        "more idle cycles (start, tail, imbalance)",
        "fewer idle cycles (start, tail, imbalance)",
    ),
    accounts.CLOCK: ("a lower clock", "a higher clock"),
    accounts.RESIDUAL: ("not accounted for", "not accounted for"),
}
"""By factor: words where it adds time, and where it takes some away."""

WAITS: Mapping[str, str] = {
    "barrier": "for other warps at barriers",
    "branch_resolving": "for branches",
    "dispatch_stall": "for the dispatcher",
    "drain": "for last stores",
    "gmma": "for warpgroup matrix instructions",
    "imc_miss": "for the constant cache",
    "lg_throttle": "for the LG queue (global, local memory)",
    "long_scoreboard": "for global or local memory",
    "math_pipe_throttle": "for arithmetic pipes",
    "membar": "for memory fences",
    "mio_throttle": "for the MIO queue",
    "misc": "for other reasons",
    "no_instruction": "for instructions to be fetched",
    "not_selected": "while another warp issued",
    "selected": "while issuing",
    "short_scoreboard": "for shared or constant memory or special functions",
    "sleeping": "while sleeping",
    "tex_throttle": "for the queue of textures",
    "unnamed": "for a reason that ncu's source page does not name",
    "wait": "for fixed-latency dependencies",
}
_UNITS: Mapping[str, str] = {
    "shared_atomics": "atomics on shared memory",
    "global_atomics": "atomics on global memory",
    "double_precision": "double-precision arithmetic",
}
"""Units that a wait names in other words than its name."""
_FEW_WARPS = "few warps in flight, limited by "
CAUSES: Mapping[str, str] = {
    "uncoalesced_loads": "uncoalesced loads from global memory",
    "uncoalesced_stores": "uncoalesced stores to global memory",
    "bank_conflicts": "bank conflicts in shared memory",
    "register_spills": "spilled registers",
    "local_arrays": "arrays in local memory",
    "occupancy_registers": f"{_FEW_WARPS}registers",
    "occupancy_shared_memory": f"{_FEW_WARPS}shared memory",
    "occupancy_block_size": "few warps in flight: no further block of this size fits",
    "occupancy_blocks": "few warps in flight: small blocks, and as many as an SM takes",
    "unfilled_occupancy": "fewer warps in flight than fit: short or uneven blocks",
    "small_grid": "too few blocks to fill the GPU",
    "launch_overhead": "start and end of the kernel, while no SM has work",
    "tail_wave": "a last wave that is mostly empty",
    "block_imbalance": "blocks that take longer than others",
    "divergence": "divergent threads in warps",
    "predicated_threads": "threads that predicates switch off (short branches)",
    "atomic_contention": "atomics on few addresses",
    "global_atomics": "atomics on global memory",
    "shared_atomics": "atomics on shared memory",
    "uneven_l2_slices": "accesses that crowd on some slices of L2",
    "unfused_operations": "intermediate results in device memory",
    "l2_reuse": "more traffic to device memory than the problem needs",
    "dependent_chain": "chains of dependent instructions, too few warps to hide them",
    "few_loads_in_flight": "too few loads in flight to hide the latency of memory",
    "barrier_waits": "waiting at barriers",
    "tensor_core_waits": "waiting for results of warpgroup matrix instructions",
    "instruction_fetch": "waiting for instructions to be fetched (large code)",
    "constant_misses": "misses of the constant cache",
    "dispatch_stalls": "the dispatcher holds instructions back (register ports, busy pipes)",
    "sleeping": "sleeping (__nanosleep)",
    "special_functions": "special functions (exponentials, roots, reciprocals)",
    "conversions": "conversions between types",
    "constant_by_lane": "constant memory that each lane indexes otherwise",
    "slow_path_math": "sines and cosines of large arguments (their slow path)",
    "narrow_accesses": "narrow loads and stores",
    "no_tensor_cores": "FP32 multiply-adds instead of tensor cores",
    "fp64": "double-precision arithmetic and conversions",
    "integer_arithmetic": "integer arithmetic (addresses, remainders, loops)",
}
CLASSES: Mapping[str, str] = {
    "tensor": "tensor cores",
    "tensor_memory": "tensor memory",
    "fma": "floating point",
    "compare_float": "floating-point comparisons, minima, maxima",
    "compare": "integer comparisons, predicates",
    "integer": "integer",
    "conversion": "conversions",
    "special": "special functions",
    "load_constant": "loads of constants",
    "load_global": "loads from global memory",
    "store_global": "stores to global memory",
    "load_shared": "loads from shared memory",
    "store_shared": "stores to shared memory",
    "local": "local memory",
    "texture": "textures and surfaces",
    "async_copy": "asynchronous copies",
    "atomic": "atomics",
    "barrier": "barriers and fences",
    "control": "branches, calls, exits",
    "move": "moves, shuffles, votes",
    "uniform": "uniform datapath",
    "other": "other",
}
"""By class of machine instructions."""
_LIMITS: Mapping[str, str] = {
    "dram": "bandwidth of device memory",
    "l2": "bandwidth of L2",
    "l1": "bandwidth of L1",
    "fp32": "FP32 arithmetic",
    "l2_units": "units of L2",
    "l1_units": "units of L1 and shared memory",
    "memory_units": "units of the memory system",
    "issue_slots": "issue slots",
    "sm_pipes": "pipes of the multiprocessors",
    LATENCY: "latency",
}
"""By roof or busy unit."""
_NOTHING_UNDER = 0.0005
"""Shares of a roof below it are shown as `0.0 %`, also of a practical one."""
_MOST_STEM = 24
"""Longest name of a source file that the console shows whole: some are a hash of 50 letters, which
leaves no room for the line."""
_ENDS = 10
"""Letters at both ends that are left of a longer one: versions differ in the last ones."""


def part_words(part: AccountPart) -> str:
    """Words for a part, by its sign: it adds time, or takes some away."""
    adds = part.ns >= 0
    if part.name in _FACTORS:
        return _FACTORS[part.name][0 if adds else 1]
    if part.name.startswith(accounts.ONE_SIDED):
        kernel = plain_kernel(part.name.removeprefix(accounts.ONE_SIDED))
        return f"kernel {kernel}" if adds else f"no kernel {kernel}"
    reason = part.name.removeprefix(accounts.STALL)
    more = "more" if adds else "less"
    return f"{more} waiting {waited_for(reason)}"


def waited_for(reason: str) -> str:
    """Words on a stall reason: for constant memory of `short_scoreboard:constant_memory`."""
    wait, _, unit = reason.partition(":")
    if not unit:
        return WAITS.get(reason, f"({reason})" if reason else "")
    unit_name = _UNITS.get(unit, unit.replace("_", " "))
    return f"for the MIO queue ({unit_name})" if wait == accounts.QUEUE else f"for {unit_name}"


def account_words(account: Account) -> str:
    """The largest parts, each with its signed time in brackets."""
    difference = account.difference_ns
    large_parts = _large_parts(account)
    parts = [f"{part_words(part)} ({numbers.signed_time(part.ns)})" for part in large_parts]
    rest_ns = difference - sum(part.ns for part in large_parts)
    if abs(rest_ns) > _SMALL * abs(difference):
        parts.append(f"all others ({numbers.signed_time(rest_ns)})")
    return ", ".join(parts)


def roof_parts(pair: PairWhy, account: RoofAccount) -> list[tuple[str, float]]:
    """Parts of the difference of two kernels under one roof in words, in ns, the largest first."""
    cause = pair.cause_under_roof
    cause_name = "" if cause is None else cause_words(cause.name)
    amount = "bytes" if account.first.unit == BYTES else "operations"
    parts = [
        (account.amount_ns, (f"more {amount}", f"fewer {amount}")),
        (
            account.share_ns,
            (
                f"a lower share of the roof{cause_name and f' through {cause_name}'}",
                f"a higher share of the roof{cause_name and f' with less {cause_name}'}",
            ),
        ),
        (account.ceiling_ns, ("a lower roof (clock)", "a higher roof (clock)")),
    ]
    in_order = sorted(parts, key=lambda part: -abs(part[0]))
    return [(adds if ns >= 0 else takes, ns) for ns, (adds, takes) in in_order]


def roof_account_words(pair: PairWhy, account: RoofAccount) -> str:
    """The parts of two kernels under one roof, and how near each is to it."""
    first, second = account.first, account.second
    parts = roof_parts(pair, account)
    difference = sum(ns for _, ns in parts)
    parts_words = ", ".join(
        f"{name} ({numbers.signed_time(ns)})"
        for name, ns in parts
        if abs(ns) >= _SMALL_UNDER_ROOF * abs(difference)
    )
    shares = [numbers.share(roof.share) for roof in (first, second)]
    amounts = [numbers.show(roof.amount, roof.unit) for roof in (first, second)]
    return (
        f"{parts_words}. Both are limited by {roof_words(account.name)}: {amounts[0]} at "
        f"{shares[0]} of its roof against {amounts[1]} at {shares[1]}"
    )


def _large_parts(account: Account) -> tuple[AccountPart, ...]:
    largest = abs(account.parts[0].ns) if account.parts else 0.0
    large = [part for part in account.parts if abs(part.ns) >= _SMALL * largest]
    return tuple(large[:MOST_NAMED])


def share_of_slower(ns: float, account: Account) -> float:
    """A part in percent of the time of the slower one.

    Not of the difference: shares of that would have the other sign wherever the first is faster,
    and be as large as one likes where large parts go against each other.
    """
    return 100 * ns / max(account.first_ns, account.second_ns)


def signed_share(ns: float, account: Account) -> str:
    """Share of the slower one's time, signed like `signed_time`."""
    percent = share_of_slower(ns, account)
    sign = "" if abs(percent) < _NO_PERCENT else "+" if percent > 0 else numbers.MINUS
    return f"{sign}{numbers.show(abs(percent), '%')}"


def slower_name(pair: PairWhy, account: Account) -> str:
    """Name of the one that takes longer in an account."""
    return (pair.cell if account.difference_ns >= 0 else pair.against).variant.label


def why_sentence(pair: PairWhy) -> str:
    """Why a cell differs from another; why nothing is said where that is not shown."""
    first, second = pair.cell.variant.label, pair.against.variant.label
    if not pair.shows_difference:
        return f"{first} against {second}: {_no_difference_words(pair)}"
    account = pair.account
    if account is None:
        return f"{first} against {second}: the counters of the account are not complete."
    difference = account.difference_ns
    parts = (
        account_words(account)
        if pair.roof_account is None
        else roof_account_words(pair, pair.roof_account)
    )
    direction = "less" if difference < 0 else "more"
    time = numbers.show(abs(difference), "ns")
    sentence = (
        f"{first} takes {time} {direction} than {second} under ncu"
        f"{_kernel_count_clause(pair)}: {parts}."
    )
    if (difference < 0) == pair.takes_longer:
        sentence += " That is not the direction of the verdict, which it does not explain."
    return sentence + _off_timing(pair) + _not_closed(pair, account)


def _off_timing(pair: PairWhy) -> str:
    """Sentence on explained launches that do not differ as the timed ones do; empty where they do.

    Times and clocks of the launches that make the difference another one.
    """
    sides = ((pair.cell, pair.first), (pair.against, pair.second))
    launches = [
        f"{numbers.show(why.duration_ns, 'ns')} at {why.clock_ghz:.2f} GHz, where "
        f"{cell.variant.label} is timed with {numbers.show(timed_ns, 'ns')}"
        for (cell, why), timed_ns, off in zip(sides, pair.timed_ns, pair.off_timing, strict=True)
        if off
    ]
    if not launches:
        return ""
    explained, those_launches = (
        ("launch that was explained took", "that launch")
        if len(launches) == 1
        else ("launches that were explained took", "these launches")
    )
    return (
        f" The {explained} {', and '.join(launches)}: the parts are of {those_launches}, and the "
        f"timed medians differ by {numbers.signed_time(pair.timed_difference_ns)}."
        f"{_caches_between(pair)}"
    )


def _caches_between(pair: PairWhy) -> str:
    """Sentence on caches between kernels, where a launch that was explained has several."""
    several = any(
        off and len(why.kernels) > 1
        for off, why in zip(pair.off_timing, (pair.first, pair.second), strict=True)
    )
    if not (several and pair.flushed_per_launch):
        return ""
    return (
        " Explained, each kernel begins with empty caches; timed, the later ones find what the "
        "earlier ones left."
    )


def _not_closed(pair: PairWhy, account: Account) -> str:
    """Sentence on factors that do not give a duration, and by how much; empty where they do."""
    names = (pair.cell.variant.label, pair.against.variant.label)
    off = [
        f"{numbers.share(residual)} off the duration of {name}"
        for name, residual in zip(names, account.residuals, strict=True)
        if residual > accounts.CLOSES_WITHIN
    ]
    if not off:
        return ""
    return f" The factors are {' and '.join(off)}: they are counted in several passes."


def _kernel_count_clause(pair: PairWhy) -> str:
    """Clause on the number of kernels of both cells, where it is not one each."""
    counts = [len(why.kernels) for why in (pair.first, pair.second)]
    if counts == [1, 1]:
        return ""
    return f", with {counted(counts[0], 'kernel')} against {counts[1]}"


def account_rows(account: Account) -> list[tuple[str, float]]:
    """The largest parts of an account in words and ns, at most MOST_PARTS; all others as one."""
    parts = account.parts[:MOST_PARTS]
    rows = [(part_words(part), part.ns) for part in parts]
    other_count = len(account.parts) - len(parts)
    if other_count:
        rest_ns = account.difference_ns - sum(part.ns for part in parts)
        rows.append((f"all {other_count} others", rest_ns))
    return rows


def pooled_words(account: Account) -> str:
    """Sentence on the kernels without a counterpart that are compared together; empty without."""
    sides = [_kernel_counts(names) for names in account.pooled if names]
    if not sides:
        return ""
    return f"Kernels without a counterpart are compared together: {sides[0]} against {sides[1]}."


def account_remarks(pair: PairWhy, account: Account) -> list[str]:
    """Sentences on the kernels and the clock of an account, which stand beside its parts."""
    remarks = (pooled_words(account), kernel_times(pair), clock_words(pair))
    return list(filter(None, remarks))


def _kernel_counts(names: Sequence[str]) -> str:
    """Short names of kernels, each with how often it is launched; the first few of many."""
    counts = Counter(map(plain_kernel, names))
    launches = [_launch_count(name, count) for name, count in counts.most_common(_MOST_POOLED)]
    other_count = len(counts) - len(launches)
    return ", ".join(launches) + (f" and {_others_words(other_count)}" if other_count else "")


def _launch_count(name: str, count: int) -> str:
    return name if count == 1 else f"{count} {numbers.TIMES} {name}"


def _others_words(count: int) -> str:
    return "another" if count == 1 else f"{count} others"


def kernel_times(pair: PairWhy) -> str:
    """Sentences on where two cells spend their time by kernel; empty where each has only one."""
    sides = ((pair.cell, pair.first), (pair.against, pair.second))
    return " ".join(
        _kernel_times(cell.variant.label, why) for cell, why in sides if len(why.kernels) > 1
    )


def _kernel_times(variant: str, why: CellWhy) -> str:
    """Sentence on the time of each kernel, longest first; those of one short name together."""
    times: dict[str, list[float]] = {}
    for kernel in why.kernels:
        times.setdefault(plain_kernel(kernel.profile.name), []).append(kernel.duration_ns)
    ranked = sorted(times.items(), key=lambda row: -sum(row[1]))
    kernels = [
        f"{numbers.show(sum(durations), 'ns')} in {_launch_count(name, len(durations))}"
        for name, durations in ranked[:_MOST_POOLED]
    ]
    other_durations = [ns for _, durations in ranked[_MOST_POOLED:] for ns in durations]
    if other_durations:
        kernels.append(
            f"{numbers.show(sum(other_durations), 'ns')} in {_others_words(len(other_durations))}"
        )
    return f"{variant} spends {', '.join(kernels)}."


def idle_sentence(findings: Findings) -> str:
    """Sentence on two timelines, of which one keeps the device busier; empty without."""
    idle = idle_difference(findings)
    if idle is None:
        return ""
    first, second = (
        f"{numbers.share(unit.busy_share)} of the time in {cell.variant.label} "
        f"({numbers.show(unit.idle_ns, 'ns')} idle)"
        for cell, unit in ((idle.cell, idle.unit), (idle.against, idle.baseline_unit))
    )
    place = f" at {idle.cell.problem.name}" if len(findings.programs.problems) > 1 else ""
    return (
        f"By their timelines the {findings.timelines.device} is busy {first} and {second}{place}."
    )


def _no_difference_words(pair: PairWhy) -> str:
    if pair.verdict.reason is Reason.SAME_PROGRAM:
        return "the same machine code, so there is nothing to explain."
    if pair.verdict.verdict is Verdict.SAME:
        return "the same, so there is nothing to explain."
    if pair.verdict.verdict is None:
        return "this run gives no verdicts, so nothing is explained."
    return "not told apart, so nothing is explained."


def limit_words(kernel: KernelWhy) -> str:
    """Limit of a kernel in words: the nearest roof, a busy unit, or latency with its wait."""
    nearest = kernel.roofs[0] if kernel.roofs else None
    if nearest is not None and kernel.limit == nearest.name:
        share = numbers.share(nearest.share)
        practical = practical_words(nearest.name, nearest.practical_share)
        return f"{roof_words(nearest.name)}, {share} of its roof{practical}"
    limit = roof_words(kernel.limit)
    if kernel.busy is not None:
        limit += f", {numbers.share(kernel.busy[1])} busy"
    elif kernel.waits:
        reason, waited = next(iter(kernel.waits.items()))
        limit += f": a warp spends {numbers.share(waited)} of its time waiting {waited_for(reason)}"
    if nearest is not None:
        share = numbers.share(nearest.share)
        limit += f"; nearest roof: {roof_words(nearest.name)}, {share}"
    return limit


def clock_words(pair: PairWhy) -> str:
    """Words on how much of the clock's part is power; empty where it was not measured on zeros."""
    power_ns, other_ns = pair.clock_parts_ns
    if numbers.is_missing(power_ns):
        return ""
    first, second = pair.clocks_on_zeros
    return (
        f"Of the part of the clock {numbers.signed_time(power_ns)} goes with the values: power; "
        f"{numbers.signed_time(other_ns)} is there on zeros, too, where the clocks are {first:.2f} "
        f"and {second:.2f} GHz."
    )


PIPES: Mapping[str, str] = {
    "tensor": "tensor pipe",
    "fma": "FMA pipe",
    "xu": "special functions",
    "dram": "device memory",
}
"""Units that are sampled inside a kernel, by their names in the samples."""


def no_inside_words(kernel: KernelWhy) -> str:
    """Why there is no figure of what was sampled inside; empty where nothing was sampled."""
    sampled = kernel.profile.inside
    if sampled is not None:
        return (
            f"{len(sampled.busy)} samples inside it do not tell how many SMs are busy: too few, or "
            "too few instructions."
        )
    if numbers.is_missing(kernel.profile.value("profiler__pmsampler_interval_time")):
        return ""
    return (
        "It was sampled inside, but this ncu printed no samples: Nsight Compute 2025.3.1 does "
        "(developer.nvidia.com/nsight-compute)."
    )


def inside_words(kernel: KernelWhy) -> str:
    """Ramp, tail and clock by the samples inside a kernel, and where counters tell otherwise."""
    inside = kernel.inside
    if inside is None:
        return ""
    ramp, tail, launch = (
        numbers.show(ns, "ns") for ns in (inside.ramp_ns, inside.tail_ns, inside.duration_ns)
    )
    lowest, highest = inside.clock_range_ghz
    idle, at_ends, counted = (
        numbers.share(share)
        for share in (inside.idle_share, inside.ends_idle_share, kernel.counted_idle_share)
    )
    samples_words = (
        f"One launch, a sample each {numbers.show(inside.step_ns, 'ns')}: SMs fill for {ramp} "
        f"(ramp) and empty for {tail} (tail) of {launch}; they are idle for {idle} of the time, "
        f"{at_ends} in these two. "
    )
    if numbers.is_missing(inside.clock_ghz):
        samples_words += "No sample tells the clock: fewer than half of the SMs are busy in each."
    else:
        samples_words += (
            f"The clock is {inside.clock_ghz:.2f} GHz, by tenths of the launch {lowest:.2f} to "
            f"{highest:.2f}."
        )
    clock_differs, idle_differs = kernel.samples_disagree
    if clock_differs:
        samples_words += (
            f" The pass that the account is of was clocked at {kernel.counted_clock_ghz:.2f} GHz: "
            "its part of the clock is of that pass."
        )
    if idle_differs:
        samples_words += (
            f" Counters say idle for {counted}: the account's part of idle cycles is uncertain."
        )
    return samples_words


def roof_words(name: str) -> str:
    """Name of a roof or of a busy unit."""
    if name.startswith("tensor_"):
        return f"tensor cores ({name.removeprefix('tensor_').upper()})"
    return _LIMITS.get(name, name)


def plain_kernel_words(roof: str) -> str:
    """The kernel that a practical roof was measured with."""
    return "a copy" if roof == "dram" else "a matrix product of torch"


def practical_words(roof: str, share: float) -> str:
    """Share of what a plain kernel reached, in brackets; empty where it is none or not known.

    A factor where it is more than that.
    """
    if numbers.is_missing(share) or share < _NOTHING_UNDER:
        return ""
    of_it = f"{share:.2f}{numbers.TIMES}" if share > 1 else f"{numbers.share(share)} of"
    return f" ({of_it} what {plain_kernel_words(roof)} reached)"


def nominal_words(share: float, nominal_share: float) -> str:
    """Share of a roof at the highest clock, in words; empty where the launch had nearly that."""
    if numbers.is_missing(nominal_share) or share < nominal_share * (1 + CLOCKS_DIFFER):
        return ""
    return f"; the first is {numbers.share(nominal_share)} at the highest clock"


def no_practical_words(findings: Findings) -> str:
    """Sentence on practical roofs that were not measured, and why; nothing where none failed."""
    measured = findings.report.measured
    if faults := measured.practical_roof_faults:
        faults_words = "; ".join(f"{roof_words(roof)}: {cause}" for roof, cause in faults.items())
        return f"Practical roofs that could not be measured: {faults_words}."
    if measured.practical_roofs:
        return ""
    return "No copy and no matrix product were measured as practical roofs."


def no_lines_words(kernel: KernelWhy) -> str:
    """Reason why no lines are shown where warps wait."""
    why = "no source page" if kernel.profile.listing is None else "no samples of waiting warps"
    return f"{why}: which lines wait is not known"


def place_words(line: HotLine) -> str:
    """File and line, or SASS where there is no line; of a long name both ends."""
    return _both_ends(line.place) or "SASS"


def wait_words(line: HotLine) -> str:
    """Words on the wait of a line: a load from another line if known, else the stall reason."""
    file, _, number = line.loaded_at.rpartition(":")
    if not file:
        return waited_for(line.reason)
    same_file = line.place.rpartition(":")[0] == file
    return f"for the load in {'line ' + number if same_file else _both_ends(line.loaded_at)}"


def _both_ends(place: str) -> str:
    stem, dot, suffix = place.rpartition(".")
    if not dot or len(stem) <= _MOST_STEM:
        return place
    return f"{stem[:_ENDS]}…{stem[-_ENDS:]}{dot}{suffix}"


ESTIMATED = "estimates, in brackets ÷ the true time where it was planted; they overlap"
Amount = tuple[float, str]
"""A number and its unit."""


def cause_amount(cause: str, ns: float, share: float) -> Amount:
    """Estimated time of a cause in a cell, or its share in percent where it has no time."""
    return (ns, "ns") if has_time(cause) else (100 * share, "%")


def amount_words(amount: Amount) -> str:
    """Amount of a cause in a cell; that it was not found where there is none."""
    return numbers.show(*amount) if amount[0] else "none found"


def cause_rows(
    causes: Iterable[tuple[str, tuple[Amount, ...]]],
) -> list[tuple[str, tuple[Amount, ...]]]:
    """Words of causes with their amounts: one row where these are the same.

    So it is with what only the roof bounds, and with two limits of as many warps. One without a
    time may stand between them.
    """
    rows: dict[tuple[str, ...], tuple[list[str], tuple[Amount, ...]]] = {}
    for name, amounts in causes:
        rows.setdefault(tuple(map(amount_words, amounts)), ([], amounts))[0].append(name)
    return [
        (f"{_joined_causes([*map(cause_words, names)])} {planted_words(names)}", amounts)
        for names, amounts in rows.values()
    ]


def cause_rows_of_pair(pair: PairWhy) -> list[tuple[str, tuple[Amount, ...]]]:
    """Causes of a difference in words, with their amounts in the first cell and in the second."""
    return cause_rows(
        (
            change.name,
            (
                cause_amount(change.name, change.first_ns, change.first_share),
                cause_amount(change.name, change.second_ns, change.second_share),
            ),
        )
        for change in pair.causes
    )


def cause_rows_of_cell(why: CellWhy) -> list[tuple[str, tuple[Amount, ...]]]:
    """Causes of the time of a cell in words, with their amounts."""
    return cause_rows(
        (cause.name, (cause_amount(cause.name, ns, cause.share),)) for cause, ns in why.costs
    )


def planted_words(causes: Sequence[str]) -> str:
    """Words on how estimates of causes compared with the truth where these were planted.

    In how few they were planted where that is too seldom for a time.
    """
    ranges = [PLANTED[cause] for cause in causes if cause in PLANTED]
    count = sum(pairs for _, _, pairs in ranges)
    if not any(map(has_time, causes)):
        return f"[planted in only {count}]" if count else "[never planted]"
    low, high = min(low for low, _, _ in ranges), max(high for _, high, _ in ranges)
    span = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return f"[{span}{numbers.TIMES} in {count}]"


def _joined_causes(causes: Sequence[str]) -> str:
    """Causes after one another, as tied; two resources that limit the warps as one of them."""
    few = [cause for cause in causes if cause.startswith(_FEW_WARPS)]
    limits = " and by ".join(cause.removeprefix(_FEW_WARPS) for cause in few)
    other_causes = [cause for cause in causes if cause not in few]
    together = [f"{_FEW_WARPS}{limits}", *other_causes] if few else other_causes
    return f"{'; '.join(together)} (tied)" if len(together) > 1 else together[0]


def cause_words(name: str) -> str:
    """Name of a cause."""
    return CAUSES.get(name, name.replace("_", " "))


def limit_of_cell(why: CellWhy) -> str:
    """Limit of the longest kernel of a cell, in words."""
    if not why.kernels:
        return "nothing was counted"
    kernel = why.kernels[0]
    limit = limit_words(kernel)
    if len(why.kernels) > 1 and math.isfinite(why.duration_ns):
        share = numbers.show(100 * kernel.duration_ns / why.duration_ns, "%")
        name = plain_kernel(kernel.profile.name)
        return f"its longest kernel of {len(why.kernels)}, {name} ({share} of the time): {limit}"
    return limit
