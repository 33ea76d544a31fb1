"""Variants of the mma.sync kernel: what is legal, and what to compile for each; no torch.

A variant is a configuration of the kernel, given by its 13 fields and, in the ladder, by the `step`
that its code is at; or it is `{implementation: …}`, one of torch's own. Problems are those of
`kernels/attention/problem.py`; the kernel itself has no causal mask.
"""

from __future__ import annotations

from pathlib import Path

from attention.kernel_space import KernelSpace
from attention.parameters import Params, Value
from attention.problem import DTYPE_CODES, check_problem, is_causal, sizes
from flash_attention.config import Config, make_config, refusal
from flash_attention.names import short_form
from flash_attention.tuning import (
    FIRST_CODE_STEP,
    LAST_CODE_STEP,
    TUNED_CODE_STEP,
    ladder,
    named_sets,
)
from profiler.kernels.recipe import Recipe

__all__ = [
    "check_cell",
    "check_problem",
    "check_variant",
    "config_of",
    "recipe",
    "variant_name",
    "variant_sets",
]

STATIC_HEADS = 16
"""`kStaticHeads` in src/config.cuh: heads of the last step of the ladder."""

_SOURCE = Path(__file__).parent / "src" / "flash_attention.cu"
_DEFINITIONS = {
    "d_head": "D_HEAD",
    "B_r": "BLOCK_ROWS",
    "B_c": "BLOCK_COLS",
    "n_warps": "N_WARPS",
    "async_copy": "ASYNC_COPY",
    "eager_load_blocks": "EAGER_LOAD_BLOCKS",
    "swizzled": "SWIZZLED",
    "Q_mma_load_K_tiles": "Q_LOAD_TILES",
    "K_mma_load_K_tiles": "K_LOAD_TILES",
    "V_mma_load_K_tiles": "V_LOAD_TILES",
    "mma_double_buffer_loads": "DOUBLE_BUFFER",
    "optimized_softmax": "OPTIMIZED_SOFTMAX",
}


def config_of(variant: Params) -> Config:
    """Configuration of a variant; ValueError with the reason if it has none."""
    return make_config(_fields_of(variant))


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`.

    Those of `flash_attention.tuning.named_sets`, and the ladder: `prog`, and `prog_bf16`.
    """
    sets = {name: [config.params() for config in configs] for name, configs in named_sets().items()}
    for name, dtype in (("prog", "FP16"), ("prog_bf16", "BF16")):
        sets[name] = [step.params for step in ladder(dtype)]
    return sets


def _fields_of(variant: Params) -> dict[str, Value]:
    return {name: value for name, value in variant.items() if name != "step"}


def _check_step(value: Value) -> str | None:
    # bool is an int in Python: `true` would pass as 1.
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and FIRST_CODE_STEP <= value <= LAST_CODE_STEP
    ):
        return None
    return (
        f"step must be a whole number from {FIRST_CODE_STEP} to {LAST_CODE_STEP}, not {value!r}; "
        f"the steps before {FIRST_CODE_STEP} are fields"
    )


def _refusal(variant: Params) -> str | None:
    return _check_step(variant.get("step", TUNED_CODE_STEP)) or refusal(_fields_of(variant))


def _name(variant: Params) -> str:
    name = short_form(config_of(variant))
    return f"{name} at step {variant['step']}" if "step" in variant else name


def _check_kernel(variant: Params, problem: Params) -> str | None:
    if is_causal(problem):
        return "the problem has a causal mask, the kernel has none"
    size = sizes(problem)
    if variant.get("step") == LAST_CODE_STEP and size.heads != STATIC_HEADS:
        return f"step {LAST_CODE_STEP} is for {STATIC_HEADS} heads, not {size.heads}"
    return config_of(variant).length_refusal(size.seq_len)


def _recipe(variant: Params) -> Recipe:
    """One source with all 13 fields as definitions."""
    config = config_of(variant)
    defines = {define: int(getattr(config, name)) for name, define in _DEFINITIONS.items()}
    defines["DTYPE"] = DTYPE_CODES[config.dtype]
    defines["STEP"] = int(variant.get("step") or TUNED_CODE_STEP)
    return Recipe(sources=(_SOURCE.resolve(),), defines=defines)


_SPACE = KernelSpace(_refusal, config_of, _name, _check_kernel, _recipe)
variant_name, check_variant = _SPACE.variant_name, _SPACE.check_variant
check_cell, recipe = _SPACE.check_cell, _SPACE.recipe
