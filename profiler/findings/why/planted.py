"""How true the estimates of causes are: by kernels in which each was planted.

Estimate ÷ true time of the pairs of `benchmarks/why` whose planted kernel is slower: lowest,
highest, and how many, by cause. Recorded on H200s on 2026-11-22 and 2026-11-25, and on an H100 on
2026-11-27; `benchmarks/why/score.py --renew` writes them, and a test compares. A cause whose
estimate was compared with the truth too seldom has no time on any page, only its share.
"""

from __future__ import annotations

from collections.abc import Mapping

PLANTED: Mapping[str, tuple[float, float, int]] = {
    "uncoalesced_loads": (0.92, 1.22, 4),
    "uncoalesced_stores": (0.84, 0.84, 1),
    "bank_conflicts": (1.0, 1.03, 5),
    "register_spills": (0.99, 0.99, 1),
    "local_arrays": (0.96, 0.96, 1),
    "occupancy_registers": (0.89, 0.89, 1),
    "occupancy_shared_memory": (0.89, 0.89, 1),
    "occupancy_blocks": (0.75, 0.75, 1),
    "small_grid": (1.0, 1.0, 1),
    "tail_wave": (1.01, 1.01, 1),
    "block_imbalance": (0.75, 0.75, 1),
    "launch_overhead": (0.69, 0.71, 2),
    "divergence": (0.99, 1.0, 3),
    "predicated_threads": (0.94, 0.94, 1),
    "atomic_contention": (0.79, 0.8, 2),
    "global_atomics": (1.03, 1.04, 2),
    "shared_atomics": (0.88, 1.22, 2),
    "l2_reuse": (1.09, 1.09, 1),
    "dependent_chain": (0.98, 1.78, 2),
    "few_loads_in_flight": (1.34, 1.34, 1),
    "barrier_waits": (1.0, 1.0, 1),
    "instruction_fetch": (0.97, 0.97, 1),
    "constant_misses": (0.78, 0.8, 2),
    "sleeping": (1.33, 1.33, 1),
    "narrow_accesses": (1.09, 2.43, 2),
    "special_functions": (1.33, 1.33, 1),
    "conversions": (1.23, 1.23, 1),
    "constant_by_lane": (1.41, 1.41, 1),
    "slow_path_math": (1.0, 1.0, 1),
    "no_tensor_cores": (0.72, 0.72, 1),
    "fp64": (0.94, 0.94, 1),
    "integer_arithmetic": (0.45, 1.22, 2),
}
LEAST_STRENGTHS = 4
"""Planted pairs from which on the range of a cause says how far its estimated time may be off."""


def has_time(cause: str) -> bool:
    """Whether a cause was planted in enough strengths for its estimate to be given as a time."""
    return cause in PLANTED and PLANTED[cause][2] >= LEAST_STRENGTHS
