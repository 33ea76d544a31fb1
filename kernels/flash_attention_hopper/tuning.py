"""Configurations to try: the autotune space, and the ladder of steps."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from attention.problem import DTYPES
from flash_attention_hopper.config import Config, refusal

TUNED_COLUMNS = (64, 80, 96, 112, 128, 144, 160, 176, 192)


@dataclass(frozen=True)
class LadderStep:
    """One step of the ladder: its configuration, and a note on its change."""

    note: str
    config: Config


def candidates() -> tuple[Config, ...]:
    """The 864 configurations of the autotune space, legal or not.

    What every fast variant has is on: producer, overlap, lazy_rescale, tensor_store.
    """
    grid = itertools.product(
        DTYPES, (64, 128, 256), (2, 3), TUNED_COLUMNS, (2, 3), (False, True), (False, True)
    )
    return tuple(
        Config(
            dtype=dtype,
            d_head=d_head,
            consumers=consumers,
            B_c=columns,
            stages=stages,
            ping_pong=ping_pong,
            persistent=persistent,
        )
        for dtype, d_head, consumers, columns, stages, ping_pong, persistent in grid
    )


def tuned_configs() -> tuple[Config, ...]:
    """The legal configurations of the autotune space."""
    return tuple(config for config in candidates() if refusal(config.params()) is None)


def tuned_causal() -> tuple[Config, ...]:
    """The legal configurations with a causal mask, in both orders of tiles."""
    return tuple(
        replace(config, causal=True, heads_innermost=heads_innermost)
        for config in tuned_configs()
        for heads_innermost in (False, True)
    )


def ladder(dtype: str) -> tuple[LadderStep, ...]:
    """Steps of the kernel's history, each with one more switch."""
    plain = Config(
        dtype=dtype,
        consumers=1,
        B_c=128,
        stages=1,
        producer=False,
        overlap=False,
        ping_pong=False,
        lazy_rescale=False,
        tensor_store=False,
        persistent=False,
    )
    ring = replace(plain, stages=2)
    overlap = replace(ring, overlap=True)
    producer = replace(overlap, producer=True)
    two_consumers = replace(producer, consumers=2)
    ping_pong = replace(two_consumers, ping_pong=True)
    lazy = replace(ping_pong, lazy_rescale=True)
    store = replace(lazy, tensor_store=True)
    persistent = replace(store, persistent=True)
    steps = (
        ("wgmma and TMA, one buffer each for K and V; two blocks share a multiprocessor", plain),
        ("a ring of two; its shared memory leaves room for one block only", ring),
        ("softmax while the next Q K^T and this P V are under way", overlap),
        ("a warpgroup that only copies", producer),
        ("two consumers: 128 query rows for every tile of K and V", two_consumers),
        ("ping-pong: the consumers start their products in turns", ping_pong),
        ("O is rescaled only where a maximum grows by more than 2^8", lazy),
        ("output through shared memory and TMA", store),
        ("persistent blocks: the next tile's Q, K and V load during this one's end", persistent),
        ("three consumers and 80 keys: 192 query rows for every tile", Config(dtype=dtype)),
    )
    return tuple(LadderStep(note, config) for note, config in steps)


SHORT = Config(consumers=2, B_c=128)
LONG = Config()
"""The fastest configurations at head dimension 128, in either type: docs/flash-attention-hopper.md,
"The best, by length"."""
SHORT_SEQ_LEN = 1024
"""Longest of the measured lengths at which `SHORT` takes less: 6 % at 512, 1 % here."""


def fastest(dtype: str, seq_len: int) -> Config:
    """Fastest configuration at a length, as a reference for other kernels."""
    return replace(SHORT if seq_len <= SHORT_SEQ_LEN else LONG, dtype=dtype)


def fastest_name(config: Config) -> str:
    """Name of a fastest kernel in the library of all of them: `bf16_192x80`."""
    return f"{config.dtype.lower()}_{config.B_r}x{config.B_c}"
