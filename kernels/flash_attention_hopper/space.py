"""Variants and problems of the Hopper kernel: legality and recipes; no torch.

A variant is a configuration of the Hopper kernel, given by its 14 fields; or it is
`{implementation: …}`, one of torch's own. Problems are those of
`kernels/attention/problem.py`, of any length, with a causal mask or none.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attention.kernel_space import KernelSpace
from attention.parameters import Params, Value
from attention.problem import DTYPE_CODES, DTYPES, check_problem, is_causal, sizes
from flash_attention_hopper.config import (
    Config,
    make_config,
    refusal,
    short_form,
)
from flash_attention_hopper.tuning import (
    LONG,
    SHORT,
    fastest_name,
    ladder,
    tuned_causal,
    tuned_configs,
)
from profiler.kernels.recipe import Recipe

__all__ = [
    "check_cell",
    "check_problem",
    "check_variant",
    "config_of",
    "fastest_recipe",
    "recipe",
    "variant_name",
    "variant_sets",
]

ARCHITECTURE = "sm_90a"
"""wgmma and setmaxnreg are not in any other architecture's instruction set."""

_SOURCES = Path(__file__).resolve().parent / "src"
_DEFINITIONS = {
    "d_head": "D_HEAD",
    "consumers": "CONSUMERS",
    "B_c": "BLOCK_COLS",
    "stages": "STAGES",
    "producer": "PRODUCER",
    "overlap": "OVERLAP",
    "ping_pong": "PING_PONG",
    "lazy_rescale": "LAZY_RESCALE",
    "tensor_store": "TENSOR_STORE",
    "persistent": "PERSISTENT",
    "heads_innermost": "HEADS_INNERMOST",
    "causal": "CAUSAL",
}
"""Of each field that is compiled in; `dtype` is, too, and `kv_heads_first` acts at the launch."""


def config_of(variant: Params) -> Config:
    """Configuration of a variant; ValueError with the reason if it has none."""
    return make_config(variant)


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`.

    `tune`: the autotune space; `tune_64`, `tune_128`, `tune_256`: its parts by head dimension;
    `causal` and its parts: the same with a causal mask, in both orders of tiles; `prog` and
    `prog_fp16`: the ladder in BF16 and FP16.
    """
    sets: dict[str, list[dict[str, Value]]] = {}
    for stem, configs in (("tune", tuned_configs()), ("causal", tuned_causal())):
        for config in configs:
            for name in (stem, f"{stem}_{config.d_head}"):
                sets.setdefault(name, []).append(config.params())
    for name, dtype in (("prog", "BF16"), ("prog_fp16", "FP16")):
        sets[name] = [step.config.params() for step in ladder(dtype)]
    return sets


def fastest_recipe() -> Recipe:
    """Library with the fastest kernel of each type and length, under the names of `tuning`.

    Definitions in which they differ stand in their sources.
    """
    configs = [replace(config, dtype=dtype) for dtype in DTYPES for config in (SHORT, LONG)]
    shared = set.intersection(*(set(_defines(config).items()) for config in configs))
    sources = tuple(_SOURCES / f"fastest_{fastest_name(config)}.cu" for config in configs)
    return Recipe(sources=sources, defines=dict(sorted(shared)), arch=ARCHITECTURE)


def _defines(config: Config) -> dict[str, int]:
    fields = {define: int(getattr(config, name)) for name, define in _DEFINITIONS.items()}
    return {**fields, "DTYPE": DTYPE_CODES[config.dtype]}


def _name(variant: Params) -> str:
    return short_form(config_of(variant))


def _check_kernel(variant: Params, problem: Params) -> str | None:
    config, causal = config_of(variant), is_causal(problem)
    if config.causal != causal:
        masked, unmasked = (
            ("the problem", "the kernel") if causal else ("the kernel", "the problem")
        )
        return f"{masked} has a causal mask, {unmasked} has none"
    if config.kv_heads_first and sizes(problem).heads == 1:
        return "of one head K and V lie the same with and without kv_heads_first"
    return None


def _recipe(variant: Params) -> Recipe:
    """One source with fields as definitions."""
    source = _SOURCES / "flash_attention_hopper.cu"
    return Recipe(sources=(source,), defines=_defines(config_of(variant)), arch=ARCHITECTURE)


_SPACE = KernelSpace(refusal, config_of, _name, _check_kernel, _recipe)
variant_name, check_variant = _SPACE.variant_name, _SPACE.check_variant
check_cell, recipe = _SPACE.check_cell, _SPACE.recipe
