"""The signature of an operator's call: all that its time may depend on, without the data.

Tensors are described by type, shape, strides, device, and their places in shared storages.
A number that is no integer counts by its value only where kernels treat it apart (`_SPECIAL`): the
step size of an optimizer that changes each time makes no other signature.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import torch

from profiler.runner.arrays import extent
from profiler.runner.capture.distributions import Distribution, look_at

ALIGNMENT = 64
"""Bytes: where a tensor begins in its storage counts up to this, which no vector load exceeds."""
_SPECIAL = frozenset({0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, math.inf, -math.inf})
_BATCH_NORM = ("::native_batch_norm", "::cudnn_batch_norm", "::miopen_batch_norm")
_OVERWRITES = ("aten::copy_", "aten::fill_", "aten::zero_")
_LEFT_TO_LIBRARIES = frozenset(
    {"philox_seed", "philox_offset", "rng_state", "unused", "debug_attn_mask"}
)
"""Results of attention that hold what lay there before, where it draws no random numbers."""
_RUNNING = ("running_mean", "running_var")
"""Arguments that `_BATCH_NORM` write although their schemas do not say so."""
_BYTES = {
    dtype: dtype.itemsize
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype) and not name.startswith("q")
}
"""Bytes of an element, of types that are not quantized."""
_LOOKED_AT = 8
"""Tensors of a list of numbers that are looked at, at least: an optimizer has hundreds in one."""
_COMPLEX = frozenset(dtype for dtype in _BYTES if dtype.is_complex)
_INTEGERS = frozenset(
    dtype for dtype in {*_BYTES} - {*_COMPLEX, torch.bool} if not dtype.is_floating_point
)
_LISTS = (list, tuple)
"""To be an instance of `list | tuple` takes 200 ns, because that makes a new type each time."""
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_AS_GIVEN = frozenset({int, bool, str, type(None), torch.dtype, torch.layout, torch.memory_format})
_BY_NAME = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}

Arguments = Mapping[str, Any]
Key = tuple[Any, ...]
IsLazy = Callable[[torch.Tensor], bool]


class NotReplayableError(Exception):
    """A call has an argument that cannot be kept; the message says of which kind."""


@cache
def defaults_of(func: Any) -> Mapping[str, Any]:
    """Defaults of the arguments of an operator; its schema makes new objects at each access."""
    return {argument.name: argument.default_value for argument in func._schema.arguments}


@cache
def _written_names(func: Any) -> tuple[str, ...]:
    schema = func._schema
    return tuple(
        argument.name
        for argument in schema.arguments
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (schema.name.endswith(_BATCH_NORM) and argument.name in _RUNNING)
    )


def written_arguments(func: Any, arguments: Arguments) -> dict[str, Any]:
    """Given arguments that an operator writes, by name."""
    names = _written_names(func)
    return {name: arguments[name] for name in names if arguments.get(name) is not None}


def has_results(func: Any) -> bool:
    """Whether an operator returns a value that is no argument."""
    return any(value.alias_info is None for value in func._schema.returns)


@cache
def overwritten_names(func: Any) -> tuple[str, ...]:
    """Arguments that an operator writes and does not read."""
    if func._schema.name in _OVERWRITES or torch.Tag.nondeterministic_seeded in func.tags:
        return _written_names(func)
    return tuple(argument.name for argument in func._schema.arguments if argument.is_out)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors in a value, and in its lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))


def comparable(func: Any, result: Any) -> list[torch.Tensor]:
    """Tensors of the result of an operator, without tensors in a form of its library.

    These may hold old memory: states of random numbers, and bytes beside numbers, as the workspace
    of a recurrent layer.
    """
    returns = func._schema.returns
    named_values = zip(returns, result if len(returns) > 1 else [result], strict=True)
    tensors = list(
        tensors_in([value for r, value in named_values if r.name not in _LEFT_TO_LIBRARIES])
    )
    has_numbers = any(tensor.is_floating_point() for tensor in tensors)
    return [t for t in tensors if not (has_numbers and t.dtype is torch.uint8)]


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements differ from its memory: torch makes them when they are needed."""
    return tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor()


@cache
def lazy_arguments(func: Any) -> IsLazy | None:
    """Function that tells lazy tensors among an operator's arguments; None where none can be lazy.

    For most, torch makes plain ones of them, before a dispatch mode sees the call. Products and
    sums are called with zeros without memory, but with no other.
    """
    has_kernel = partial(torch._C._dispatch_has_kernel_for_dispatch_key, func.name())
    if has_kernel("Conjugate") or has_kernel("Negative"):
        return is_lazy
    return torch.Tensor._is_zerotensor if has_kernel("ZeroTensor") else None


def key_of(
    target: Any, args: Sequence[Any], kwargs: Arguments, *, lazy: IsLazy | None = is_lazy
) -> Key:
    """Key that all calls of one signature share; `target`: their operator, for example.

    `lazy`: tells lazy tensors among the arguments; None where there are none.
    Raises NotReplayableError where a tensor is of a kind that cannot be kept.
    """
    key: list[Any] = [target, tuple(kwargs)]
    places: list[int] = []
    begins: list[int] = []
    _add_to_key(args, key, places, begins, lazy)
    if kwargs:
        _add_to_key(kwargs.values(), key, places, begins, lazy)
    if len(set(places)) < len(places):  # some in one storage
        numbers: dict[int, int] = {}
        places = [numbers.setdefault(place, len(numbers)) for place in places]
        bases = _bases(places, begins)
        key += [begin - bases[place] for place, begin in zip(places, begins, strict=True)]
        key += places
    return tuple(key)


def _add_to_key(
    values: Iterable[Any], key: list[Any], places: list[int], begins: list[int], lazy: IsLazy | None
) -> None:
    """Append the parts of arguments that count; for tensors, also their storages and begins.

    It runs for every tensor of every call, and to read an attribute takes 50 to 90 ns: so what is
    refused is found by the errors that it raises, and by what must be read anyway.
    """
    for value in values:
        kind = type(value)
        if kind in _AS_GIVEN:
            key += (kind, value)
        elif kind in _TENSORS or isinstance(value, torch.Tensor):
            try:
                dtype = value.dtype
                begin = value.storage_offset() * _BYTES[dtype]
                device = "cuda" if value.is_cuda else _device_type(value)
                key += (dtype, value.shape, value.stride(), device, begin % ALIGNMENT)
                places.append(value.untyped_storage()._cdata)
                begins.append(begin)
                if lazy is not None and lazy(value):
                    require_plain(value)
            except (RuntimeError, KeyError):  # NotImplementedError is one of the first
                require_plain(value)
                raise
        elif isinstance(value, _LISTS):
            key += (list, len(value))
            _add_to_key(value, key, places, begins, lazy)
        elif kind is float:
            key += (kind, value if value in _SPECIAL else None)
        elif kind is torch.device:
            key += (kind, value.type)
        else:
            key += (kind, None if kind is torch.Generator else value)


def family_of(key: Key) -> Key:
    """Part of a key that signatures share which differ in sizes and strides alone."""
    return key[1], *[len(part) if isinstance(part, tuple) else part for part in key]


def _device_type(tensor: torch.Tensor) -> str:
    """Type of a tensor's device, by the fastest query; raises NotReplayableError for meta."""
    if tensor.is_cuda:
        return "cuda"
    if tensor.is_cpu:
        return "cpu"
    if tensor.is_meta:
        raise NotReplayableError("quantized and meta tensors")
    return tensor.device.type


def _bases(places: Sequence[int], begins: Sequence[int]) -> dict[int, int]:
    """First used byte of each storage, aligned."""
    first: dict[int, int] = {}
    for place, begin in zip(places, begins, strict=True):
        first[place] = min(begin, first.get(place, begin))
    return {place: begin // ALIGNMENT * ALIGNMENT for place, begin in first.items()}


class _Tensor(NamedTuple):
    """Description of a tensor in a key."""

    number: int
    """Number of the tensor among the tensors of the call."""
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    device: str
    begin: int
    """Byte at which it begins in its storage, up to the alignment."""

    @property
    def bytes(self) -> int:
        """Bytes from the tensor's first element to its last."""
        return extent(self.shape, self.stride) * _BYTES[self.dtype]


class _Arguments:
    """Arguments of a call, read from its key."""

    def __init__(self, key: Key, names: Sequence[str], floats: Sequence[float]) -> None:
        """`names`: of all arguments, in order; `floats`: values of floats, which no key has."""
        self.tensors: list[_Tensor] = []
        self._parts, self._floats = iter(key[2:]), iter(floats)
        self.values = {name: self._next() for name in names}
        places = [*self._parts]
        count = len(self.tensors)
        self.begins = places[:count] or [tensor.begin for tensor in self.tensors]
        """Byte at which each tensor begins in the part of its storage that is used."""
        self.places = places[count:] or [*range(count)]
        """Number of the storage of each tensor."""
        self.ends = [0] * len({*self.places})
        """Bytes of each storage that are used."""
        for tensor, begin, place in zip(self.tensors, self.begins, self.places, strict=True):
            self.ends[place] = max(self.ends[place], begin + tensor.bytes)

    def _next(self) -> Any:
        kind = next(self._parts)
        if isinstance(kind, torch.dtype):
            tensor = _Tensor(len(self.tensors), kind, *islice(self._parts, 4))
            self.tensors.append(tensor)
            return tensor
        value = next(self._parts)
        if kind is list:
            return [self._next() for _ in range(value)]
        if kind is torch.device:
            return torch.device(value)
        return next(self._floats) if kind is float else value


class CallDescription:
    """Arguments of a call as JSON, with the parts of storages that they lie in.

    In the step, tensors are only sampled; `settle` makes the JSON.
    """

    def __init__(
        self,
        key: Key,
        arguments: Arguments,
        *,
        values: bool,
        overwritten: Collection[str] = (),
        like: Callable[[], Sequence[Distribution]] | None = None,
    ) -> None:
        """`key`: `key_of` these arguments; `values`: whether their elements are kept.

        `overwritten`: names of arguments that are not read. They may never have been written, so
        that their memory holds other data. `like`: distributions of the elements of each tensor;
        then only integers are described, which must fit the sizes.
        """
        self._key, self._names = key, tuple(arguments)
        self._like = like
        self._floats: list[float] = []
        self._sampled_tensors: list[torch.Tensor] = []
        self._samples: list[int | None] = []
        """Place of each tensor's statistics among the described samples; None without any."""
        for name, value in arguments.items():
            self._look_over(value, name not in overwritten)
        self._describe, self.held_bytes = look_at(self._sampled_tensors)
        del self._sampled_tensors
        self.values: list[torch.Tensor] = []
        """Copies of the used parts of the storages, as bytes in main memory."""
        if values:
            self.values = self._copied([*tensors_in(arguments)])

    def _look_over(self, value: Any, is_read: bool, is_like_last: bool = False) -> None:
        """`is_like_last`: whether a value is not described where the last one had its type."""
        if isinstance(value, torch.Tensor):
            dtype = value.dtype
            if self._like is not None and dtype not in _INTEGERS:
                is_read = False
            if is_read and not (is_like_last and self._is_like_last(dtype)):
                self._sampled_tensors.append(value)
            self._samples.append(len(self._sampled_tensors) - 1 if is_read else None)
        elif isinstance(value, _LISTS):
            every = 1 + len(value) // _LOOKED_AT
            for n, item in enumerate(value):
                self._look_over(item, is_read, n % every > 0)
        elif type(value) is float:
            self._floats.append(value)

    def _is_like_last(self, dtype: torch.dtype) -> bool:
        """Whether the last sampled tensor has numbers of this type, not indices."""
        if not self._sampled_tensors:
            return False
        last = self._sampled_tensors[-1]
        return last.dtype is dtype and dtype.is_floating_point and last.numel() > 0

    def _arguments(self) -> _Arguments:
        return _Arguments(self._key, self._names, self._floats)

    def _copied(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        of_key = self._arguments()
        first = {place: n for n, place in reversed([*enumerate(of_key.places)])}
        copies = []
        for place, end in enumerate(of_key.ends):
            tensor = tensors[first[place]]
            begin = (
                int(tensor.storage_offset()) * _BYTES[tensor.dtype] - of_key.begins[first[place]]
            )
            view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            part = view.set_(tensor.untyped_storage(), begin, (end,), (1,))
            copies.append(part.to("cpu", copy=True))
        return copies

    def settle(
        self, defaults: Arguments, *, text: bool
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """JSON of arguments and storages; raises NotReplayableError for an argument without JSON.

        `defaults`: arguments that need not be given; `text`: whether text among them may be kept.
        The statistics of tensors are made here, from their copies.
        """
        of_key = self._arguments()
        elements = self._describe()
        remaining_values = iter(
            self._like() if self._like is not None else [{}] * len(of_key.tensors)
        )

        def as_json(value: Any) -> Any:
            if isinstance(value, _Tensor):
                tensor_values, sample = next(remaining_values), self._samples[value.number]
                document = {
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "shape": list(value.shape),
                    "stride": list(value.stride),
                    "storage": of_key.places[value.number],
                    "offset": of_key.begins[value.number] // _BYTES[value.dtype],
                    "values": tensor_values if sample is None else elements[sample],
                }
                return {"tensor": document}
            if isinstance(value, list):
                return [as_json(item) for item in value]
            if isinstance(value, str) and not text:
                raise NotReplayableError(
                    "text among the arguments of an operator that is not torch's"
                )
            return plain_json(value)

        arguments_by_name = {**defaults, **of_key.values}
        arguments = {name: as_json(value) for name, value in arguments_by_name.items()}
        devices = dict(
            zip(of_key.places, (tensor.device for tensor in of_key.tensors), strict=True)
        )
        return arguments, [
            {"bytes": end, "device": devices[place]} for place, end in enumerate(of_key.ends)
        ]


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
    """Raise NotReplayableError for a tensor that is no plain view of memory."""
    if tensor.is_nested:
        raise NotReplayableError("nested tensors")
    if tensor.layout is not torch.strided:
        raise NotReplayableError("sparse tensors")
    if tensor.is_quantized or tensor.is_meta:
        raise NotReplayableError("quantized and meta tensors")
    if tensor._is_zerotensor():
        raise NotReplayableError("zeros without memory")
    if tensor.is_conj() or tensor.is_neg():
        raise NotReplayableError("lazily conjugated tensors")


def digest(values: Any) -> str:
    """SHA-256 of the bytes of all tensors and of the numbers in a result."""
    sha256 = hashlib.sha256()
    for tensor in tensors_in(values):
        # A copy: a storage that NumPy was given can be resized no more, as FSDP does.
        plain = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        sha256.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    if isinstance(values, bool | int | float):
        sha256.update(repr(values).encode())
    return sha256.hexdigest()
