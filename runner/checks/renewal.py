"""The check after the last visit: inputs overwritten in place, results sampled, then compared.

The first check finds a wrong result; this one finds a right result that the measured launches did
not make: a result kept from the inputs of the first check, or left where an earlier launch wrote
it. So nothing here shows a kernel that it is being checked: outputs are not poisoned but hold
shuffled results, and the right result is made only when every variant has launched.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch

from profiler.runner.arguments import Arguments
from profiler.runner.arrays import as_tensor, is_array
from profiler.runner.checks import check
from profiler.runner.checks.check import Allowed, Tensors
from profiler.runner.device import Device
from profiler.runner.protocol import Tolerance
from profiler.runner.seal import ImplausibleError
from profiler.runner.timing import Launch

SAMPLED = 1 << 16
"""Elements of an output that are compared: whole results of all variants would not fit into
memory, and a result that was kept is wrong almost everywhere."""

_COMPARED_AT_ONCE = 1 << 14
"""Elements of which torch leaves the comparison to one thread of the CPU.

Where a container may use fewer CPUs than torch counts, more threads wait in turns until its share
of time is used up: 96 ms a comparison on an H200's host, of any size. `torch.set_num_threads` is
no way out: after it, solvers of MKL give batches of matrices wrong results (torch 2.13, CPU).
"""

SLACK = 4.0
"""How many times the tolerance an element may be off: bounds were set with values of another
seed."""

_DELAY = 10.0
"""Time for which the stream of launches is busy, by the time to queue a fill for each input: longer
than the host takes to queue the copies and a launch."""
_LEAST_DELAY_S, _MOST_DELAY_S = 0.001, 0.005
"""Under ncu each copy takes almost a millisecond to be queued."""

_SETS = (set, frozenset)

_MOST_PARTS = 10_000
"""Objects that inputs are searched for tensors in."""

MOST_WRONG = 0.01
"""Share of the sampled elements that may be off by more than SLACK tolerances, for its reason."""


class NotRenewableError(Exception):
    """Inputs cannot be overwritten in place with inputs of another seed; the message says why."""


def other_seed(seed: int) -> int:
    """Seed of the inputs that overwrite the inputs of `seed`."""
    return (seed + 0x9E3779B9) % 2**32


class Renewal:
    """Inputs of a problem, and inputs of another seed that overwrite them in place.

    Raises NotRenewableError where both do not have the same structure, or do not differ.
    """

    def __init__(self, inputs: Any, other_inputs: Any, seeds: tuple[int, int]) -> None:
        self.other_inputs = other_inputs
        self._pairs = list(_pairs(inputs, other_inputs, "the inputs", seeds, set()))
        if all(torch.equal(old, new) for old, new in self._pairs):
            raise NotRenewableError("inputs of another seed are the same")
        self._storages = {_storage(old) for old, _ in self._pairs}
        self._positions: dict[tuple[Any, ...], tuple[torch.Tensor, ...] | None] = {}

    def sample(self, launch: Launch, device: Device) -> tuple[Sample, ...]:
        """Sampled elements of a launch's result on the new inputs (see `results`)."""
        return self.take(check.as_tensors(self.results(launch, device), "`outputs`"))

    def results(self, launch: Launch, device: Device) -> Any:
        """Result of a launch on the new inputs: its return value, or its `outputs`.

        The stream that the runner launches on is kept busy before the inputs are complete: work
        that does not wait for it reads incomplete inputs, and its result is sampled when that
        stream says that the launch is over. A launch may have `restart`, which resets the state
        that its calls change.
        """
        outputs = getattr(launch, "outputs", None)
        if outputs is None:  # only a launch shows where its results lie
            self._write_new_inputs()
            outputs = self._launch(launch)
        if outputs is not None:
            self._shuffle_outputs(check.as_tensors(outputs, "the result of the launch"))
        began = time.monotonic()
        for old, _ in self._pairs:
            old.data.zero_()
        queued_s = time.monotonic() - began
        device.wait()
        device.delay(min(max(_LEAST_DELAY_S, _DELAY * queued_s), _MOST_DELAY_S))
        self._write_new_inputs()
        if getattr(launch, "on_own_streams", False):  # the launch itself waits for its results
            device.wait()
        result = self._launch(launch)
        return getattr(launch, "outputs", None) if result is None else result

    def take(self, tensors: Tensors) -> tuple[Sample, ...]:
        """Sampled elements of tensors: the same places for all tensors of a shape."""
        return tuple(self._sample_of(tensor) for tensor in tensors)

    def _launch(self, launch: Launch) -> Any:
        restart = getattr(launch, "restart", None)
        if restart is not None:
            restart()
        return launch()

    def _write_new_inputs(self) -> None:
        # Through `data`, so that no count of versions tells that they were overwritten.
        for old, new in self._pairs:
            old.data.copy_(new)

    def _shuffle_outputs(self, outputs: Tensors) -> None:
        """Write values that look like results into every output, in the wrong places."""
        for tensor in outputs:
            self._sampled_index(tensor)  # now, because copying positions to a device waits for it
            if _storage(tensor) not in self._storages:
                tensor.data.copy_(shuffled_values(tensor.data))

    def _sampled_index(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...] | None:
        """Index of the elements to compare, for tensors of one shape; None: all elements."""
        key = (tuple(tensor.shape), tensor.device)
        if key not in self._positions:
            self._positions[key] = _positions(tensor)
        return self._positions[key]

    def _sample_of(self, tensor: torch.Tensor) -> Sample:
        place = self._sampled_index(tensor)
        values = tensor.detach().reshape(-1).clone() if place is None else tensor.detach()[place]
        return Sample(tuple(tensor.shape), values)


@dataclass(frozen=True, eq=False)
class Sample:
    """Elements of one output."""

    shape: tuple[int, ...]
    values: torch.Tensor
    """One dimension."""


def require_same(
    got: Sequence[Sample],
    expected: Sequence[Sample],
    *layers: Mapping[str, Tolerance],
    rounding: Allowed | None = None,
    largest: Sequence[float] = (),
) -> None:
    """Raise ImplausibleError where sampled elements differ from the right result.

    `rounding`: of each output, as `check.compare` has it. `largest`: magnitudes in the right
    result, by output; default: in the samples.
    """
    first, second = ([sample.shape for sample in side] for side in (got, expected))
    if first != second:
        raise ImplausibleError(f"on new inputs its result has the shapes {first}, not {second}")
    # On the CPU: under ncu each of a dozen launches would take longer than comparing so few there.
    pairs = [
        (sample.values.cpu(), right.values.cpu())
        for sample, right in zip(got, expected, strict=True)
    ]
    total = sum(len(values) for values, _ in pairs)
    wrong = sum(
        check.count_wrong(
            *part_and_right,
            SLACK,
            *layers,
            rounding=partial(rounding, number) if rounding else None,
            largest=largest[number] if largest else None,
        )
        for number, (values, right) in enumerate(pairs)
        for part_and_right in zip(
            torch.split(values, _COMPARED_AT_ONCE),
            torch.split(right, _COMPARED_AT_ONCE),
            strict=True,
        )
    )
    if wrong > MOST_WRONG * total:
        raise ImplausibleError(
            f"after its last visit its inputs were overwritten in place, and {wrong} of {total} "
            "elements of its result are not those of the new inputs: kept from earlier launches, "
            "made from a copy that its setup took (`trust` allows it), left out, made on another "
            "stream or thread without waiting, or others at each launch"
        )


def require_right(own_check: Callable[[Any], object], results: Any) -> None:
    """Raise ImplausibleError where a variant's own check refuses a result."""
    try:
        own_check(results)
    except check.WrongResultError as error:
        raise ImplausibleError(
            f"after its last visit its inputs were overwritten in place, and its result is not "
            f"right for the new inputs: {error}"
        ) from error


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By size in bytes."""
_RARE = (torch.uint16, torch.uint32, torch.uint64, torch.complex32)
"""Types for which torch has no flip, and of most no sum: nor has it for floats of one byte."""


def shuffled_values(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor in the opposite order; another value where it has one element."""
    dtype, dimensions = tensor.dtype, tuple(range(tensor.dim()))
    is_rare = dtype in _RARE or (dtype.is_floating_point and dtype.itemsize == 1)
    if tensor.numel() != 1:
        if is_rare:
            return tensor.view(_INTEGERS[dtype.itemsize]).flip(dimensions).view(dtype)
        return tensor.flip(dimensions)
    if dtype == torch.bool:
        return ~tensor
    return (tensor.double() + 1).to(dtype) if is_rare else tensor + 1


def _positions(tensor: torch.Tensor) -> tuple[torch.Tensor, ...] | None:
    if tensor.numel() <= SAMPLED:
        return None
    flat_index = numpy.random.default_rng(tensor.numel()).integers(tensor.numel(), size=SAMPLED)
    # torch's own `unravel_index` imports sympy: 2 s under ncu.
    indices = numpy.unravel_index(flat_index, tuple(tensor.shape))
    return tuple(torch.from_numpy(index).to(tensor.device) for index in indices)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _pairs(
    old: Any, new: Any, place: str, seeds: tuple[int, int], seen_ids: set[int]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of tensors at the same places of two inputs; `seen_ids`: ids of visited old parts."""
    if id(old) in seen_ids or old is new:
        return
    if _class_name(old) != _class_name(new):
        raise NotRenewableError(f"{place} is of another type with another seed")
    if is_array(old):
        seen_ids.add(id(old))
        pair = as_tensor(old), as_tensor(new)
        _require_alike(*pair, place)
        yield pair
        return
    parts = _parts(old, new, place)
    if parts is None:
        _require_equal(old, new, place, seeds)
        return
    seen_ids.add(id(old))
    for name, first, second in parts:
        yield from _pairs(first, second, name, seeds, seen_ids)


def _class_name(value: Any) -> tuple[str, str]:
    """Module and name of a value's class, which is another object where a file is loaded anew."""
    return type(value).__module__, type(value).__qualname__


def _require_equal(old: Any, new: Any, place: str, seeds: tuple[int, int]) -> None:
    """Raise for a value that depends on the seed and is no tensor, unless it is the seed itself."""
    plain = (int, float, complex, str, bytes, torch.dtype, torch.device)
    # Every module of torch holds a set of names: those of its buffers that are not saved.
    if not all(isinstance(part, plain) for part in (old if isinstance(old, _SETS) else (old,))):
        raise NotRenewableError(f"{place} is {type(old).__name__}, which cannot be overwritten")
    if old != new and (old, new) != seeds:
        raise NotRenewableError(f"{place} is no tensor and depends on the seed")


def tensors_in(value: Any, place: str = "inputs") -> dict[str, torch.Tensor]:
    """Tensors of torch in inputs, each once, by their path: `inputs.values`.

    Of objects that lead to very many parts only the first parts are visited.
    """
    tensors_by_id: dict[int, tuple[str, Any]] = {}
    seen_values: dict[int, Any] = {}
    unvisited = deque([(place, value)])
    while unvisited and len(seen_values) < _MOST_PARTS:
        place, value = unvisited.popleft()
        if id(value) not in seen_values:
            seen_values[id(value)] = value
            if type(value) in (torch.Tensor, torch.nn.Parameter):
                tensors_by_id[id(value)] = (place, value)
            elif not is_array(value):
                unvisited += [(name, part) for name, part, _ in _parts(value, value, place) or ()]
    return dict(tensors_by_id.values())


def zeroed_inputs(inputs: Any) -> Any:
    """Inputs with 0 in all floating-point tensors; whole numbers and flags stay."""
    with torch.no_grad():
        for tensor in tensors_in(inputs).values():
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.zero_()
    return inputs


def _parts(old: Any, new: Any, place: str) -> list[tuple[str, Any, Any]] | None:
    """Name and value of both containers' parts; None where they are no containers.

    What only one side has was made later (a result that is kept, say).
    """
    if isinstance(old, list | tuple):
        if len(old) != len(new):
            raise NotRenewableError(f"{place} has another length with another seed")
        items = zip(old, new, strict=True)
        return [(f"{place}[{number}]", *pair) for number, pair in enumerate(items)]
    if isinstance(old, Mapping):
        return [(f"{place}[{key!r}]", old[key], new[key]) for key in old if key in new]
    names = _fields(old)
    if names is None:
        return None
    return [
        # Fields of Arguments are no names of the user's.
        (
            place if isinstance(old, Arguments) else f"{place}.{name}",
            getattr(old, name),
            getattr(new, name),
        )
        for name in names
        if hasattr(old, name) and hasattr(new, name)
    ]


def _fields(value: Any) -> list[str] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        # A value that is made when it is needed (functools.cached_property) is no field.
        return [*dict.fromkeys((*fields, *getattr(value, "__dict__", ())))]
    if callable(value) and not isinstance(value, torch.nn.Module):
        return None
    return list(vars(value)) if hasattr(value, "__dict__") else None


def _require_alike(old: torch.Tensor, new: torch.Tensor, place: str) -> None:
    if not (old.shape == new.shape and old.dtype == new.dtype and old.device == new.device):
        raise NotRenewableError(f"{place} has another shape or type with another seed")
    if any(stride == 0 < size - 1 for stride, size in zip(old.stride(), old.shape, strict=True)):
        raise NotRenewableError(f"{place} has elements that share memory")
