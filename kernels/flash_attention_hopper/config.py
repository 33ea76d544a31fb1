"""The 14 fields of a Hopper attention kernel, with reasons against illegal combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from attention.parameters import Configuration, LegalFields
from attention.problem import DTYPES, ELEMENT_BYTES

CHOICES: Mapping[str, tuple[int, ...]] = {
    "d_head": (64, 128, 256),
    "consumers": (1, 2, 3),
    "B_c": tuple(range(16, 257, 16)),
    "stages": (1, 2, 3, 4),
}
"""The values that the sizes may take: elements, warpgroups, rows of K and V, tiles.

`B_c` is the depth of P V, which goes in steps of 16, and the columns of one wgmma, at most 256.
"""

FLAG_FIELDS = (
    "producer",
    "overlap",
    "ping_pong",
    "lazy_rescale",
    "tensor_store",
    "persistent",
    "heads_innermost",
    "kv_heads_first",
    "causal",
)

GROUP_ROWS = 64
"""Rows of one wgmma, and so of a consumer."""
SHARED_BYTES = 227 * 1024
"""Shared memory that a block may have at compute capability 9.0."""
BARRIER_BYTES = 1024
"""`kBarrierBytes` in src/config.cuh: kept free for the barriers."""

CONSUMER_REGISTERS: Mapping[int, int] = {1: 240, 2: 240, 3: 160}
"""Registers that a thread may have, by the number of consumers: what setmaxnreg leaves them beside
a producer. Without a producer a block has room for a few more, which no tile needs."""
WORK_REGISTERS = 32
"""What a consumer needs beside its sums and operands: addresses, references, sums of rows. Found by
compiling: with less ptxas spills or serialises wgmma (C7512); docs/flash-attention-hopper.md."""


@dataclass(frozen=True)
class Config(Configuration):
    """One configuration; the order of the fields is that of its name.

    `consumers` is in warpgroups of 64 query rows each, `B_c` in rows of a
    tile of K and V, `stages` in tiles of K (and as many of V) in shared memory.
    """

    consumers: int = 3
    B_c: int = 80
    stages: int = 2
    producer: bool = True
    overlap: bool = True
    ping_pong: bool = True
    lazy_rescale: bool = True
    tensor_store: bool = True
    persistent: bool = True
    heads_innermost: bool = False
    kv_heads_first: bool = False
    causal: bool = False

    @property
    def B_r(self) -> int:  # noqa: N802 - the field's own name in every paper
        """Query rows of a thread block."""
        return self.consumers * GROUP_ROWS

    @property
    def loop_bytes(self) -> int:
        """Shared memory of a thread block for Q, the ring of K and V, and the barriers."""
        rows = self.B_r + 2 * self.stages * self.B_c
        return rows * self.d_head * ELEMENT_BYTES + BARRIER_BYTES

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a thread block.

        A persistent block that stores by TMA has a place of its own for the output if it fits;
        otherwise the output takes the place of Q.
        """
        output = self.B_r * self.d_head * ELEMENT_BYTES
        separate = self.tensor_store and self.persistent
        if separate and self.loop_bytes + output <= SHARED_BYTES:
            return self.loop_bytes + output
        return self.loop_bytes

    @property
    def held_registers(self) -> int:
        """Registers of a thread for O, S, and with `overlap` for P, which lives beside S."""
        weights = self.B_c // 4 if self.overlap else 0
        return self.d_head // 2 + self.B_c // 2 + weights


def short_form(config: Config) -> str:
    """Name for people: the sizes and the enabled flags.

    `(BF16, 128, 192, 80, 2): producer+overlap` is dtype, d_head, B_r, B_c, stages.
    """
    sizes = (config.dtype, config.d_head, config.B_r, config.B_c, config.stages)
    flags = [name for name in FLAG_FIELDS if getattr(config, name)]
    return f"({', '.join(map(str, sizes))}): {'+'.join(flags) or 'plain'}"


def _check_producer(config: Config) -> str | None:
    if config.producer:
        return None
    if config.ping_pong:
        return (
            "ping_pong needs a producer: without one all warps meet at every tile, "
            "and no warpgroup can run half a step behind"
        )
    if config.persistent:
        return "persistent needs a producer: without one nothing is loaded ahead of the next tile"
    return None


def _check_turns(config: Config) -> str | None:
    if config.ping_pong and config.consumers == 1:
        return "ping_pong needs two consumers: there is nobody to take turns with"
    return None


def _check_registers(config: Config) -> str | None:
    most = CONSUMER_REGISTERS[config.consumers] - WORK_REGISTERS
    if config.held_registers > most:
        held_tensors = "O, S and P" if config.overlap else "O and S"
        return (
            f"{held_tensors} take {config.held_registers} registers a thread; {config.consumers} "
            f"consumers have {most} for them"
        )
    return None


def _check_shared_memory(config: Config) -> str | None:
    if config.shared_bytes > SHARED_BYTES:
        return (
            f"the tiles take {config.shared_bytes} bytes of shared memory; "
            f"a block may have {SHARED_BYTES}"
        )
    return None


FIELDS = tuple(field.name for field in fields(Config))
_LEGAL = LegalFields(
    config=Config,
    dtypes=DTYPES,
    flags=FLAG_FIELDS,
    choices=CHOICES,
    checks=(_check_producer, _check_turns, _check_registers, _check_shared_memory),
)
make_config, refusal = _LEGAL.make, _LEGAL.refusal
