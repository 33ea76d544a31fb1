"""What the account and the tree shall say of each planted cause.

Names are those of `profiler.analyse.why`: causes of `causes.CAUSES`, parts of `account`, in which
`stall:` stands before a stall reason, and its unit behind it. Several parts are given where the
queue that fills up first decides in which of them the same wait is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """Causes and parts that are right for a planted kernel against its plain one."""

    causes: tuple[str, ...]
    """Names, any of which the tree may give first."""
    parts: tuple[str, ...]
    """Parts of the account, any of which may have the largest share."""


_MEMORY = (
    "stall:long_scoreboard",
    *(f"stall:long_scoreboard:{kind}" for kind in ("global_memory", "local_memory")),
    "stall:long_scoreboard:global_atomics",
)
_LATENCIES = (*_MEMORY, "stall:lg_throttle")


def _behind_queue(unit: str) -> tuple[str, ...]:
    """Parts that wait for a unit behind the MIO queue: for room in that, or for its results."""
    return (f"stall:mio_throttle:{unit}", f"stall:short_scoreboard:{unit}")


_BUSY_PIPE = "stall:math_pipe_throttle"

EXPECTED: Mapping[str, Expected] = {
    "uncoalesced_loads": Expected(("uncoalesced_loads",), _LATENCIES),
    "uncoalesced_stores": Expected(("uncoalesced_stores",), ("stall:lg_throttle", "stall:drain")),
    "bank_conflicts_32": Expected(("bank_conflicts",), _behind_queue("shared_memory")),
    "bank_conflicts_2": Expected(("bank_conflicts",), _behind_queue("shared_memory")),
    # The loads and stores are instructions themselves, and what comes after them waits.
    "register_spills": Expected(("register_spills",), ("instructions", *_LATENCIES)),
    "occupancy_shared_memory": Expected(("occupancy_shared_memory",), ("warps_in_flight",)),
    "occupancy_registers": Expected(("occupancy_registers",), ("warps_in_flight",)),
    "tail_wave": Expected(("tail_wave",), ("tail_and_imbalance",)),
    "block_imbalance": Expected(("block_imbalance",), ("tail_and_imbalance",)),
    "divergence": Expected(("divergence",), ("instructions",)),
    "atomic_contention": Expected(("atomic_contention",), (*_LATENCIES, "stall:drain")),
    "no_l2_reuse": Expected(("l2_reuse",), _MEMORY),
    "dependent_chain": Expected(("dependent_chain",), ("stall:wait",)),
    "barrier_waits": Expected(("barrier_waits",), ("stall:barrier",)),
    "scalar_loads": Expected(("narrow_accesses",), ("instructions", *_LATENCIES)),
    "no_tensor_cores": Expected(("no_tensor_cores",), ("instructions",)),
    # Conversions are three times as many instructions, on a pipe of an eighth of the width.
    "fp64_arithmetic": Expected(
        ("fp64",),
        (
            "instructions",
            _BUSY_PIPE,
            *_behind_queue("double_precision"),
            *_behind_queue("conversions"),
        ),
    ),
    "excess_instructions": Expected(("integer_arithmetic",), ("instructions",)),
    # Those of more.yaml: what the counters shall show, before any GPU has measured it.
    "small_grid": Expected(("small_grid",), ("tail_and_imbalance",)),
    "occupancy_blocks": Expected(("occupancy_blocks",), ("warps_in_flight",)),
    # 16 kernels against one are compared together.
    "launch_overhead": Expected(("launch_overhead",), ("tail_and_imbalance",)),
    "instruction_fetch": Expected(("instruction_fetch",), ("stall:no_instruction",)),
    "constant_misses": Expected(("constant_misses",), ("stall:imc_miss",)),
    "sleeping": Expected(("sleeping",), ("stall:sleeping",)),
    "special_functions": Expected(
        ("special_functions",), (_BUSY_PIPE, *_behind_queue("special_functions"))
    ),
    "conversions": Expected(("conversions",), (_BUSY_PIPE, *_behind_queue("conversions"))),
    "predicated_threads": Expected(("predicated_threads",), ("instructions",)),
    "global_atomics": Expected(("global_atomics",), (*_LATENCIES, "stall:drain")),
    "shared_atomics": Expected(
        ("shared_atomics",), ("stall:lg_throttle", *_behind_queue("shared_atomics"))
    ),
    "local_arrays": Expected(("local_arrays",), ("instructions", *_LATENCIES)),
    # Those of further.yaml.
    "constant_by_lane": Expected(("constant_by_lane",), _behind_queue("constant_memory")),
    "shared_floats": Expected(
        ("shared_atomics",), ("instructions", *_behind_queue("shared_atomics"))
    ),
    "far_angles": Expected(("slow_path_math",), ("instructions",)),
    "byte_stores": Expected(("narrow_accesses",), ("instructions", *_LATENCIES)),
    "copies_in_turn": Expected(("few_loads_in_flight",), _LATENCIES),
    "counters_in_l2": Expected(("global_atomics",), (*_LATENCIES, "stall:drain")),
    "one_counter": Expected(("atomic_contention",), (*_LATENCIES, "stall:drain")),
    "long_division": Expected(("integer_arithmetic",), ("instructions",)),
    "far_constants": Expected(("constant_misses",), ("stall:imc_miss",)),
    "many_launches": Expected(("launch_overhead",), ("tail_and_imbalance",)),
    **{
        f"conflicts_{ways}": Expected(("bank_conflicts",), _behind_queue("shared_memory"))
        for ways in (4, 8, 16)
    },
    **{f"divergence_{kinds}": Expected(("divergence",), ("instructions",)) for kinds in (2, 8)},
    **{f"chain_of_{sums}": Expected(("dependent_chain",), ("stall:wait",)) for sums in (2, 4)},
    **{
        f"records_of_{fields}": Expected(("uncoalesced_loads",), _LATENCIES)
        for fields in (2, 4, 16)
    },
    # Those that only strengths.yaml has.
    **{
        f"blocks_after_{steps}": Expected(("occupancy_blocks",), ("warps_in_flight",))
        for steps in (96, 128, 160)
    },
    **{
        f"product_of_{depth}": Expected(("no_tensor_cores",), ("instructions",))
        for depth in (256, 1024, 4096)
    },
    "shared_reserved": Expected(("occupancy_shared_memory",), ("warps_in_flight",)),
    "registers_held": Expected(("occupancy_registers",), ("warps_in_flight",)),
    "divergence_16": Expected(("divergence",), ("instructions",)),
    "sectors_in_turn": Expected(("few_loads_in_flight",), _LATENCIES),
    "divisions": Expected(("integer_arithmetic",), ("instructions",)),
    "uneven_warps": Expected(("unfilled_occupancy",), ("warps_in_flight",)),
    "block_sizes": Expected(("occupancy_block_size",), ("warps_in_flight",)),
    "hot_lines": Expected(("uneven_l2_slices",), _LATENCIES),
    # Where warps wait for the results, the account has it under either reason.
    "waited_products": Expected(("tensor_core_waits",), ("stall:gmma", "stall:wait")),
    # A kernel that only one side has is a part of its own.
    "unfused": Expected(("unfused_operations",), ("kernel:rest_of_unfused",)),
    # A load of 16 bytes, split into 4 of 4 bytes each: narrower, and no longer beside each other.
    "misaligned_vectors": Expected(
        ("uncoalesced_loads", "narrow_accesses"), ("instructions", *_LATENCIES)
    ),
}

SUPERSEDED: Mapping[str, str] = {
    "atomic_contention": "one_counter",
    "global_atomics": "counters_in_l2",
    "excess_instructions": "long_division",
    "launch_overhead": "many_launches",
    "constant_misses": "far_constants",
}
"""Cases whose plain kernel does some of the same, by the case whose plain kernel does not."""
