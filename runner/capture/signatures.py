"""The signature of an operator's call: what its time may depend on, without the data.

Tensors are told by type, shape, strides, device, and which of them lie in one storage and where.
A number that is no integer counts by its value only where kernels treat it apart (`_SPECIAL`): the
step size of an optimizer that changes each time makes no other signature.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from profiler.runner.capture.distributions import extent, look_at

ALIGNMENT = 64
"""Bytes: where a tensor begins in its storage counts up to this, which no vector load exceeds."""
_SPECIAL = frozenset({0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, math.inf, -math.inf})
_BATCH_NORM = ("::native_batch_norm", "::cudnn_batch_norm", "::miopen_batch_norm")
_RUNNING = ("running_mean", "running_var")
"""Arguments that `_BATCH_NORM` write although their schemas do not say so."""
_BY_NAME = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}

Arguments = Mapping[str, Any]
Key = tuple[Any, ...]


class NotReplayableError(Exception):
    """A call has an argument that cannot be kept; the message says of which kind."""


def bound(func: Any, args: Sequence[Any], kwargs: Arguments) -> dict[str, Any]:
    """Arguments of a call by the names of the operator's schema, with those left to defaults."""
    schema = func._schema.arguments
    named = {argument.name: argument.default_value for argument in schema}
    named |= {argument.name: value for argument, value in zip(schema, args, strict=False)}
    return {**named, **kwargs}


def written(func: Any, arguments: Arguments) -> dict[str, Any]:
    """Arguments that an operator writes, by name, as far as they are given."""
    schema = func._schema
    names = [
        argument.name
        for argument in schema.arguments
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (schema.name.endswith(_BATCH_NORM) and argument.name in _RUNNING)
    ]
    return {name: arguments[name] for name in names if arguments[name] is not None}


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors of a value, and of the lists and mappings in it."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))


def key_of(func: Any, args: Sequence[Any], kwargs: Arguments) -> Key:
    """What two calls of one signature have in common.

    Raises NotReplayableError where a tensor among the arguments is of a kind that cannot be kept.
    """
    tensors: list[torch.Tensor] = []
    plain = _plain_key((*args, *kwargs.items()), tensors)
    places = [tensor.untyped_storage()._cdata for tensor in tensors]
    begins = list(map(_begin, tensors))
    if len(set(places)) == len(places):  # each in a storage of its own
        return (func, plain, *[begin % ALIGNMENT for begin in begins])
    numbers: dict[int, int] = {}
    places = [numbers.setdefault(place, len(numbers)) for place in places]
    bases = _bases(places, begins)
    begins = [begin - bases[place] for place, begin in zip(places, begins, strict=True)]
    return (func, plain, *begins, *places)


def _plain_key(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        require_plain(value)
        tensors.append(value)
        return (value.dtype, value.shape, value.stride(), _device_type(value.device))
    if isinstance(value, list | tuple):
        return tuple([_plain_key(item, tensors) for item in value])
    if isinstance(value, float):
        return (float, value if value in _SPECIAL else None)
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, torch.Generator):
        return torch.Generator
    return (type(value), value)


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _device_type(device: torch.device) -> str:
    """`device.type`, which makes a new text each time."""
    return device.type


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _begin(tensor: torch.Tensor) -> int:
    """Byte of its storage at which a tensor begins."""
    return int(tensor.storage_offset()) * tensor.element_size()


def _bases(places: Sequence[int], begins: Sequence[int]) -> dict[int, int]:
    """Byte from which on each storage is used, aligned."""
    first: dict[int, int] = {}
    for place, begin in zip(places, begins, strict=True):
        first[place] = min(begin, first.get(place, begin))
    return {place: begin // ALIGNMENT * ALIGNMENT for place, begin in first.items()}


class Described:
    """Arguments of a call as JSON, with the parts of storages that they lie in.

    It keeps none of the tensors: they would not be freed as the program frees them.
    """

    def __init__(
        self,
        arguments: Arguments,
        *,
        text: bool,
        values: bool = False,
        overwritten: Collection[str] = (),
    ) -> None:
        """`text`: whether words among the arguments may be kept; `values`: whether elements are.

        `overwritten`: names of those that are not read. They may never have been written, so that
        what lies there is of something else.

        Raises NotReplayableError for what cannot be made again.
        """
        self._text = text
        tensors = list(tensors_in(arguments))
        numbers: dict[int, int] = {}
        places = [numbers.setdefault(_storage(tensor), len(numbers)) for tensor in tensors]
        begins = list(map(_begin, tensors))
        bases = _bases(places, begins)
        self._places = iter(
            [(place, begin - bases[place]) for place, begin in zip(places, begins, strict=True)]
        )
        used = dict.fromkeys(bases, 0)
        parts: dict[int, torch.Tensor] = {}
        for place, begin, tensor in zip(places, begins, tensors, strict=True):
            end = begin - bases[place] + extent(tensor) * tensor.element_size()
            used[place] = max(used[place], end)
            parts[place] = tensor
        self._read: list[dict[str, Any]] = []
        read: list[torch.Tensor] = []
        self.arguments = {
            name: self._as_json(value, None if name in overwritten else read)
            for name, value in arguments.items()
        }
        self._describe = look_at(read)
        self.devices = [_device_type(tensor.device) for tensor in parts.values()]
        self.storages = [
            {"bytes": size, "device": device}
            for size, device in zip(used.values(), self.devices, strict=True)
        ]
        self.values = [
            torch.empty(0, dtype=torch.uint8, device=tensor.device)
            .set_(tensor.untyped_storage(), bases[place], (used[place],), (1,))
            .to("cpu", copy=True)
            for place, tensor in parts.items()
            if values
        ]
        """Copies of the used parts of the storages, as bytes in main memory."""

    def _as_json(self, value: Any, read: list[torch.Tensor] | None) -> Any:
        if isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value, read)}
        if isinstance(value, list | tuple):
            return [self._as_json(item, read) for item in value]
        if isinstance(value, str) and not self._text:
            raise NotReplayableError("text among the arguments of an operator that is not torch's")
        return plain_json(value)

    def _tensor(self, tensor: torch.Tensor, read: list[torch.Tensor] | None) -> dict[str, Any]:
        place, begin = next(self._places)
        document = {
            "dtype": _dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "storage": place,
            "offset": begin // tensor.element_size(),
            "values": {},
        }
        if read is not None:
            read.append(tensor)
            self._read.append(document)
        return document

    def settle(self) -> None:
        """Fill in what the tensors hold."""
        for document, found in zip(self._read, self._describe(), strict=True):
            document["values"] = found


def plain_json(value: Any) -> Any:
    """JSON of an argument without tensors; raises NotReplayableError."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.Generator):
        return None  # the device's own: only random operators take one
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if type(value) not in _BY_NAME:
        raise NotReplayableError(f"arguments of type {type(value).__name__}")
    return {_BY_NAME[type(value)]: str(value).removeprefix("torch.")}


def require_plain(tensor: torch.Tensor) -> None:
    """Raise NotReplayableError for a tensor that is no plain piece of memory."""
    if tensor.is_nested:
        raise NotReplayableError("nested tensors")
    if tensor.layout is not torch.strided:
        raise NotReplayableError("sparse tensors")
    if tensor.is_quantized or tensor.is_meta:
        raise NotReplayableError("quantized and meta tensors")
    if tensor.is_conj() or tensor.is_neg():
        raise NotReplayableError("lazily conjugated tensors")


def digest(values: Any) -> str:
    """SHA-256 of the bytes of all tensors, and of the numbers, in a result."""
    found = hashlib.sha256()
    for tensor in tensors_in(values):
        plain = tensor.detach().to("cpu").contiguous().reshape(-1)
        found.update(plain.view(torch.uint8).numpy().tobytes())
    if isinstance(values, bool | int | float):
        found.update(repr(values).encode())
    return found.hexdigest()
