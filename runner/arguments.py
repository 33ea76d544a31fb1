"""Arguments of the variants of a problem: arrays of any library, in any containers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from profiler.kernels.references import wide_type
from profiler.runner.arrays import (
    as_tensor,
    inner_tensors,
    is_array,
    is_made_of_tensors,
    items_of,
    with_items,
)
from profiler.runner.experiment import Function, accepted_arguments, call_fault, positional_only

Parameters = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of the variants of a problem, in the types of the user."""

    positional: tuple[Any, ...]
    by_name: Mapping[str, Any]
    outputs: tuple[Any, ...]
    """Arrays that variants write into; they follow the positional arguments."""

    def bind(
        self, function: Function, problem: Parameters, parameters: Parameters | None = None
    ) -> Callable[[], Any]:
        """A function with its arguments, its parameters, and the parameters of the problem.

        Raises TypeError for a function that does not take them.
        """
        values = (*map(_with_own_containers, self.positional), *self.outputs)
        inputs = {name: _with_own_containers(value) for name, value in self.by_name.items()}
        offered_values, parameters = {**problem, **inputs}, parameters or {}
        named_values = offered_values | parameters
        unnamed = positional_only(function, named_values, len(values))
        keywords = accepted_arguments(function, offered_values, positional=len(values)) | parameters
        by_keyword = {name: value for name, value in keywords.items() if name not in unnamed}
        fault = call_fault(function, *values, *unnamed.values(), **by_keyword)
        if fault:
            name = getattr(function, "__name__", type(function).__name__)
            raise TypeError(
                f"{name} cannot be called with what it gets ({fault}): the inputs in their order, "
                f"here {len(self.positional)}, then outputs, and by name what it has parameters "
                f"for, of {', '.join(sorted(named_values)) or 'none'}"
            )
        call = partial(function, *values, *unnamed.values(), **by_keyword)
        return self.with_gradients(call)

    def with_gradients(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """The call under `torch.enable_grad`, if gradients of an input are asked for."""
        return torch.enable_grad()(call) if self.have_gradients else call

    def with_fresh_gradients(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """A launch before each of which no input has a gradient, to which `backward` would add."""
        leaves = [array for array in self._arrays() if _needs_gradient(array) and array.is_leaf]
        return partial(_without_gradients, leaves, call) if leaves else call

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Tensors on the memory of all arrays among the inputs."""
        return tuple(map(as_tensor, self._arrays()))

    def _arrays(self) -> Iterator[Any]:
        """All arrays among the inputs."""
        return _arrays((*self.positional, *self.by_name.values()))

    @cached_property
    def have_gradients(self) -> bool:
        """Whether gradients of an input are asked for."""
        return any(map(_needs_gradient, self._arrays()))

    @property
    def user_inputs(self) -> Any:
        """The inputs as the user's function made them: an array, a tuple or a mapping."""
        if self.by_name:
            return dict(self.by_name)
        return self.positional[0] if len(self.positional) == 1 else self.positional

    def widened(self) -> Arguments:
        """Copies with every floating-point array in float64."""
        return self._changed_copies(wide_array)

    @cached_property
    def originals(self) -> Arguments:
        """Copies of the inputs, made when this property is first read."""
        return self.copied()

    @property
    def unwritten(self) -> Arguments:
        """The inputs as no variant wrote them: copies, where a variant writes them."""
        return self.originals if "originals" in vars(self) else self

    def copied(self) -> Arguments:
        """Copies with every array of its own type."""
        return self._changed_copies(_copied_array)

    def _changed_copies(self, change: Callable[[Any], Any]) -> Arguments:
        """Copies with every array changed, and modules with their parameters in float64."""
        return Arguments(
            positional=tuple(copy_of(value, change) for value in self.positional),
            by_name={name: copy_of(value, change) for name, value in self.by_name.items()},
            outputs=tuple(copy_of(value, change) for value in self.outputs),
        )


def _without_gradients(leaves: Sequence[torch.Tensor], call: Callable[[], Any]) -> Any:
    for leaf in leaves:
        leaf.grad = None
    return call()


def _arrays(value: Any) -> Iterator[Any]:
    """All arrays in a value and the containers in it."""
    if is_array(value):
        yield value
    else:
        for item in items_of(value) or ():
            yield from _arrays(item)


def named_arrays(value: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Arrays in named values and in the containers among them, by name: `x`, `weights[0]`."""
    for name, item in value.items():
        if is_array(item):
            yield name, as_tensor(item)
        elif (items := items_of(item)) is not None:
            places = (f"{name}{place}" for place in _places(item))
            yield from named_arrays(dict(zip(places, items, strict=True)))


def _places(container: Any) -> Iterator[str]:
    """Endings of the name of a container for its items: `[0]`, `['a']`, `.a`."""
    if isinstance(container, Mapping):
        return (f"[{key!r}]" for key in container)
    if isinstance(container, list | tuple):
        return (f"[{number}]" for number in range(len(container)))
    if is_made_of_tensors(container):
        return (f".{name}" for name in inner_tensors(container))
    return (f".{part.name}" for part in dataclasses.fields(container))


def copy_of(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a value with its arrays changed."""
    if isinstance(value, torch.nn.Module):
        copied = copy.deepcopy(value)
        return copied.double() if change is wide_array else copied
    items = items_of(value)
    if items is not None:
        return with_items(value, [copy_of(item, change) for item in items])
    return change(value) if is_array(value) else value


def _with_own_containers(value: Any) -> Any:
    """The value with containers of its own on the same arrays.

    A variant that takes an item out of a container, or puts one in, changes it for itself alone.
    """
    is_other_mapping = isinstance(value, Mapping) and not isinstance(value, dict)
    if is_other_mapping or is_made_of_tensors(value):
        return value
    items = items_of(value)
    return value if items is None else with_items(value, map(_with_own_containers, items))


def _copied_array(array: Any) -> Any:
    if not isinstance(array, torch.Tensor) and hasattr(array, "copy"):  # NumPy, CuPy, JAX
        return array.copy()
    return as_tensor(array).detach().clone().requires_grad_(_needs_gradient(array))


def _needs_gradient(array: Any) -> bool:
    return isinstance(array, torch.Tensor) and array.requires_grad


def wide_array(array: Any) -> Any:
    """A copy of an array, in float64 (complex128) where it holds real (complex) numbers."""
    if not isinstance(array, torch.Tensor) and hasattr(array, "astype"):  # NumPy, CuPy, JAX
        return array.astype("float64") if array.dtype.kind == "f" else array.copy()
    tensor = as_tensor(array).detach()
    return tensor.to(wide_type(tensor.dtype), copy=True).requires_grad_(_needs_gradient(array))
