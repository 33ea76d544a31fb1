"""Fusion variants and problems: what is legal; no torch.

A variant is `{implementation: …}`, with a `mode` for inductor if need be. A problem is
`{operator: …}` with its sizes, and may have a `dtype` and a `layout`. Nothing is compiled by the
orchestrator, so there is no recipe.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.fallback import fell_back, plain_name
from fusion.operators import (
    COMPILE,
    CUDNN,
    FLASH,
    IMPLEMENTATIONS,
    ITEM_BYTES,
    OPERATORS,
    Operator,
    Params,
)

MODES = ("default", "max-autotune-no-cudagraphs")
"""Modes of torch.compile. Those with CUDA graphs are left out: a graph hides its launches."""

MAX_HEAD_DIM = 256
"""Of the flash and cuDNN backends of torch's attention (aten/src/ATen/native/transformers)."""

LIBRARY_ALONE = ("matmul_add", "matmul_matmul", "attention")
"""Operators that inductor may leave to libraries: cuBLAS adds a matrix by itself, and what is an
attention by its pattern may become one. Batch norm is cuDNN's in eager code only."""

_EMBEDDING = "embedding"
_NO_SIZES = ("operator", "dtype", "layout")


def operator_of(problem: Params) -> Operator:
    """Operator of a problem; ValueError where `check_problem` would give a reason."""
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    return OPERATORS[str(problem["operator"])]


def sizes(problem: Params) -> dict[str, int]:
    """All sizes of a problem, with defaults filled in.

    An attention's `embedding` becomes its `head_dim`. Raises ValueError where `check_problem` would
    give a reason.
    """
    operator = operator_of(problem)
    named_sizes = {name: value for name, value in problem.items() if name not in _NO_SIZES}
    merged = {**operator.sizes, **named_sizes}
    all_sizes = {name: value for name, value in merged.items() if isinstance(value, int)}
    if _EMBEDDING in all_sizes:
        all_sizes["head_dim"] = all_sizes.pop(_EMBEDDING) // all_sizes["heads"]
    return all_sizes


def dtype_of(problem: Params) -> str:
    """Type of the elements of a problem; ValueError where `check_problem` would give a reason."""
    return str(problem.get("dtype", operator_of(problem).dtypes[0]))


def layout_of(problem: Params) -> str:
    """Memory layout of a problem; ValueError where `check_problem` would give a reason."""
    return str(problem.get("layout", operator_of(problem).layouts[0]))


def total_flops(problem: Params) -> float:
    """Floating-point operations of a problem; only of its products if it has some."""
    return operator_of(problem).flops(sizes(problem))


def flops_beside_products(problem: Params) -> float | None:
    """Operations beside matrix products; None for an operator with only one of both."""
    count = operator_of(problem).non_matmul_flops
    return None if count is None else count(sizes(problem))


def least_bytes(problem: Params) -> float:
    """Least traffic to device memory: every input read once, every output written once."""
    elements = operator_of(problem).elements(sizes(problem))
    return float(elements * ITEM_BYTES[dtype_of(problem)])


def variant_name(params: Params) -> str:
    """Name `compile` or `compile-max-autotune-no-cudagraphs` of a variant."""
    return "-".join(str(params[name]) for name in ("implementation", "mode") if name in params)


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    implementation = params.get("implementation")
    if implementation not in IMPLEMENTATIONS:
        return _choice_refusal("implementation", IMPLEMENTATIONS, implementation)
    for name in params:
        if name not in ("implementation", "mode"):
            return f"{name} is no parameter of an implementation"
    if "mode" not in params:
        return None
    if implementation != COMPILE:
        return f"mode has no effect in {implementation}"
    return None if params["mode"] in MODES else _choice_refusal("mode", MODES, params["mode"])


def check_problem(params: Params) -> str | None:
    """Reason why this is no problem of its operator, or None."""
    name = params.get("operator")
    if name not in OPERATORS:
        return _choice_refusal("operator", tuple(OPERATORS), name)
    operator = OPERATORS[str(name)]
    return (
        _check_sizes(str(name), operator, params)
        or _check_choice("dtype", str(name), operator.dtypes, params)
        or _check_choice("layout", str(name), operator.layouts, params)
    )


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this implementation cannot do this problem, or None."""
    implementation = str(variant_params["implementation"])
    if implementation not in operator_of(problem_params).implementations:
        return f"{problem_params['operator']} has no implementation {implementation}"
    if implementation in (FLASH, CUDNN):
        return _check_backend(implementation, problem_params)
    return None


def check_kernels(
    variant_params: Params, problem_params: Params, kernel_names: Sequence[str]
) -> str | None:
    """Reason why launched kernels are not those of the variant, or None.

    `kernel_names` are those of one launch of the cell, as the collector printed them.
    """
    implementation = str(variant_params["implementation"])
    library_alone = problem_params["operator"] in LIBRARY_ALONE
    if not fell_back(implementation, kernel_names, library_alone=library_alone):
        return None
    return (
        f"fell back: {problem_params['operator']} was compiled, but of its {len(kernel_names)} "
        f"kernels none is inductor's; the first is {plain_name(kernel_names[0])}"
    )


def _check_sizes(name: str, operator: Operator, params: Params) -> str | None:
    needed = dict(operator.sizes)
    if _EMBEDDING in params and "head_dim" in needed:
        del needed["head_dim"]
        needed[_EMBEDDING] = None
    for parameter in params:
        if parameter not in needed and parameter not in _NO_SIZES:
            return f"{parameter} is no size of {name}; its sizes are {', '.join(needed)}"
    for size, default in needed.items():
        value = params.get(size, default)
        # bool is an int in Python: `true` would pass as 1.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return f"{size} must be a positive whole number, not {value!r}"
    return _check_heads(params) if _EMBEDDING in needed else None


def _check_heads(params: Params) -> str | None:
    embedding, heads = params[_EMBEDDING], params["heads"]
    if isinstance(embedding, int) and isinstance(heads, int) and embedding % heads:
        return f"an embedding of {embedding} cannot be shared among {heads} heads"
    return None


def _check_choice(key: str, name: str, choices: Sequence[str], params: Params) -> str | None:
    value = params.get(key, choices[0])
    return None if value in choices else _choice_refusal(f"{key} of {name}", choices, value)


def _check_backend(backend: str, problem: Params) -> str | None:
    if dtype_of(problem) == "float32":
        return f"the backend {backend} is for 16-bit types"
    if sizes(problem)["head_dim"] > MAX_HEAD_DIM:
        return f"the backend {backend} is for heads of at most {MAX_HEAD_DIM} elements"
    return None


def _choice_refusal(parameter: str, choices: Sequence[str], value: object) -> str:
    return f"{parameter} must be one of {', '.join(choices)}, not {value!r}"
