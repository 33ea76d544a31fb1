"""Products of quantized matrices in float64, as `torch._scaled_mm` defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

SCALED_PRODUCTS = frozenset({"aten::_scaled_mm", "aten::_scaled_mm_v2"})
"""Operators of `torch._scaled_mm` and of `torch.nn.functional.scaled_mm`."""

_QUANTIZED = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float64,  # quantized inputs of a baseline, widened
)
_BLOCK = 128
"""Elements along one side of a block that has a scale of its own (1 or 128 on the other)."""


def scaled_product(arguments: Mapping[str, Any]) -> torch.Tensor | None:
    """Scaled product of two matrices in float64, with its bias, by the operator's arguments.

    None for what has no definition here: scales in an order of their own (`swizzle`) or in several
    levels, packed types, and scales of the result, which devices apply differently.
    """
    left = _dequantized(arguments["self"], arguments["scale_a"])
    right = _dequantized(arguments["mat2"], arguments["scale_b"])
    if left is None or right is None or arguments.get("scale_result") is not None:
        return None
    product = left @ right
    bias: torch.Tensor | None = arguments.get("bias")
    return product if bias is None else product + bias.double()


def _dequantized(
    matrix: torch.Tensor, scales: torch.Tensor | Sequence[torch.Tensor]
) -> torch.Tensor | None:
    """A matrix times its scales in float64; None for scales that cannot be laid over it."""
    if not isinstance(scales, torch.Tensor):
        if len(scales) != 1:
            return None
        scales = scales[0]
    if matrix.dtype not in _QUANTIZED or scales.dtype not in (torch.float32, torch.float64):
        return None
    if scales.numel() == 1:
        return matrix.double() * scales.double().reshape(())
    if scales.dim() != matrix.dim():
        return None
    for dim, (size, count) in enumerate(zip(matrix.shape, scales.shape, strict=True)):
        if count not in (1, size):
            if count != -(-size // _BLOCK):
                return None
            scales = scales.repeat_interleave(_BLOCK, dim).narrow(dim, 0, size)
    return matrix.double() * scales.double()
