"""The 13 fields of a FlashAttention kernel, with reasons against illegal combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from attention.parameters import Configuration, LegalFields, Value
from attention.problem import DTYPES, ELEMENT_BYTES

CHOICES: Mapping[str, tuple[int, ...]] = {
    "d_head": (64, 128, 256),
    "B_r": (64, 128),
    "B_c": (32, 64, 128),
    "n_warps": (4, 8),
}
"""The values that the sizes may take; elements, rows, rows, warps."""

TILE_FIELDS = ("Q_mma_load_K_tiles", "K_mma_load_K_tiles", "V_mma_load_K_tiles")
FLAG_FIELDS = (
    "async_copy",
    "eager_load_blocks",
    "swizzled",
    "mma_double_buffer_loads",
    "optimized_softmax",
)

FRAGMENT_WIDTH = 8
"""Columns of one 8x8 matrix, which is what one row address of ldmatrix loads."""
MAX_REGISTERS = 255
"""Registers that a thread may have: CUDA C++ programming guide, technical specifications."""


@dataclass(frozen=True)
class Config(Configuration):
    """One configuration; the order of the fields is that of a kernel's demangled name.

    `B_r` and `B_c` in rows of a tile of Q and of K and V. The three
    `…_mma_load_K_tiles` say how much of an operand lies in registers at a time: that many 8-wide
    fragments along the depth of its product, or the whole block of the operand where it is 0.
    """

    B_r: int = 64
    B_c: int = 64
    n_warps: int = 4
    async_copy: bool = True
    eager_load_blocks: bool = True
    swizzled: bool = True
    Q_mma_load_K_tiles: int = 0
    K_mma_load_K_tiles: int = 0
    V_mma_load_K_tiles: int = 0
    mma_double_buffer_loads: bool = False
    optimized_softmax: bool = False

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a thread block: one tile each of Q, K and V."""
        return (self.B_r + 2 * self.B_c) * self.d_head * ELEMENT_BYTES

    @property
    def accumulators(self) -> int:
        """Registers of a thread for the sums of O and S."""
        return self.B_r // self.n_warps * (self.d_head + self.B_c) // 32

    def depth(self, field: str) -> int:
        """Elements along the product's depth for an operand's `…_tiles` field."""
        return self.B_c if field.startswith("V") else self.d_head

    def length_refusal(self, seq_len: int) -> str | None:
        """Reason why the tiles do not fit a length, or None."""
        for name in ("B_r", "B_c"):
            if seq_len % getattr(self, name):
                return f"a length of {seq_len} is no multiple of {name} = {getattr(self, name)}"
        return None


def _check_value(name: str, value: Value) -> str | None:
    if name in TILE_FIELDS and not _is_tile_count(value):
        return f"{name} must be 0 or a power of two from 2, not {value!r}"
    return None


def _is_tile_count(value: Value) -> bool:
    """Whether a value is 0 or whole steps of a product, whose depth is two fragments."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return False
    return value != 1 and value & (value - 1) == 0


def _check_eager(config: Config) -> str | None:
    if config.eager_load_blocks and not config.async_copy:
        return "eager_load_blocks needs async_copy: only asynchronous copies can run ahead"
    return None


def _check_warps(config: Config) -> str | None:
    if config.n_warps == 8 and config.B_r != 128:
        return "8 warps need B_r = 128: a warp works on at least 16 query rows"
    return None


def _check_accumulators(config: Config) -> str | None:
    if config.accumulators > MAX_REGISTERS:
        return (
            f"the sums of O and S alone take {config.accumulators} registers a thread; "
            f"there are {MAX_REGISTERS}"
        )
    return None


def _check_tiles(config: Config) -> str | None:
    for name in TILE_FIELDS:
        stages = 2 if config.mma_double_buffer_loads else 1
        most = config.depth(name) // FRAGMENT_WIDTH // stages
        if getattr(config, name) > most:
            buffered = " with double buffering" if stages == 2 else ""
            return f"{name} must be at most {most} at a depth of {config.depth(name)}{buffered}"
    return None


FIELDS = tuple(field.name for field in fields(Config))
_LEGAL = LegalFields(
    config=Config,
    dtypes=DTYPES,
    flags=FLAG_FIELDS,
    choices=CHOICES,
    checks=(_check_eager, _check_warps, _check_accumulators, _check_tiles),
    check_value=_check_value,
)
make_config, refusal = _LEGAL.make, _LEGAL.refusal
