"""Accuracy of the estimates of causes, by kernels in which each was planted.

Estimate ÷ true time of the 146 pairs of `benchmarks/why` whose planted kernel is slower: lowest,
highest, and how many, by cause. Recorded on H200s on 2026-11-22 and 2026-11-25, and on H100s on
2026-11-27; `benchmarks/why/score.py --renew` writes them, and a test compares. A cause whose
estimate was compared with the truth too seldom has no time on any page, only its share.
"""

from __future__ import annotations

from collections.abc import Mapping

PLANTED: Mapping[str, tuple[float, float, int]] = {
    "uncoalesced_loads": (0.92, 1.41, 4),
    "uncoalesced_stores": (0.84, 0.86, 4),
    "bank_conflicts": (1.0, 1.03, 5),
    "register_spills": (0.99, 1.06, 4),
    "local_arrays": (0.96, 1.03, 4),
    "occupancy_registers": (0.81, 0.89, 4),
    "occupancy_shared_memory": (0.65, 0.89, 4),
    "occupancy_block_size": (0.31, 0.52, 4),
    "occupancy_blocks": (0.54, 0.75, 4),
    "unfilled_occupancy": (0.66, 0.76, 4),
    "small_grid": (0.99, 1.01, 4),
    "tail_wave": (0.99, 1.04, 4),
    "block_imbalance": (1.0, 1.04, 4),
    "launch_overhead": (0.69, 0.95, 4),
    "divergence": (0.99, 1.0, 4),
    "predicated_threads": (0.94, 0.98, 4),
    "atomic_contention": (0.79, 0.8, 4),
    "global_atomics": (0.84, 1.04, 4),
    "shared_atomics": (0.84, 1.23, 4),
    "uneven_l2_slices": (0.71, 0.91, 2),
    "l2_reuse": (1.02, 1.09, 4),
    "dependent_chain": (0.74, 1.78, 4),
    "few_loads_in_flight": (1.34, 2.32, 2),
    "barrier_waits": (0.92, 1.0, 4),
    "tensor_core_waits": (1.05, 1.42, 4),
    "instruction_fetch": (0.9, 0.97, 4),
    "constant_misses": (0.81, 0.9, 4),
    "sleeping": (0.87, 1.35, 4),
    "narrow_accesses": (1.09, 2.43, 4),
    "special_functions": (1.08, 1.21, 4),
    "conversions": (0.97, 1.06, 4),
    "constant_by_lane": (1.41, 2.91, 4),
    "slow_path_math": (0.9, 1.02, 4),
    "no_tensor_cores": (0.63, 0.72, 4),
    "fp64": (0.98, 1.01, 4),
    "integer_arithmetic": (0.45, 1.22, 5),
    "unfused_operations": (0.3, 0.67, 4),
}
LEAST_STRENGTHS = 4
"""Planted pairs from which on the range of a cause says how far its estimated time may be off."""


def has_time(cause: str) -> bool:
    """Whether a cause was planted in enough strengths for its estimate to be given as a time."""
    return cause in PLANTED and PLANTED[cause][2] >= LEAST_STRENGTHS
