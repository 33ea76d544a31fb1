"""Arrays of other libraries as tensors on the same memory, and the containers that hold arrays."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

DLPACK = "__dlpack__"
CUDA_ARRAY = "__cuda_array_interface__"


def _plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without overrides of its subclass; TypeError for one that wraps another tensor."""
    kind = type(tensor)
    if kind is torch.Tensor or _is_of_torch(kind):
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
    if isinstance(value, torch.Tensor):
        return not is_made_of_tensors(value)
    return hasattr(value, DLPACK) or hasattr(value, CUDA_ARRAY)


def is_made_of_tensors(value: Any) -> bool:
    """Whether a value holds its elements in other tensors, as quantized weights of libraries do.

    That is, has the methods by which torch.compile takes such tensors apart.
    """
    kind = type(value)
    return hasattr(kind, "__tensor_unflatten__") and not _is_of_torch(kind)


def _is_of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == torch.__name__


def inner_tensors(value: Any) -> dict[str, Any]:
    """Tensors that a value is made of (`is_made_of_tensors`), by the names of its attributes."""
    return {name: getattr(value, name) for name in value.__tensor_flatten__()[0]}


def items_of(value: Any) -> list[Any] | None:
    """Items of a tuple, list, mapping or dataclass, or the tensors in another; None of the rest."""
    if is_made_of_tensors(value):
        return list(inner_tensors(value).values())
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, tuple | list):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_array(value):
        return [getattr(value, part.name) for part in dataclasses.fields(value)]
    return None


def with_items(value: Any, items: Iterable[Any]) -> Any:
    """A container of the same class with other items, which come in the order of `items_of`."""
    if is_made_of_tensors(value):
        return _made_of(value, items)
    if isinstance(value, tuple):
        # Of a named tuple the type takes its items one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return dict(zip(value, items, strict=True))
    copied: Any = copy.copy(value)  # with the additions of a class
    if isinstance(value, list):
        copied[:] = items
    elif isinstance(value, dict):
        for key, item in zip(value, items, strict=True):
            copied[key] = item
    else:
        for part, item in zip(dataclasses.fields(value), items, strict=True):
            object.__setattr__(copied, part.name, item)
    return copied


def _made_of(value: Any, parts: Iterable[Any]) -> Any:
    """A tensor as `value`, made of other tensors; in float64 where these are, and its were not.

    Its class need not make it: those of optimum-quanto 0.2.7 for AWQ cannot.
    """
    tensors = inner_tensors(value)
    others = dict(zip(tensors, parts, strict=True))
    are_widened = any(
        others[name].dtype == torch.float64 != tensor.dtype for name, tensor in tensors.items()
    )
    made = torch.Tensor._make_wrapper_subclass(
        type(value),
        value.size(),
        strides=value.stride(),
        dtype=torch.float64 if are_widened else value.dtype,
        device=value.device,
        requires_grad=value.requires_grad,
    )
    vars(made).update(vars(value) | others)
    return made


def leaves(value: Any) -> Iterator[Any]:
    """Leaves of a result: items of its containers, those of a mapping in the order of keys."""
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=str)]
    items = items_of(value)
    if items is not None:
        for item in items:
            yield from leaves(item)
    elif value is not None:
        yield value


def with_leaves(value: Any, others: Iterator[Any]) -> Any:
    """The containers of a result with other leaves, which come in the order of `leaves`."""
    if isinstance(value, Mapping):
        by_key = {key: with_leaves(value[key], others) for key in sorted(value, key=str)}
        return with_items(value, [by_key[key] for key in value])
    items = items_of(value)
    if items is not None:
        return with_items(value, [with_leaves(item, others) for item in items])
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
