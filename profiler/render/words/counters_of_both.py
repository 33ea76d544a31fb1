"""Counters of both cells of a pair in words: names, amounts, and those that moved in one clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.findings.why import pairs as accounts
from profiler.findings.why.counters import MEMORY, SHARED, Amount, CounterOfBoth
from profiler.metrics.catalogue import TENSOR_TYPES
from profiler.render.words import numbers

NAMES: Mapping[str, str] = {
    "instructions": "warp instructions issued",
    **{f"tensor_{kind}": f"tensor operations ({kind.upper()})" for kind in TENSOR_TYPES},
    "fp32": "FP32 operations",
    "spill_instructions": "instructions that spill registers",
    "dram_bytes": "bytes at DRAM",
    "l2_bytes": "bytes at L2",
    "l1_bytes": "bytes at L1",
    "local_bytes": "bytes of local memory (spills and arrays)",
    "sectors_per_request": "sectors per global request",
    "shared_wavefronts": "wavefronts of shared memory",
    "conflict_wavefronts": "wavefronts of bank conflicts",
    "warps": "achieved warps per scheduler",
    "most_warps": "theoretical warps per scheduler",
    "occupancy_limit": "limit of occupancy",
    "registers": "registers per thread",
    "shared_bytes": "shared memory per block",
    "block_size": "threads per block",
    "launches": "kernels launched",
    "idle_pct": "cycles without a warp",
    "waves": "waves of blocks",
    "clock_ghz": "SM clock",
}
"""By name of a counter; each says its unit where the amount does not."""
GROUPS: Mapping[str, str] = {
    accounts.INSTRUCTIONS: "instructions",
    MEMORY: "waiting for memory",
    SHARED: "waiting for shared memory",
    accounts.WARPS: "warps in flight",
    accounts.IMBALANCE: "start, tail, imbalance",
    accounts.CLOCK: "clock",
}
LITTLE, SAME = "little of the work", "the same"
"""In place of the part, where a counter did not move by more than that."""
_MOST_OF_A_PART = 3
"""Counters of one part that a clause names."""


def group_words(counter: CounterOfBoth) -> str:
    """Part of the account that a counter belongs to, or that it explains none of it."""
    if counter.moved:
        return GROUPS[counter.group]
    return LITTLE if counter.differs else SAME


def amount_words(counter: CounterOfBoth, amount: Amount) -> str:
    """Amount of one cell."""
    return amount.text or numbers.show(amount.value, counter.unit)


def moved_words(counters: Sequence[CounterOfBoth]) -> list[str]:
    """Counters that moved, the first three of each part: `bytes at L2 2 MB against 8 GB`."""
    by_group: dict[str, list[str]] = {}
    for counter in counters:
        if counter.moved:
            first, second = (
                amount_words(counter, amount) for amount in (counter.first, counter.second)
            )
            clause = f"{NAMES[counter.name]} {first} against {second}"
            by_group.setdefault(counter.group, []).append(clause)
    return [clause for group in by_group.values() for clause in group[:_MOST_OF_A_PART]]
