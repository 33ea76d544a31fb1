"""Tensors of a description: made once per problem, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from profiler.kernels.cuda_file.description import CudaFile, Fill, Params, TensorArgument
from profiler.kernels.references import wide_type

_DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Dtypes that torch draws random numbers in; of others a float32 is converted."""


def make_tensors(
    description: CudaFile, problem: Params, device: torch.device, seed: int
) -> dict[str, torch.Tensor]:
    """Tensors by name; those of outputs without a fill hold whatever was in their memory.

    Of an output that is read as well there is a second one, named `filled_name`, that stays as it
    was filled.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    made = {
        tensor.name: _make(tensor, problem, generator, device)
        for tensor in description.tensors
        if not tensor.scratch
    }
    read_outputs = (
        tensor.name for tensor in description.tensors if tensor.is_read and tensor.output
    )
    return {**made, **{filled_name(name): made[name].clone() for name in read_outputs}}


def filled_name(output: str) -> str:
    """Name of the tensor that holds what an output was filled with."""
    return f"{output} as filled"


def readable(description: CudaFile, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors that a result is made from, by name: outputs as they were filled, if at all."""
    return {
        tensor.name: tensors[filled_name(tensor.name) if tensor.output else tensor.name]
        for tensor in description.tensors
        if tensor.is_read
    }


def dtype_named(name: str) -> torch.dtype:
    """Dtype of torch by its name, without `torch.`."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"torch.{name} is no dtype")
    return dtype


def _make(
    tensor: TensorArgument, problem: Params, generator: torch.Generator, device: torch.device
) -> torch.Tensor:
    dtype, shape = dtype_named(tensor.dtype_of(problem)), tensor.shape_of(problem)
    if tensor.fill is None:
        return torch.empty(shape, dtype=dtype, device=device)
    if tensor.fill.kind in _MADE:
        return _MADE[tensor.fill.kind](shape, tensor.fill, dtype, device)
    drawn = torch.empty(shape, dtype=_drawn_in(dtype, tensor.fill), device=device)
    first, second = tensor.fill.numbers
    match tensor.fill.kind:
        case "normal":
            drawn.normal_(first, second, generator=generator)
        case "uniform":
            drawn.uniform_(first, second, generator=generator)
        case "integers":
            drawn.random_(int(first), int(second), generator=generator)
    return drawn.to(dtype)


def make_scratch(tensor: TensorArgument, values: Params, device: torch.device) -> torch.Tensor:
    """Memory between launches, of sizes that parameters of variant and problem give.

    Without a fill it holds what no kernel leaves: NaN, or a large pattern in integers.
    """
    if tensor.fill is not None:
        return _make(tensor, values, torch.Generator(device=device), device)
    made = torch.empty(
        tensor.shape_of(values), dtype=dtype_named(tensor.dtype_of(values)), device=device
    )
    if made.dtype.is_floating_point:
        return made.fill_(math.nan)
    return made.fill_(made.dtype == torch.bool or torch.iinfo(made.dtype).max // 10 * 7)


def _drawn_in(dtype: torch.dtype, fill: Fill) -> torch.dtype:
    if fill.kind == "integers":
        return torch.int64 if dtype.is_floating_point or dtype == torch.bool else dtype
    return dtype if dtype in _DRAWN else torch.float32


def _arange(
    shape: tuple[int, ...], _fill: Fill, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, device=device).reshape(shape).to(dtype)


def _constant(
    shape: tuple[int, ...], fill: Fill, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    drawn_in = _drawn_in(dtype, fill) if dtype.is_floating_point else dtype
    # Typed by torch as a number, and there only where there is one.
    return torch.full(shape, fill.constant or 0, dtype=drawn_in, device=device).to(dtype)


_MADE = {"arange": _arange, "zeros": _constant, "ones": _constant, "constant": _constant}


def in_higher_precision(
    tensors: Mapping[str, torch.Tensor], names: frozenset[str]
) -> dict[str, torch.Tensor]:
    """Tensors of these names, floating ones copied in float64 and complex ones in complex128."""
    return {name: _wide(tensor) for name, tensor in tensors.items() if name in names}


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return tensor if is_whole else tensor.to(wide_type(tensor.dtype), copy=True)
