"""Products of quantized matrices in float64, as `torch._scaled_mm` defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

SCALED_PRODUCTS = frozenset({"aten::_scaled_mm", "aten::_scaled_mm_v2"})
"""Operators of `torch._scaled_mm` and of `torch.nn.functional.scaled_mm`."""

QUANTIZED = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
"""Types of quantized matrices."""


def scaled_product(arguments: Mapping[str, Any]) -> torch.Tensor | None:
    """Scaled product of two matrices in float64, with its bias, by the operator's arguments.

    With a scale for all or for each row; None for what has no definition here: scales of blocks, in
    an order of their own (`swizzle`) or in several levels, packed types, and scales of the result,
    which devices apply differently.
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
    # Quantized inputs of a baseline were widened.
    if matrix.dtype not in (*QUANTIZED, torch.float64) or scales.dtype not in (
        torch.float32,
        torch.float64,
    ):
        return None
    if scales.numel() == 1:
        return matrix.double() * scales.double().reshape(())
    if scales.dim() != matrix.dim():
        return None
    if any(n not in (1, size) for size, n in zip(matrix.shape, scales.shape, strict=True)):
        return None
    return matrix.double() * scales.double()
