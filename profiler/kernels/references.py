"""Right results, with data on the errors that rounding explains in other results."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NUDGE = 8 * torch.finfo(torch.float32).eps
"""Most that an element is nudged by, as a share of it: more than a few roundings add up to."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Right result of a problem, best computed on inputs in float64."""

    result: Any
    in_own_types: Any
    """Result of the same function on inputs in their own types; None where not computed."""
    nearby: Callable[[int], Any]
    """Right results on inputs that are nudged by a seed."""
    both_nearby: Callable[[int], tuple[Any, Any]] | None = None
    """`in_own_types` and `result` on inputs that a seed moves within their types, if both exist."""
    largest_step: float = 0.0
    """Largest step from 1 to the next number in the floating types used for `in_own_types`."""
    doubt: str = ""
    """Why variants are compared with a result that may be wrong; empty without doubt."""


_SIGNS = tuple(itertools.product((1, -1), repeat=2))
ALL_SIGNS = range(-len(_SIGNS), 0)
"""Seeds by which `nudge` moves all elements of a tensor alike."""


def nudge(tensors: Iterable[torch.Tensor], seed: int) -> None:
    """Move elements in place by up to eight rounding steps of float32, where their type allows.

    By one of ALL_SIGNS, all elements of a tensor by as much, and the tensors in turn up or down: a
    quotient or product of two moves both ways in the four of them.
    """
    wide_types = (torch.float32, torch.float64)
    if seed >= 0:
        _scale(tensors, seed, dict.fromkeys(wide_types, NUDGE))
        return
    numbers = (tensor.detach() for tensor in tensors if tensor.dtype.to_real() in wide_types)
    for tensor, sign in zip(numbers, itertools.cycle(_SIGNS[seed]), strict=False):
        tensor.mul_(1.0 + sign * NUDGE)


def move(tensors: Iterable[torch.Tensor], seed: int) -> None:
    """Move elements of floating and complex types in place by up to a rounding step of the type."""
    types = (*_NARROWER, torch.float64)
    _scale(tensors, seed, {dtype: torch.finfo(dtype).eps for dtype in types})


def _scale(
    tensors: Iterable[torch.Tensor], seed: int, largest: Mapping[torch.dtype, float]
) -> None:
    """Multiply elements in place by factors that are off 1 by at most `largest`, by real type.

    Every tensor on a device has factors of its own.
    """
    generators: dict[torch.device, torch.Generator] = {}
    for tensor in tensors:
        step = largest.get(tensor.dtype.to_real())
        if step is not None:
            generator = generators.setdefault(
                tensor.device, torch.Generator(tensor.device).manual_seed(seed)
            )
            parts = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
            factors = torch.empty_like(parts)
            parts.mul_(factors.uniform_(1.0 - step, 1.0 + step, generator=generator))


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """Float64 for a floating type, complex128 for a complex type; whole-number types unchanged."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


_DYNAMO = "torch._dynamo"
_NARROWER = (torch.float16, torch.bfloat16, torch.float32)
_SCALED_PRODUCTS = frozenset({"aten::_scaled_mm", "aten::_scaled_mm_v2"})
"""Operators of `torch._scaled_mm` and of `torch.nn.functional.scaled_mm`."""
_QUANTIZED = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
"""Types of quantized matrices."""


class WithoutNarrowTypes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """While the body runs, results of float64 tensors have no narrower floating type.

    So a function that ends in `.to(torch.bfloat16)` gives its result before that is rounded, and
    one with constants of its own takes inputs in float64. Types of one byte stay: a function
    quantizes to them. Products of matrices that are quantized before are made in float64, and no
    others: with a scale that is not rounded, many elements would be quantized to others.
    """

    largest_step = 0.0
    """Largest distance of 1 to the next larger number in the types that were left out."""

    _quantizes = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        # torch's wrapper of the method, which keeps dynamo from tracing it, imports dynamo: 1 s.
        if _DYNAMO not in sys.modules:
            vars(self)["__torch_dispatch__"] = self._dispatch_before_dynamo

    def _dispatch_before_dynamo(self, *args: Any) -> Any:
        dispatch = type(self).__torch_dispatch__
        if _DYNAMO not in sys.modules:
            return unwrap(dispatch)(self, *args)
        vars(self).pop("__torch_dispatch__", None)
        return dispatch(self, *args)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator with float64 in place of narrower types."""
        del types
        kwargs = dict(kwargs or {})
        if func._schema.name in _SCALED_PRODUCTS:
            product = self._scaled_product(func, args, kwargs)
            if product is not None:
                return product
        if any(
            isinstance(argument, torch.Tensor) and argument.dtype == torch.float64
            for argument in args
        ):
            self._quantizes |= kwargs.get("dtype") in _QUANTIZED
            args = tuple(map(self._widened_type, args))
            kwargs = {name: self._widened_type(value) for name, value in kwargs.items()}
            if not func._schema.is_mutable:  # which would write into copies
                args = tuple(map(_widened, args))
                kwargs = {name: _widened(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def _scaled_product(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Result of an operator of _SCALED_PRODUCTS in float64, which it takes on no device.

        None where its result is quantized, or is not defined by values and scales alone, or the
        matrices may have been quantized here.
        """
        if self._quantizes:
            return None
        names = (argument.name for argument in func._schema.arguments)
        arguments = dict(zip(names, args, strict=False)) | kwargs
        result_type = arguments.get("out_dtype") or arguments["self"].dtype
        if self._widened_type(result_type) != torch.float64:
            return None
        product = scaled_product(arguments)
        out = arguments.get("out")
        return product if product is None or out is None else out.copy_(product)

    def _widened_type(self, argument: Any) -> Any:
        """Float64 in place of a narrower type, whose step is noted; other arguments unchanged."""
        if not isinstance(argument, torch.dtype) or argument not in _NARROWER:
            return argument
        self.largest_step = max(self.largest_step, torch.finfo(argument).eps)
        return torch.float64


def _widened(argument: Any) -> Any:
    is_narrow = isinstance(argument, torch.Tensor) and argument.dtype in _NARROWER
    return argument.double() if is_narrow else argument


# ---- products of quantized matrices, as `torch._scaled_mm` defines them --------------------------


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
    if matrix.dtype not in (*_QUANTIZED, torch.float64) or scales.dtype not in (
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
