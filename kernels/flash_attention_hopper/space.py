"""Which variants and problems make sense, and what to compile for each; no torch.

A variant is a configuration of the Hopper kernel, given by its 14 fields; or it is
`{implementation: …}`: one of torch's own, or `mma_sync`, the best of the workload
`profiler.kernels.flash_attention`. A problem is one of that workload, with any length, and may have
a causal mask (`is_causal: true`).
"""

from __future__ import annotations

from pathlib import Path

from profiler.kernels.flash_attention import space as mma_space
from profiler.kernels.flash_attention.config import Config as MmaConfig
from profiler.kernels.flash_attention.names import DTYPE_CODES
from profiler.kernels.flash_attention.space import DTYPE, Sizes, attention_flops
from profiler.kernels.flash_attention_hopper.config import (
    DTYPES,
    Config,
    make_config,
    refusal,
    short_form,
)
from profiler.kernels.flash_attention_hopper.tuning import ladder, tuned, tuned_causal
from profiler.kernels.parameters import Params, Value
from profiler.kernels.recipe import Recipe

__all__ = [
    "check_cell",
    "check_problem",
    "check_variant",
    "config_of",
    "dtype_of",
    "flops",
    "is_causal",
    "mma_params",
    "recipe",
    "sizes",
    "variant_name",
    "variant_sets",
]

MMA_SYNC = "mma_sync"
IMPLEMENTATIONS = (*mma_space.IMPLEMENTATIONS, MMA_SYNC)
_IMPLEMENTATION_PARAMS = ("implementation", "dtype")

ARCHITECTURE = "sm_90a"
"""wgmma and setmaxnreg are not in any other architecture's instruction set."""

_MMA_STEP = 15
"""The fastest step of the ladder of `flash_attention` that takes any number of heads."""

_SOURCE = Path(__file__).parent / "src" / "flash_attention_hopper.cu"
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


def dtype_of(variant: Params, problem: Params) -> str:
    """`FP16` or `BF16`: the variant's own, or for a reference without one the problem's."""
    if "implementation" not in variant:
        return config_of(variant).dtype
    return str(variant.get("dtype", problem.get("precision", DTYPE)))


def config_of(variant: Params) -> Config:
    """Configuration of a variant of the Hopper kernel; ValueError with the reason if none."""
    return make_config(variant)


def is_causal(problem: Params) -> bool:
    """Whether queries see no later keys."""
    return bool(problem.get("is_causal", False))


def sizes(problem: Params) -> Sizes:
    """Sizes of a problem; ValueError where `check_problem` would give a reason."""
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    return mma_space.sizes(_without_mask(problem))


def flops(problem: Params) -> float:
    """Operations of the attention itself, of pairs of a query and a key that it sees."""
    size = sizes(problem)
    seen = (size.seq_len + 1) / (2 * size.seq_len) if is_causal(problem) else 1.0
    return attention_flops(size) * seen


def _without_mask(problem: Params) -> Params:
    return {name: value for name, value in problem.items() if name != "is_causal"}


def mma_params(variant: Params) -> dict[str, Value]:
    """Parameters that the variant `mma_sync` has in `profiler.kernels.flash_attention`."""
    config = MmaConfig(
        dtype=str(variant.get("dtype", DTYPE)),
        B_r=128,
        Q_mma_load_K_tiles=2,
        K_mma_load_K_tiles=2,
        V_mma_load_K_tiles=2,
        optimized_softmax=True,
    )
    return {**config.params(), "step": _MMA_STEP}


def variant_name(params: Params) -> str | None:
    """Short form of a configuration, or the reference's name; None where it is neither."""
    if "implementation" in params:
        return "-".join(str(params[name]) for name in _IMPLEMENTATION_PARAMS if name in params)
    return None if check_variant(params) is not None else short_form(config_of(params))


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    if "implementation" not in params:
        return refusal(params)
    if params["implementation"] not in IMPLEMENTATIONS:
        return (
            f"implementation must be one of {', '.join(IMPLEMENTATIONS)}, "
            f"not {params['implementation']!r}"
        )
    for name in params:
        if name not in _IMPLEMENTATION_PARAMS:
            return f"{name} has no effect on {params['implementation']}"
    dtype = params.get("dtype", DTYPE)
    return None if dtype in DTYPES else f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}"


def check_problem(params: Params) -> str | None:
    """Reason why this is no attention problem, or None."""
    causal = params.get("is_causal", False)
    if not isinstance(causal, bool):
        return f"is_causal must be true or false, not {causal!r}"
    return mma_space.check_problem(_without_mask(params))


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this variant cannot do this problem, or None."""
    size = sizes(problem_params)
    precision = problem_params.get("precision")
    # What is compiled has its type: BF16 where a variant names none.
    compiled = variant_params.get("implementation", MMA_SYNC) == MMA_SYNC
    dtype = dtype_of(variant_params, {} if compiled else problem_params)
    if precision is not None and dtype != precision:
        return f"the problem is about {precision}, not {dtype}"
    causal = is_causal(problem_params)
    if variant_params.get("implementation") == MMA_SYNC:
        if causal:
            return "mma_sync has no causal mask"
        return mma_space.check_cell(mma_params(variant_params), _without_mask(problem_params))
    if "implementation" in variant_params:
        return None
    return _check_kernel(config_of(variant_params), size, causal)


def _check_kernel(config: Config, size: Sizes, causal: bool) -> str | None:
    if config.d_head != size.head_dim:
        return f"heads of {size.head_dim} elements, but the kernel is for {config.d_head}"
    if config.causal != causal:
        masked, other = ("the problem", "the kernel") if causal else ("the kernel", "the problem")
        return f"{masked} has a causal mask, {other} has none"
    if config.kv_heads_first and size.heads == 1:
        return "of one head K and V lie the same with and without kv_heads_first"
    return None


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`.

    `tune`: the autotune space; `tune_64`, `tune_128`, `tune_256`: its parts by head dimension;
    `causal` and its parts: the same with a causal mask, in both orders of tiles; `prog` and
    `prog_fp16`: the ladder in BF16 and FP16.
    """
    sets: dict[str, list[dict[str, Value]]] = {}
    for stem, configs in (("tune", tuned()), ("causal", tuned_causal())):
        for config in configs:
            for name in (stem, f"{stem}_{config.d_head}"):
                sets.setdefault(name, []).append(config.params())
    for name, dtype in (("prog", "BF16"), ("prog_fp16", "FP16")):
        sets[name] = [step.params for step in ladder(dtype)]
    return sets


def recipe(params: Params) -> Recipe | None:
    """What to compile: one source with fields as definitions; torch needs nothing.

    Raises ValueError with the reason where the parameters make no variant.
    """
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    if params.get("implementation") == MMA_SYNC:
        return mma_space.recipe(mma_params(params))
    if "implementation" in params:
        return None
    config = config_of(params)
    defines = {define: int(getattr(config, name)) for name, define in _DEFINITIONS.items()}
    defines["DTYPE"] = DTYPE_CODES[config.dtype]
    return Recipe(sources=(_SOURCE.resolve(),), defines=defines, arch=ARCHITECTURE)
