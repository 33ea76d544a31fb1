"""Cases of planted causes: their sizes, and what to compile; no torch.

A variant is `{planted: 0 or 1}`, a problem is `{case: …}`. Each variant is one library with the
kernels of all cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.kernels.recipe import Recipe

FACTOR = 1.0 - 2.0**-15
ADDEND = 3.0 * 2.0**-15
"""Of the chains v = v * FACTOR + ADDEND; both exact in float32. Values go from their start towards
3 and are still on their way when the longest chain ends, so that a wrong number of steps shows."""

SOURCES = (
    *("arithmetic", "grid", "memory", "occupancy", "product", "shared"),
    *("accumulate", "fetch", "launch", "pipes", "waiting"),
    *("strangers", "strengths", "told_apart"),
)
"""Those of `why.yaml`, of `more.yaml` and of `further.yaml`."""

_H200_MULTIPROCESSORS = 132
_FULL = 2048 * _H200_MULTIPROCESSORS
"""Threads that fill an H200 once."""


@dataclass(frozen=True)
class Case:
    """Sizes of one pair of kernels."""

    inputs: int
    """Elements of the input tensor."""
    outputs: int
    steps: int
    """Length of the work of a thread; what a step is depends on the kernel."""


CASES: Mapping[str, Case] = {
    "uncoalesced_loads": Case(inputs=2**27, outputs=2**17, steps=32),
    "uncoalesced_stores": Case(inputs=1, outputs=2**27, steps=32),
    "bank_conflicts_32": Case(inputs=4 * 4 * _FULL, outputs=4 * _FULL, steps=192),
    "bank_conflicts_2": Case(inputs=8 * 4 * _FULL, outputs=4 * _FULL, steps=96),
    "register_spills": Case(inputs=2 * _FULL, outputs=2 * _FULL, steps=128),
    "occupancy_shared_memory": Case(inputs=2**27, outputs=2**15, steps=32),
    "occupancy_registers": Case(inputs=2**27, outputs=2**14, steps=64),
    "tail_wave": Case(inputs=24 * _FULL, outputs=24 * _FULL, steps=1024),
    "block_imbalance": Case(inputs=24 * _FULL, outputs=24 * _FULL, steps=1024),
    "divergence": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=4096),
    "atomic_contention": Case(inputs=2, outputs=1024, steps=8),
    "no_l2_reuse": Case(inputs=2**26, outputs=2**19, steps=32),
    "dependent_chain": Case(inputs=4096, outputs=_FULL // 8, steps=12288),
    "barrier_waits": Case(inputs=2 * _FULL, outputs=2 * _FULL, steps=256),
    "scalar_loads": Case(inputs=256 * _FULL, outputs=_FULL // 8, steps=256),
    "no_tensor_cores": Case(inputs=2 * 2048**2, outputs=2048**2, steps=2048),
    "fp64_arithmetic": Case(inputs=_FULL, outputs=_FULL, steps=12288),
    "excess_instructions": Case(inputs=1021, outputs=4 * _FULL, steps=512),
}
"""Those of `why.yaml`, by the name of the planted cause, which is also that of the kernel."""

MORE_CASES: Mapping[str, Case] = {
    "small_grid": Case(inputs=12 * _FULL, outputs=12 * _FULL, steps=1024),
    "occupancy_blocks": Case(inputs=4 * _FULL * 64, outputs=4 * _FULL, steps=64),
    "launch_overhead": Case(inputs=_FULL, outputs=_FULL, steps=6144),
    "instruction_fetch": Case(inputs=_FULL, outputs=_FULL, steps=12288),
    "constant_misses": Case(inputs=17 * 512, outputs=_FULL // 4, steps=64),
    "sleeping": Case(inputs=_FULL // 1024 * 32, outputs=_FULL // 1024 * 32, steps=1024),
    "special_functions": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=768),
    "conversions": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=1536),
    "predicated_threads": Case(inputs=2 * _FULL, outputs=2 * _FULL, steps=6144),
    "global_atomics": Case(inputs=2, outputs=2**20, steps=64),
    "shared_atomics": Case(inputs=4 * _FULL, outputs=4 * _FULL // 64, steps=512),
    "local_arrays": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=1536),
    "misaligned_vectors": Case(inputs=64 * _FULL, outputs=_FULL // 8, steps=256),
}
"""Those of `more.yaml`, likewise."""

FURTHER_CASES: Mapping[str, Case] = {
    # as strangers' kernels had them
    "constant_by_lane": Case(inputs=1024, outputs=_FULL, steps=2048),
    "shared_floats": Case(inputs=4 * _FULL, outputs=4 * _FULL // 4, steps=8),
    "far_angles": Case(inputs=2 * 1024, outputs=_FULL, steps=1024),
    "byte_stores": Case(inputs=1, outputs=_FULL // 32 * 512, steps=256),
    "copies_in_turn": Case(inputs=64 * 4 * _FULL, outputs=4 * _FULL // 32, steps=64),
    # whose plain kernel has nothing of the cause
    "counters_in_l2": Case(inputs=2, outputs=2**22, steps=64),
    "one_counter": Case(inputs=2, outputs=2**15, steps=8),
    "long_division": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=16),
    "far_constants": Case(inputs=17 * 128, outputs=_FULL // 4, steps=256),
    "many_launches": Case(inputs=_FULL, outputs=_FULL, steps=18432),
    # other strengths
    "conflicts_4": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=192),
    "conflicts_8": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=192),
    "conflicts_16": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=192),
    "divergence_2": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=4096),
    "divergence_8": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=4096),
    "chain_of_2": Case(inputs=4096, outputs=_FULL // 8, steps=12288),
    "chain_of_4": Case(inputs=4096, outputs=_FULL // 8, steps=12288),
    "records_of_2": Case(inputs=2**27, outputs=2**17, steps=32),
    "records_of_4": Case(inputs=2**27, outputs=2**17, steps=32),
    "records_of_16": Case(inputs=2**27, outputs=2**17, steps=32),
}
"""Those of `further.yaml`, likewise."""
ALL_CASES: Mapping[str, Case] = {**CASES, **MORE_CASES, **FURTHER_CASES}


def variant_name(params: Mapping[str, Any]) -> str:
    """`plain` or `planted`."""
    return "planted" if params["planted"] else "plain"


def check_variant(params: Mapping[str, Any]) -> str | None:
    """Reason why there is no such variant, or None."""
    planted = params.get("planted")
    if isinstance(planted, bool) or planted not in (0, 1):
        return f"planted must be 0 or 1, not {planted!r}"
    return None


def check_problem(params: Mapping[str, Any]) -> str | None:
    """Reason why there is no such pair, or None."""
    if params.get("case") not in ALL_CASES:
        return f"case must be one of {', '.join(ALL_CASES)}, not {params.get('case')!r}"
    return None


def recipe(params: Mapping[str, Any]) -> Recipe:
    """The library of a variant: all sources with or without the planted causes."""
    return Recipe(
        sources=tuple(Path(__file__).with_name(f"{name}.cu").resolve() for name in SOURCES),
        defines={
            "PLANTED": int(params["planted"]),
            "FACTOR": f"{FACTOR!r}f",
            "ADDEND": f"{ADDEND!r}f",
        },
    )
