"""The same kernels on zeros, on normal values and on small integers: same cycles, other power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Params = Mapping[str, Any]
Inputs = dict[str, tuple[torch.Tensor, ...]]

HEADS, HEAD_DIM, BATCH = 16, 128, 4
_INTEGERS = (-2, 3)
_BOUNDS = {"product": (0.05, 0.02), "attention": (0.01, 0.02), "copy": (0.0, 0.0)}
"""Absolute, of values whose standard deviation is 1 where they are normal, and relative."""
_BACKENDS = {
    "attention": SDPBackend.FLASH_ATTENTION,
    "attention_cudnn": SDPBackend.CUDNN_ATTENTION,
    "attention_efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Operands by the values that they hold."""
    generator = torch.Generator(device).manual_seed(seed)
    shape, count = _operands(problem)
    normal = [
        torch.randn(shape, device=device, generator=generator).bfloat16() for _ in range(count)
    ]
    integers = [
        torch.randint(*_INTEGERS, shape, device=device, generator=generator).bfloat16()
        for _ in range(count)
    ]
    zeros = [torch.zeros_like(operand) for operand in normal]
    return {"normal": tuple(normal), "integers": tuple(integers), "zeros": tuple(zeros)}


def _operands(problem: Params) -> tuple[tuple[int, ...], int]:
    """Shape of the operands, and how many there are."""
    size = problem["size"]
    if problem["operation"].startswith("attention"):
        return (BATCH, HEADS, size, HEAD_DIM), 3
    return (size, size), 1 if problem["operation"] == "copy" else 2


def prepare(
    variant: Params, problem: Params, inputs: Inputs, library: object
) -> Callable[[], torch.Tensor]:
    """Launch of the operation on the values of the variant."""
    del library
    operands, operation = inputs[variant["values"]], problem["operation"]
    if operation == "copy":
        return lambda: operands[0] * 1  # by a kernel: clone() is a transfer, which ncu does not see
    if operation == "product":
        return lambda: torch.mm(*operands)

    def attend() -> torch.Tensor:
        with sdpa_kernel(_BACKENDS[operation]):
            return functional.scaled_dot_product_attention(*operands)

    return attend


def expected(
    variant: Params, problem: Params, inputs: Inputs
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Right result in float64, and an absolute and a relative bound."""
    operands = [operand.double() for operand in inputs[variant["values"]]]
    operation = problem["operation"].partition("_")[0]
    if operation == "product":
        result = operands[0] @ operands[1]
    elif operation == "copy":
        result = operands[0]
    else:
        by_batch = zip(*operands, strict=True)
        result = torch.stack([_attention(*of_batch) for of_batch in by_batch])
    absolute, relative = _BOUNDS[operation]
    scale = float(result.std()) or 1.0
    return result, (absolute * scale, relative)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of heads (heads, length, dimension), one after the other."""
    return torch.stack(
        [
            torch.softmax(query @ key.T / HEAD_DIM**0.5, dim=-1) @ value
            for query, key, value in zip(q, k, v, strict=True)
        ]
    )


def flops(problem: Params) -> float | None:
    """Operations of a launch."""
    size = float(problem["size"])
    if problem["operation"] == "copy":
        return None
    if problem["operation"] == "product":
        return 2 * size**3
    return 4 * BATCH * HEADS * size**2 * HEAD_DIM


def bytes(problem: Params) -> float:  # noqa: A001 - the workload's function of that name
    """Least traffic of a launch, 2 bytes a value: the operands and a result of the same size."""
    shape, count = _operands(problem)
    return 2.0 * (count + 1) * float(torch.Size(shape).numel())
