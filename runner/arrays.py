"""Arrays of other libraries as tensors on the same memory: DLPack, `__cuda_array_interface__`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

DLPACK = "__dlpack__"
CUDA_ARRAY = "__cuda_array_interface__"


def _plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without overrides of its subclass; TypeError for one that wraps another tensor."""
    kind = type(tensor)
    if kind is torch.Tensor or kind.__module__.partition(".")[0] == torch.__name__:
        return tensor
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"{kind.__name__} is no plain tensor: give the tensor that it wraps")
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def memory_address(tensor: torch.Tensor) -> int:
    """Address of the memory that a tensor is a part of; 0 of a sparse one, which has several."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Number of elements of memory from the first element of a tensor to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


def is_array(value: Any) -> bool:
    """Whether a value is a tensor, or an array that a tensor can share its memory with."""
    return isinstance(value, torch.Tensor) or hasattr(value, DLPACK) or hasattr(value, CUDA_ARRAY)


def leaves(value: Any) -> Iterator[Any]:
    """Leaves of a result: items of tuples and lists, values of mappings in the order of keys."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from leaves(value[key])
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def with_leaves(value: Any, others: Iterator[Any]) -> Any:
    """The containers of a result with other leaves, which come in the order of `leaves`."""
    if isinstance(value, Mapping):
        by_key = {key: with_leaves(value[key], others) for key in sorted(value, key=str)}
        return {key: by_key[key] for key in value}
    if isinstance(value, tuple | list):
        items = [with_leaves(item, others) for item in value]
        # Of a named tuple the type takes its items one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return None if value is None else next(others)


def as_tensor(value: Any) -> torch.Tensor:
    """A tensor on the memory of an array, or of a number; TypeError for any other value."""
    if isinstance(value, torch.Tensor):
        return _plain_tensor(value)
    if isinstance(value, Number):  # NumPy's have a type of their own, Python's floats float32
        return torch.tensor(value)
    if any(step < 0 for step in getattr(value, "strides", None) or ()):  # of which torch aborts
        raise TypeError("no tensor has negative strides: give a copy (numpy.ascontiguousarray)")
    if hasattr(value, DLPACK):
        return from_dlpack(value)
    if hasattr(value, CUDA_ARRAY):
        return torch.as_tensor(value, device="cuda")
    raise TypeError(f"not an array: {type(value).__name__}")
