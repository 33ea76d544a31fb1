"""What the account and the tree shall say of each planted cause.

Parts are the factors of the account: `instructions`, `warps_in_flight`, `tail_and_imbalance`
(elapsed ÷ active cycles), `clock`, and the stall reasons by their names in ncu. Several are given
where the queue that fills up first decides in which of them the same wait is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FACTORS = ("instructions", "warps_in_flight", "tail_and_imbalance", "clock")
STALL_REASONS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)


@dataclass(frozen=True)
class Expected:
    """What is right to say of a planted kernel against its plain one."""

    causes: tuple[str, ...]
    """Names, any of which the tree may give first."""
    parts: tuple[str, ...]
    """Parts of the account, any of which may have the largest share."""


EXPECTED: Mapping[str, Expected] = {
    "uncoalesced_loads": Expected(("uncoalesced_loads",), ("long_scoreboard", "lg_throttle")),
    "uncoalesced_stores": Expected(("uncoalesced_stores",), ("lg_throttle", "drain")),
    "bank_conflicts_32": Expected(("bank_conflicts_32",), ("short_scoreboard", "mio_throttle")),
    "bank_conflicts_2": Expected(("bank_conflicts_2",), ("short_scoreboard", "mio_throttle")),
    # The loads and stores are instructions themselves, and what comes after them waits.
    "register_spills": Expected(
        ("register_spills",), ("instructions", "long_scoreboard", "lg_throttle")
    ),
    "occupancy_shared_memory": Expected(("occupancy_shared_memory",), ("warps_in_flight",)),
    "occupancy_registers": Expected(("occupancy_registers",), ("warps_in_flight",)),
    "tail_wave": Expected(("tail_wave",), ("tail_and_imbalance",)),
    "block_imbalance": Expected(("block_imbalance",), ("tail_and_imbalance",)),
    "divergence": Expected(("divergence",), ("instructions",)),
    "atomic_contention": Expected(
        ("atomic_contention",), ("lg_throttle", "drain", "long_scoreboard")
    ),
    "no_l2_reuse": Expected(("no_l2_reuse",), ("long_scoreboard",)),
    "dependent_chain": Expected(("dependent_chain",), ("wait",)),
    "barrier_waits": Expected(("barrier_waits",), ("barrier",)),
    "scalar_loads": Expected(("scalar_loads",), ("instructions", "lg_throttle", "long_scoreboard")),
    "no_tensor_cores": Expected(("no_tensor_cores",), ("instructions",)),
    # Conversions are three times as many instructions, on a pipe of an eighth of the width.
    "fp64_arithmetic": Expected(
        ("fp64_arithmetic",),
        ("instructions", "short_scoreboard", "math_pipe_throttle", "mio_throttle"),
    ),
    "excess_instructions": Expected(("excess_instructions",), ("instructions",)),
}
