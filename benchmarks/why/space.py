"""Cases of planted causes: their sizes, and what to compile; no torch.

A variant is `{planted: 0 or 1}`, and in `strengths.yaml` `{planted, strength}`, a problem is
`{case: …}`. Each variant is one library with the kernels of all cases. One of `loop.py` is
`{planted: 1, kernel: CASE, fix: CAUSE}`: the planted kernel of a case after the fix of a cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expected import EXPECTED

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
STRENGTH_SOURCES = (*SOURCES, "warpgroups")
"""Those of `strengths.yaml`; the last one is of Hopper's instructions."""
_SOURCE_OF_ERRORS = "memory"
"""The source with the function that says what an error code means."""
_ARCH = "sm_90a"
WHOLE = 8
"""Strength of a planted kernel that has all of its mistake."""

_H200_MULTIPROCESSORS = 132
_FULL = 2048 * _H200_MULTIPROCESSORS
"""Threads that fill an H200 once."""
_EVEN_WARPS = 2 * 192 * _H200_MULTIPROCESSORS
"""Warps that are whole waves of an H200, whether 64, 48, 32, 16 or 8 are on a multiprocessor."""


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

STRENGTH_CASES: Mapping[str, Case] = {
    # whose plain kernel has another amount of the work that has no mistake
    **{
        f"blocks_after_{steps}": Case(inputs=4 * _FULL * 64, outputs=4 * _FULL, steps=64)
        for steps in (96, 128, 160)
    },
    **{
        f"product_of_{depth}": Case(inputs=2 * 2048 * depth, outputs=2048**2, steps=depth)
        for depth in (256, 1024, 4096)
    },
    # as a case above, where weaker forms of its mistake would cost nothing
    "shared_reserved": Case(inputs=_EVEN_WARPS * 32 * 32, outputs=_EVEN_WARPS, steps=32),
    "registers_held": Case(inputs=_EVEN_WARPS * 32 * 32, outputs=_EVEN_WARPS, steps=32),
    "divergence_16": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=4096),
    "sectors_in_turn": Case(inputs=8 * 4 * _FULL // 32 * 128, outputs=4 * _FULL // 32, steps=128),
    "divisions": Case(inputs=4 * _FULL, outputs=4 * _FULL, steps=64),
    # of causes that have no case above
    "uneven_warps": Case(inputs=4 * _FULL * 64, outputs=4 * _FULL // 256, steps=512),
    "block_sizes": Case(inputs=32 * _FULL * 8, outputs=32 * _FULL, steps=8),
    "hot_lines": Case(inputs=4096 * 32, outputs=2 * _FULL, steps=256),
    "waited_products": Case(inputs=2, outputs=_H200_MULTIPROCESSORS * 64 * 128, steps=4096),
    "unfused": Case(inputs=2**26, outputs=2**26, steps=16),
}
"""Those that only `strengths.yaml` has."""
ALL_CASES: Mapping[str, Case] = {**CASES, **MORE_CASES, **FURTHER_CASES, **STRENGTH_CASES}

_WEAKER = (1, 2, 4)
STRENGTHS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *("uncoalesced_stores", "register_spills", "tail_wave", "block_imbalance"),
            *("no_l2_reuse", "barrier_waits", "fp64_arithmetic", "small_grid"),
            *("instruction_fetch", "sleeping", "special_functions", "conversions"),
            *("predicated_threads", "local_arrays", "constant_by_lane", "far_angles"),
            *("shared_reserved", "registers_held"),
        ),
        _WEAKER,
    ),
    **dict.fromkeys(("dependent_chain", "many_launches"), (2, 4)),
    **dict.fromkeys(
        (
            *("scalar_loads", "shared_atomics", "counters_in_l2", "one_counter"),
            "constant_misses",
        ),
        (1, 4),
    ),
    "divergence_16": (WHOLE,),
    **dict.fromkeys(("sectors_in_turn", "divisions"), (2, 4, WHOLE)),
    **dict.fromkeys(
        ("uneven_warps", "block_sizes", "hot_lines", "waited_products", "unfused"),
        (*_WEAKER, WHOLE),
    ),
    **{f"blocks_after_{steps}": (WHOLE,) for steps in (96, 128, 160)},
    **{f"product_of_{depth}": (WHOLE,) for depth in (256, 1024, 4096)},
}
"""Strengths in which `strengths.yaml` has a case: with those of the others, four of each cause."""


def variant_name(params: Mapping[str, Any]) -> str:
    """`plain` or `planted`, with its strength or its fix where it has one."""
    if "fix" in params:
        return f"{params['kernel']}-{params['fix']}"
    if not params["planted"]:
        return "plain"
    return f"planted_{params['strength']}" if "strength" in params else "planted"


def check_variant(params: Mapping[str, Any]) -> str | None:
    """Reason why there is no such variant, or None."""
    planted = params.get("planted")
    if isinstance(planted, bool) or planted not in (0, 1):
        return f"planted must be 0 or 1, not {planted!r}"
    strength = params.get("strength", planted)
    if isinstance(strength, bool) or strength not in ((1, 2, 4, WHOLE) if planted else (0,)):
        return f"strength must be 1, 2, 4 or 8, and 0 of the plain kernel, not {strength!r}"
    if "fix" in params:
        return check_problem({"case": params.get("kernel")})
    return None


def check_problem(params: Mapping[str, Any]) -> str | None:
    """Reason why there is no such pair, or None."""
    if params.get("case") not in ALL_CASES:
        return f"case must be one of {', '.join(ALL_CASES)}, not {params.get('case')!r}"
    return None


def check_cell(variant: Mapping[str, Any], problem: Mapping[str, Any]) -> str | None:
    """Reason why a pair is not measured in a strength or with a fix, or None."""
    if variant.get("kernel", problem["case"]) != problem["case"]:
        return "the fix is of another kernel"
    if not variant.get("strength") or variant["strength"] in STRENGTHS.get(problem["case"], ()):
        return None
    return "not in this strength: with those of the other experiments there are enough"


def recipe(params: Mapping[str, Any]) -> Recipe:
    """The library of a variant: all sources with or without the planted causes.

    With a fix it has the sources of one kernel. The fix of a cause undoes the mistake that makes it
    (`expected.py`), and leaves a kernel as it is whose mistake is another one.
    """
    sources = STRENGTH_SOURCES if "strength" in params else SOURCES
    planted = int(params["planted"])
    if "fix" in params:
        sources = tuple(dict.fromkeys((_source_of(params["kernel"]), _SOURCE_OF_ERRORS)))
        planted = int(params["fix"] not in EXPECTED[params["kernel"]].causes)
    return Recipe(
        sources=tuple(Path(__file__).with_name(f"{name}.cu").resolve() for name in sources),
        arch=_ARCH if "strength" in params else None,
        defines={
            "PLANTED": planted,
            "STRENGTH": params.get("strength") or WHOLE,
            "FACTOR": f"{FACTOR!r}f",
            "ADDEND": f"{ADDEND!r}f",
        },
    )


def _source_of(case: str) -> str:
    """Name of the source that launches a kernel of `why.yaml` or `more.yaml`."""
    launcher = f"WHY_LAUNCHER({case}) "
    return next(
        name
        for name in SOURCES
        if launcher in Path(__file__).with_name(f"{name}.cu").read_text("utf-8")
    )
