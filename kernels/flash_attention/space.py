"""Variants of the mma.sync kernel: what is legal, and what to compile for each; no torch.

A variant is a configuration of the kernel, given by its 13 fields and, in the ladder, by the `step`
that its code is at; or it is `{implementation: …}`, one of torch's own. Problems are those of
`kernels/attention/problem.py`; the kernel itself has no causal mask.
"""

from __future__ import annotations

from pathlib import Path

from attention.implementations import (
    check_implementation,
    dtype_of,
    implementation_name,
)
from attention.parameters import Params, Value
from attention.problem import (
    DTYPE_CODES,
    check_precision,
    check_problem,
    is_causal,
    sizes,
)
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
"""`kStaticHeads` in src/config.cuh: what the last step of the ladder is for."""

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
    """Configuration of a variant of the kernel; ValueError with the reason if it has none."""
    return make_config(_fields_of(variant))


def variant_name(params: Params) -> str | None:
    """Short form of a configuration, or the reference's name; None where it is neither."""
    if "implementation" in params:
        return implementation_name(params)
    if check_variant(params) is not None:
        return None
    name = short_form(config_of(params))
    return f"{name} at step {params['step']}" if "step" in params else name


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    if "implementation" in params:
        return check_implementation(params)
    return _check_step(params.get("step", TUNED_CODE_STEP)) or refusal(_fields_of(params))


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this variant cannot do this problem, or None."""
    reason = check_precision(dtype_of(variant_params, problem_params), problem_params)
    if reason is not None or "implementation" in variant_params:
        return reason
    if is_causal(problem_params):
        return "the problem has a causal mask, the kernel has none"
    size = sizes(problem_params)
    if variant_params.get("step") == LAST_CODE_STEP and size.heads != STATIC_HEADS:
        return f"step {LAST_CODE_STEP} is for {STATIC_HEADS} heads, not {size.heads}"
    config = config_of(variant_params)
    if config.d_head != size.head_dim:
        return f"heads of {size.head_dim} elements, but the kernel is for {config.d_head}"
    return config.length_refusal(size.seq_len)


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`.

    Those of `flash_attention.tuning.named_sets`, and the ladder: `prog`, and `prog_bf16`.
    """
    sets = {name: [config.params() for config in configs] for name, configs in named_sets().items()}
    for name, dtype in (("prog", "FP16"), ("prog_bf16", "BF16")):
        sets[name] = [step.params for step in ladder(dtype)]
    return sets


def recipe(params: Params) -> Recipe | None:
    """Recipe of a variant: one source with all 13 fields as definitions; torch needs nothing.

    Raises ValueError with the reason where the parameters make no variant.
    """
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    if "implementation" in params:
        return None
    config = config_of(params)
    defines = {define: int(getattr(config, name)) for name, define in _DEFINITIONS.items()}
    defines["DTYPE"] = DTYPE_CODES[config.dtype]
    defines["STEP"] = int(params.get("step") or TUNED_CODE_STEP)
    return Recipe(sources=(_SOURCE.resolve(),), defines=defines)


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
