"""Configurations to try: the autotune space with its filter, and the ladder of steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from attention.parameters import Value
from attention.problem import DTYPES
from flash_attention.config import Config, refusal


@dataclass(frozen=True)
class Rule:
    """A reason to leave a legal configuration out of the autotuning."""

    reason: str
    drops: Callable[[Config], bool]


@dataclass(frozen=True)
class Dropped:
    """Configurations that a rule drops first."""

    reason: str
    configs: tuple[Config, ...]

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.configs)


RULES = (
    Rule(
        "eager loads need async copies",
        lambda config: config.eager_load_blocks and not config.async_copy,
    ),
    Rule(
        "Q and K are loaded in unequal parts, with Q not held in registers",
        lambda config: config.Q_mma_load_K_tiles not in (0, config.K_mma_load_K_tiles),
    ),
    Rule("B_r = 64 with 8 warps", lambda config: config.B_r == 64 and config.n_warps == 8),
    Rule(
        "(64, 32) with Q held in registers, over the register limit",
        lambda config: (config.B_r, config.B_c, config.Q_mma_load_K_tiles) == (64, 32, 0),
    ),
    Rule(
        "(64, 64) with Q loaded in parts",
        lambda config: (config.B_r, config.B_c) == (64, 64) and config.Q_mma_load_K_tiles != 0,
    ),
    Rule(
        "B_r = 128 with Q held in registers",
        lambda config: config.B_r == 128 and config.Q_mma_load_K_tiles == 0,
    ),
)
"""The first rule that matches drops."""

FIRST_CODE_STEP = 7
LAST_CODE_STEP = 16
"""Steps 1 to 7 of the ladder are configurations of one kernel; from 8 on its code changes."""

TUNED_CODE_STEP = 12
"""The kernel that is tuned: the last step at which (128, 64) does not spill, whatever the heads.
Steps 13 to 15 spill 24 bytes and are still up to 3 % faster on an H200: docs/flash-attention.md."""

FASTEST_CODE_STEP = 15
"""The fastest step that takes any number of heads."""


@dataclass(frozen=True)
class Step:
    """One step of the ladder: a note on its change, and its configuration."""

    number: int
    note: str
    config: Config

    @property
    def code_step(self) -> int:
        """The step of the kernel's code."""
        return max(self.number, FIRST_CODE_STEP)

    @property
    def params(self) -> dict[str, Value]:
        """Parameters of the step's variant: the 13 fields and the step."""
        return {**self.config.params(), "step": self.code_step}


_CODE_NOTES = (
    "addresses of ldmatrix: one XOR with a constant",
    "products with columns outermost, exponentials woven between them",
    "no reduction and no rescaling while no score exceeds the reference much",
    "addresses of the staged output: one XOR with a constant",
    "one division per row, then products",
    "K and V from the last block to the first",
    "output stores that bypass L1",
    "tiles of 64 elements along d_head",
    "row stride in device memory fixed for 16 heads",
)


def candidates() -> tuple[Config, ...]:
    """256 configurations of the autotune space, before the filter."""
    loads = tuple(itertools.product((0, 2), repeat=3))
    grid = itertools.product(DTYPES, (64, 128), (32, 64), loads, (False, True), (False, True))
    return tuple(
        Config(
            dtype=dtype,
            B_r=rows,
            B_c=columns,
            Q_mma_load_K_tiles=q_tiles,
            K_mma_load_K_tiles=k_tiles,
            V_mma_load_K_tiles=v_tiles,
            mma_double_buffer_loads=buffered,
            optimized_softmax=optimized,
        )
        for dtype, rows, columns, (q_tiles, k_tiles, v_tiles), buffered, optimized in grid
    )


def apply_rules(
    configs: Iterable[Config], rules: Sequence[Rule] = RULES
) -> tuple[tuple[Config, ...], tuple[Dropped, ...]]:
    """Kept configurations, and the configurations that each rule drops first."""
    kept_configs: list[Config] = []
    dropped: dict[str, list[Config]] = {rule.reason: [] for rule in rules}
    for config in configs:
        rule = next((rule for rule in rules if rule.drops(config)), None)
        (kept_configs if rule is None else dropped[rule.reason]).append(config)
    return tuple(kept_configs), tuple(
        Dropped(reason, tuple(dropped_configs)) for reason, dropped_configs in dropped.items()
    )


def tuned_configs() -> tuple[Config, ...]:
    """The 80 configurations that pass the filter."""
    return apply_rules(candidates())[0]


def ladder(dtype: str) -> tuple[Step, ...]:
    """The 16 steps in order."""
    base = Config(dtype=dtype, eager_load_blocks=False, swizzled=False)
    swizzled = replace(base, swizzled=True)
    eager = replace(swizzled, eager_load_blocks=True)
    in_parts = replace(eager, K_mma_load_K_tiles=2, V_mma_load_K_tiles=2)
    buffered = replace(in_parts, mma_double_buffer_loads=True)
    folded = replace(buffered, optimized_softmax=True)
    best = replace(folded, B_r=128, Q_mma_load_K_tiles=2, mma_double_buffer_loads=False)
    steps = (
        ("base: asynchronous copies only", base),
        ("swizzled shared memory", swizzled),
        ("K and V blocks loaded eagerly", eager),
        ("operands loaded in parts, between the products", in_parts),
        ("double-buffered register loads", buffered),
        ("softmax scale folded into one multiply-add", folded),
        ("the best tile and loads of the autotune space", best),
        *((note, best) for note in _CODE_NOTES),
    )
    return tuple(Step(number, note, config) for number, (note, config) in enumerate(steps, 1))


def fastest(dtype: str) -> dict[str, Value]:
    """Parameters of the kernel's fastest variant in a type, as a reference for other kernels."""
    return ladder(dtype)[FASTEST_CODE_STEP - 1].params


def named_sets() -> dict[str, tuple[Config, ...]]:
    """Sets of configurations that an experiment may name.

    `tune`: the autotune space after its filter; `B_r,B_c`: the part of it with these tiles; `all`:
    every legal configuration of the space, unfiltered.
    """
    tune = tuned_configs()
    sets = {
        "tune": tune,
        "all": tuple(config for config in candidates() if refusal(config.params()) is None),
    }
    for config in tune:
        name = f"{config.B_r},{config.B_c}"
        sets[name] = (*sets.get(name, ()), config)
    return sets
