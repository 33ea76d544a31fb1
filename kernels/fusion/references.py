"""The right result of each operator, in a higher precision, and the bound of its error."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fusion import eager
from fusion.inputs import Expected, Inputs
from fusion.operators import Params
from fusion.space import dtype_of, sizes

Bounds = tuple[float, float]

_PART_ELEMENTS = 1 << 25
"""Elements of one float64 part of the reference: 256 MiB."""

_SCORE_ELEMENTS = 1 << 29
"""Scores of an attention that are in memory at once: 2 GiB as float32."""

_KEPT_BYTES = 1 << 32
"""A larger result is made again for each variant, so that it does not take memory from them."""

ATTENTION_ERROR_FACTOR = 2.0
"""How far an attention may be from the exact one, in errors of the plain one of its type: the rule
of the FlashAttention tests."""

_NORMAL: Bounds = (4e-6, 1e-5)
"""A few roundings of float32 values around 1, and the 2 ulp of the fast functions."""

_SUMS: Bounds = (0.0, 2e-5)
"""Sums of up to 65536 positive values, and their products; relative to results of any size."""

_BOUNDS: Mapping[str, Bounds] = {
    "pointwise_chain": _NORMAL,
    # A softmax over 65536 columns is about 1e-5 everywhere: an absolute bound would pass anything.
    "softmax": (1e-9, 2e-5),
    "double_softmax": (1e-9, 2e-5),
    "layer_norm": (2e-5, 1e-5),
    "fused_norm": (2e-5, 1e-5),
    "norm_chain": _SUMS,
    "reduction_pointwise": _NORMAL,
    "reduction_reduction": _SUMS,
    "matmul_add": (5e-5, 1e-4),
    "matmul_relu": (5e-5, 1e-4),
    "matmul_add_relu": (5e-5, 1e-4),
    "matmul_matmul": (5e-5, 1e-4),
    # cuDNN may round to TF32 (10 bits), which torch allows it by default: 6 standard deviations of
    # the error of a sum with a result around 1.
    "conv_add": (1e-2, 1e-2),
    "conv_relu": (1e-2, 1e-2),
    "conv_batch_norm": (2e-2, 1e-2),
    "bias_dropout_add": _NORMAL,
    "bias_gelu": _NORMAL,
}
_HALF_BOUNDS: Mapping[str, Bounds] = {
    # Three roundings of values up to 8: half an ulp is 2^-9 in float16 and 2^-6 in bfloat16.
    "float16": (6e-3, 2e-3),
    "bfloat16": (5e-2, 1.6e-2),
}
_GRADIENT_ERROR = 2e-5
"""Absolute error of a softmax's gradient times its columns: the largest outputs are about 60 times
their mean, gradients up to 6, and a rounding of their difference is 2^-24 of that."""


def expected(problem: Params, inputs: Inputs) -> Expected:
    """Right results of a problem as float32 (float64 for attention in float32), with their bounds.

    Everything but attention is computed in float64.
    """
    name = str(problem["operator"])
    if name in inputs.results:
        return inputs.results[name]
    if name == "attention":
        result, bound = _attention(*inputs.arguments)
        results_and_bounds: Expected = ((result,), (bound, 0.0))
    else:
        results_and_bounds = (_results_in_parts(eager.FUNCTIONS[name], inputs), bounds(problem))
    if sum(tensor.nbytes for tensor in results_and_bounds[0]) <= _KEPT_BYTES:
        inputs.results[name] = results_and_bounds
    return results_and_bounds


def bounds(problem: Params) -> Bounds:
    """Absolute and relative bound of the error of a problem, except attention's."""
    name, dtype = str(problem["operator"]), dtype_of(problem)
    if dtype != "float32":
        return _HALF_BOUNDS[dtype]
    if name == "softmax_backward":
        return _GRADIENT_ERROR / sizes(problem)["dim1"], 1e-5
    return _BOUNDS[name]


def _results_in_parts(function: eager.Function, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Results of a function in float64, rounded to float32, part by part to bound memory."""
    rows = len(inputs.split[0])
    widths = [tensor.numel() // rows for tensor in inputs.split]
    widest = max(*widths, *(tensor.shape[-1] for tensor in inputs.shared), 1)
    step = max(1, _PART_ELEMENTS // widest)
    shared = [tensor.double() for tensor in inputs.shared]
    results: tuple[torch.Tensor, ...] = ()
    for start in range(0, rows, step):
        split = [tensor[start : start + step].double() for tensor in inputs.split]
        parts = _as_tuple(function(*split, *shared))
        results = results or tuple(
            torch.empty((rows, *part.shape[1:]), dtype=torch.float32, device=part.device)
            for part in parts
        )
        for result, part in zip(results, parts, strict=True):
            result[start : start + step] = part
    return results


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Attention in float32 (float64 for float32), and the largest error that a variant may have.

    Works on some heads at a time, because all scores of a long problem do not fit into memory.
    """
    wide = torch.float64 if query.dtype == torch.float32 else torch.float32
    result = torch.empty(query.shape, dtype=wide, device=query.device)
    wide_mask = mask.to(wide)
    batch, length, heads, _ = query.shape
    step = max(1, _SCORE_ELEMENTS // length**2)
    error = torch.zeros((), dtype=wide, device=query.device)
    for item in range(batch):
        for head in range(0, heads, step):
            place = (slice(item, item + 1), slice(None), slice(head, head + step))
            part = (query[place], key[place], value[place])
            plain = eager.attention(*part, mask)
            exact = eager.attention(*_widened(part, wide), wide_mask)
            result[place] = exact
            error = torch.maximum(error, (plain - exact).abs().max())
    return result, ATTENTION_ERROR_FACTOR * float(error)


def _widened(
    part: tuple[torch.Tensor, torch.Tensor, torch.Tensor], wide: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    query, key, value = part
    return query.to(wide), key.to(wide), value.to(wide)


def _as_tuple(result: eager.Result) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)
