"""Words for the why: parts of an account, limits, causes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from profiler.findings.why import accounts
from profiler.findings.why.accounts import BYTES, Account, Part, RoofAccount
from profiler.findings.why.cells import LATENCY, CellWhy, KernelWhy
from profiler.findings.why.pairs import PairWhy
from profiler.model import Verdict
from profiler.render.words import numbers

MOST_NAMED = 4
"""Parts that the sentence of an account names; the rest are added up."""
_SMALL = 0.03
"""Parts below this share of the largest are not named."""

_FACTORS: Mapping[str, tuple[str, str]] = {
    accounts.INSTRUCTIONS: ("more instructions", "fewer instructions"),
    accounts.WARPS: ("fewer warps in flight", "more warps in flight"),
    accounts.IMBALANCE: ("more idle cycles (start, tail, imbalance)", "fewer idle cycles"),
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
    "imc_miss": "for constants",
    "lg_throttle": "for the queue of global memory",
    "long_scoreboard": "for global memory",
    "math_pipe_throttle": "for arithmetic pipes",
    "membar": "for memory fences",
    "mio_throttle": "for the queue of shared memory",
    "misc": "for other reasons",
    "no_instruction": "for instructions to be fetched",
    "not_selected": "while another warp issued",
    "selected": "while issuing",
    "short_scoreboard": "for shared memory",
    "sleeping": "asleep",
    "tex_throttle": "for the queue of textures",
    "unnamed": "for what ncu's source page has no column for",
    "wait": "for fixed latencies",
}
CAUSES: Mapping[str, str] = {
    "uncoalesced_loads": "uncoalesced loads from global memory",
    "uncoalesced_stores": "uncoalesced stores to global memory",
    "bank_conflicts": "bank conflicts in shared memory",
    "register_spills": "spilled registers",
    "local_arrays": "arrays in local memory",
    "occupancy_registers": "few warps: registers limit the occupancy",
    "occupancy_shared_memory": "few warps: shared memory limits the occupancy",
    "tail_wave": "the last wave, which is mostly empty",
    "block_imbalance": "blocks that take longer than others",
    "divergence": "divergent threads in warps",
    "atomic_contention": "atomics on few addresses",
    "l2_reuse": "more traffic to device memory than the problem needs",
    "dependent_chain": "dependent instructions with too few warps between them",
    "barrier_waits": "waiting at barriers",
    "narrow_accesses": "narrow loads and stores",
    "no_tensor_cores": "multiply-adds without tensor cores",
    "fp64": "arithmetic in double precision, and conversions to it",
    "integer_arithmetic": "integer arithmetic: addresses, remainders, loops",
}
_LIMITS: Mapping[str, str] = {
    "dram": "bandwidth of device memory",
    "l2": "bandwidth of L2",
    "l1": "bandwidth of L1",
    "fp32": "FP32 arithmetic",
    LATENCY: "latency",
}


def part_words(part: Part) -> str:
    """What a part is, by its sign: it adds time, or takes some away."""
    adds = part.ns >= 0
    if part.name in _FACTORS:
        return _FACTORS[part.name][0 if adds else 1]
    if part.name.startswith(accounts.ONLY):
        kernel = part.name.removeprefix(accounts.ONLY)
        return f"kernel {kernel}" if adds else f"no kernel {kernel}"
    reason = part.name.removeprefix(accounts.STALL)
    more = "more" if adds else "less"
    return f"{more} waiting {WAITS.get(reason, f'({reason})')}"


def account_sentence(account: Account) -> str:
    """The account in one sentence: `1.34 ms less: 0.71 ms fewer instructions, …`."""
    difference = account.difference_ns
    direction = "less" if difference < 0 else "more"
    named = _named(account)
    parts = [f"{_signed(part.ns, difference)} {part_words(part)}" for part in named]
    rest = difference - sum(part.ns for part in named)
    if abs(rest) > _SMALL * abs(difference):
        parts.append(f"{_signed(rest, difference)} other")
    return f"{_time(abs(difference))} {direction}: {', '.join(parts)}"


def roof_sentence(account: RoofAccount) -> str:
    """The account of two kernels under one roof, in one sentence."""
    first, second = account.first, account.second
    parts = [
        (account.amount_ns, ("more", "less"), "to move" if first.unit == BYTES else "to compute"),
        (account.share_ns, ("for a lower", "for a higher"), "share of the roof"),
        (account.ceiling_ns, ("for a lower", "for a higher"), "clock of it"),
    ]
    difference = sum(ns for ns, _, _ in parts)
    direction = "less" if difference < 0 else "more"
    words = ", ".join(
        f"{_signed(ns, difference)} {adds if ns >= 0 else takes} {what}"
        for ns, (adds, takes), what in sorted(parts, key=lambda part: -abs(part[0]))
    )
    shares = [numbers.show(100 * roof.share, "%") for roof in (first, second)]
    amounts = [numbers.show(roof.amount, roof.unit) for roof in (first, second)]
    return (
        f"{_time(abs(difference))} {direction}: {words}. Both are limited by "
        f"{roof_words(account.name)}: {amounts[0]} at {shares[0]} against {amounts[1]} at "
        f"{shares[1]}"
    )


def _named(account: Account) -> tuple[Part, ...]:
    largest = abs(account.parts[0].ns) if account.parts else 0.0
    large = [part for part in account.parts if abs(part.ns) >= _SMALL * largest]
    return tuple(large[:MOST_NAMED])


def _signed(ns: float, difference: float) -> str:
    """A part in the direction of the difference; with a minus sign where it goes against it."""
    against = ns * difference < 0
    return f"{numbers.MINUS if against else ''}{_time(abs(ns))}"


def _time(ns: float) -> str:
    return numbers.show(ns, "ns")


def why_sentence(pair: PairWhy) -> str:
    """Why a cell differs from another; why nothing is said where that is not shown."""
    names = f"{pair.cell.variant.name} against {pair.against.variant.name}"
    if not pair.told:
        return f"{names}: {_not_told(pair)}"
    account = pair.account
    if account is None:
        return f"{names}: the counters of the account are not complete."
    sentence = f"{names}: {account_sentence(account)}."
    if pair.roof_account is not None:
        sentence = f"{names}: {roof_sentence(pair.roof_account)}."
    if not account.closes:
        sentence += (
            f" The factors are {numbers.show(100 * account.residual, '%')} off the durations: they "
            "are counted in several passes."
        )
    return sentence


def _not_told(pair: PairWhy) -> str:
    if pair.verdict.verdict is Verdict.SAME:
        return "the same, so there is nothing to explain."
    if pair.verdict.verdict is None:
        return "no verdict was asked for, so nothing is explained."
    return "not told apart, so nothing is explained."


def limit_words(kernel: KernelWhy) -> str:
    """What limits a kernel: the nearest roof with its share, or latency with the longest wait."""
    nearest = kernel.roofs[0] if kernel.roofs else None
    if kernel.limit != LATENCY and nearest is not None:
        return f"{roof_words(nearest.name)}, {numbers.show(100 * nearest.share, '%')} of its roof"
    words = "latency"
    if kernel.waits:
        wait = kernel.waits[0]
        words += (
            f": a warp spends {numbers.show(100 * wait.share, '%')} of its time waiting "
            f"{WAITS.get(wait.reason, wait.reason)}"
        )
    if nearest is not None:
        share = numbers.show(100 * nearest.share, "%")
        words += f"; nearest roof: {roof_words(nearest.name)}, {share}"
    return words


def roof_words(name: str) -> str:
    """Name of a roof."""
    if name.startswith("tensor_"):
        return f"tensor cores ({name.removeprefix('tensor_').upper()})"
    return _LIMITS.get(name, name)


def cause_words(name: str) -> str:
    """Name of a cause."""
    return CAUSES.get(name, name.replace("_", " "))


def limit_of_cell(why: CellWhy) -> str:
    """What limits the longest kernel of a cell."""
    if not why.kernels:
        return "nothing was counted"
    kernel = why.kernels[0]
    words = limit_words(kernel)
    if len(why.kernels) > 1 and math.isfinite(why.duration_ns):
        share = numbers.show(100 * kernel.duration_ns / why.duration_ns, "%")
        return f"its longest kernel of {len(why.kernels)} ({share} of the time): {words}"
    return words
