"""Attention variants and problems: what is legal, and what to compile for each; no torch.

A variant is a configuration of our kernel, given by its 13 fields and, in the ladder, by the `step`
that the kernel's code is at; or it is `{implementation: …}`, one of torch's own. A problem has
`seq_len` and may have `batch`, `heads`, `head_dim` and `precision`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiler.kernels.flash_attention.config import (
    DTYPES,
    ELEMENT_BYTES,
    Config,
    make_config,
    refusal,
)
from profiler.kernels.flash_attention.names import DTYPE_CODES, short_form
from profiler.kernels.flash_attention.tuning import (
    FIRST_CODE_STEP,
    LAST_CODE_STEP,
    TUNED_CODE_STEP,
    ladder,
    named_sets,
)
from profiler.kernels.parameters import Params, Value
from profiler.kernels.recipe import Recipe

IMPLEMENTATIONS = ("sdpa_flash", "sdpa_cudnn", "sdpa_efficient")
"""Backends of torch.nn.functional.scaled_dot_product_attention, as references."""
_IMPLEMENTATION_PARAMS = ("implementation", "dtype")

HEADS = 16
HEAD_DIM = 128
DTYPE = "BF16"
"""What a problem or a reference has where nothing else is said."""

STATIC_HEADS = 16
"""`kStaticHeads` in src/config.cuh: what the last step of the ladder is for."""

MAX_BATCH = 16
TOKENS = 65536
"""Length times batch from which on a batch of 16 goes down: it is 4 at a length of 16384."""

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


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem; Q, K, V and O are (batch, seq_len, heads, head_dim)."""

    batch: int
    seq_len: int
    heads: int
    head_dim: int


def sizes(problem: Params) -> Sizes:
    """Sizes of a problem, with what was left out filled in.

    Raises ValueError where `check_problem` would give a reason.
    """
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    length = _integer(problem["seq_len"])
    batch = problem.get("batch", max(1, min(MAX_BATCH, TOKENS // length)))
    return Sizes(
        batch=_integer(batch),
        seq_len=length,
        heads=_integer(problem.get("heads", HEADS)),
        head_dim=_integer(problem.get("head_dim", HEAD_DIM)),
    )


def dtype_of(variant: Params, problem: Params) -> str:
    """`FP16` or `BF16`: the variant's own, or for a reference without one the problem's."""
    if "implementation" not in variant:
        return config_of(variant).dtype
    return str(variant.get("dtype", problem.get("precision", DTYPE)))


def config_of(variant: Params) -> Config:
    """Configuration of a variant of our kernel; ValueError with the reason if it has none."""
    return make_config(_fields_of(variant))


def variant_name(params: Params) -> str | None:
    """Short form of a configuration, or the reference's name; None where it is neither."""
    if "implementation" in params:
        return "-".join(str(params[name]) for name in _IMPLEMENTATION_PARAMS if name in params)
    if check_variant(params) is not None:
        return None
    name = short_form(config_of(params))
    return f"{name} at step {params['step']}" if "step" in params else name


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    if "implementation" not in params:
        return _check_step(params.get("step", TUNED_CODE_STEP)) or refusal(_fields_of(params))
    if params["implementation"] not in IMPLEMENTATIONS:
        return (
            f"implementation must be one of {', '.join(IMPLEMENTATIONS)}, "
            f"not {params['implementation']!r}"
        )
    for name in params:
        if name not in _IMPLEMENTATION_PARAMS:
            return f"{name} has no effect on torch's own implementation"
    return _check_dtype("dtype", params.get("dtype", DTYPE))


def check_problem(params: Params) -> str | None:
    """Reason why this is no attention problem, or None."""
    defaults = {"seq_len": None, "batch": 1, "heads": 1, "head_dim": HEAD_DIM}
    for name in params:
        if name not in defaults and name != "precision":
            return f"{name} is no size of an attention problem"
    for name, default in defaults.items():
        value = params.get(name, default)
        # bool is an int in Python: `true` would pass as 1.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return f"{name} must be a positive whole number, not {value!r}"
    return _check_dtype("precision", params.get("precision", DTYPE))


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this variant cannot do this problem, or None."""
    size = sizes(problem_params)
    precision = problem_params.get("precision")
    dtype = dtype_of(variant_params, problem_params)
    if precision is not None and dtype != precision:
        return f"the problem is about {precision}, not {dtype}"
    if "implementation" in variant_params:
        return None
    if variant_params.get("step") == LAST_CODE_STEP and size.heads != STATIC_HEADS:
        return f"step {LAST_CODE_STEP} is for {STATIC_HEADS} heads, not {size.heads}"
    return _check_tiles(config_of(variant_params), size)


def _check_tiles(config: Config, size: Sizes) -> str | None:
    if config.d_head != size.head_dim:
        return f"heads of {size.head_dim} elements, but the kernel is for {config.d_head}"
    for name, rows in (("B_r", config.B_r), ("B_c", config.B_c)):
        if size.seq_len % rows:
            return f"a length of {size.seq_len} is no multiple of {name} = {rows}"
    return None


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`.

    Those of `flash_attention.tuning.named_sets`, and the ladder: `prog`, and `prog_bf16`.
    """
    sets = {name: [config.params() for config in configs] for name, configs in named_sets().items()}
    for name, dtype in (("prog", "FP16"), ("prog_bf16", "BF16")):
        steps = ladder(dtype)
        sets[name] = [{**step.config.params(), "step": step.code_step} for step in steps]
    return sets


def recipe(params: Params) -> Recipe | None:
    """Recipe of a variant: one source with all 13 fields as definitions; torch needs nothing."""
    if "implementation" in params:
        return None
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    values = config_of(params).params()
    defines = {define: _integer(values[name]) for name, define in _DEFINITIONS.items()}
    defines["DTYPE"] = DTYPE_CODES[str(values["dtype"])]
    defines["STEP"] = _integer(params.get("step", TUNED_CODE_STEP))
    return Recipe(sources=(_SOURCE.resolve(),), defines=defines)


def attention_flops(size: Sizes) -> float:
    """Floating-point operations of the attention itself: two products, and the softmax."""
    pairs = size.seq_len**2
    return float(size.batch * size.heads * (4 * pairs * size.head_dim + 6 * pairs))


def least_bytes(size: Sizes) -> float:
    """Least traffic to device memory: Q, K and V read once, O written once."""
    return 4.0 * size.batch * size.seq_len * size.heads * size.head_dim * ELEMENT_BYTES


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


def _check_dtype(name: str, value: Value) -> str | None:
    if value not in DTYPES:
        return f"{name} must be one of {', '.join(DTYPES)}, not {value!r}"
    return None


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a whole number, not {value!r}")
    return int(value)
