"""The functions of a `profiler.Experiment` as a workload: arguments by name, any arrays."""

from __future__ import annotations

import copy
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from profiler.runner.arrays import as_tensor, is_array
from profiler.runner.experiment import (
    FUNCTION,
    Experiment,
    Function,
    VariantFunction,
    accepted,
)
from profiler.runner.timing import Launch

Parameters = dict[str, Any]
_WIDE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}


@dataclass(frozen=True, eq=False)
class Arguments:
    """What the variants of a problem are called with, in the types of the user."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    outputs: tuple[Any, ...]
    """Arrays that variants write into; they follow the positional ones."""

    def bound(
        self, function: Function, problem: Parameters, parameters: Parameters | None = None
    ) -> Callable[[], Any]:
        """A function with its arguments, its parameters, and those of the problem that it takes."""
        values = (*self.positional, *self.outputs)
        named = accepted(function, {**problem, **self.named}, positional=len(values))
        return partial(function, *values, **{**named, **(parameters or {})})

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Tensors on the memory of all arrays among the inputs."""
        return tuple(map(as_tensor, _arrays((*self.positional, *self.named.values()))))

    def widened(self) -> Arguments:
        """Copies with every floating-point array in float64."""
        return Arguments(
            positional=tuple(map(_widened, self.positional)),
            named={name: _widened(value) for name, value in self.named.items()},
            outputs=tuple(map(_widened, self.outputs)),
        )


class FunctionWorkload:
    """The functions of a workload (docs/architecture.md), made from those of an experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._functions = experiment.functions
        self.flops = self._amount("flops")
        self.bytes = self._amount("bytes")

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> Arguments:
        """Arguments of the variants; what torch allocates lies on the device by default."""
        _seed_others(seed)
        named = {**problem, "device": device, "seed": seed}
        with device:
            inputs = self._called("inputs", named)
            outputs = self._called("outputs", named) if "outputs" in self._functions else ()
        if inputs is None:
            name = getattr(self._functions["inputs"], "__name__", "inputs")
            raise TypeError(
                f"{name} returns nothing: return the inputs as an array, a tuple or a mapping"
            )
        by_name = dict(inputs) if isinstance(inputs, Mapping) else {}
        positional = () if isinstance(inputs, Mapping) else _as_tuple(inputs)
        return Arguments(positional, by_name, _as_tuple(outputs))

    def prepare(
        self, variant: Parameters, problem: Parameters, inputs: Arguments, library: Path | None
    ) -> Launch:
        """Launch of a variant."""
        del library  # nothing is built for functions
        parameters = {key: value for key, value in variant.items() if key != FUNCTION}
        entry = self._variant(variant)
        call = inputs.bound(entry.function, problem, parameters)
        if entry.setup:
            call = call()
            if not callable(call):
                raise TypeError(f"{entry.name} has setup=True and must return a function")
        return FunctionLaunch(entry.name, call, inputs)

    def reference(self, problem: Parameters, inputs: Arguments) -> Any:
        """Right result: of the reference, or of the baseline on inputs in float64."""
        if "reference" in self._functions:
            return replace(inputs, outputs=()).bound(self._functions["reference"], problem)()
        baseline = self._experiment.baseline_function()
        parameters = next(baseline.combinations())
        wide = inputs.widened()
        try:
            call = wide.bound(baseline.function, problem, parameters)
            result = call()() if baseline.setup else call()
            return _require_wide(wide.outputs if result is None else result, inputs)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise NoReferenceError(
                f"the baseline {baseline.name} gives no right result in float64 "
                f"({type(error).__name__}: {error}): write one with @….reference"
            ) from error

    def _variant(self, variant: Parameters) -> VariantFunction:
        name = variant.get(FUNCTION)
        if name not in self._experiment.variants:
            names = ", ".join(self._experiment.variants)
            raise ValueError(f"no function {name!r} is marked as a variant; there are: {names}")
        return self._experiment.variants[name]

    def _called(self, role: str, named: Parameters) -> Any:
        function = self._functions[role]
        return function(**accepted(function, named))

    def _amount(self, role: str) -> Callable[[Parameters], float | None] | None:
        return partial(self._counted, role) if role in self._functions else None

    def _counted(self, role: str, problem: Parameters) -> float | None:
        """FLOPs or bytes of a problem; raises ValueError for what is no count."""
        count = self._called(role, problem)
        if count is not None and not 0 <= float(count) < math.inf:
            raise ValueError(f"the function of {role} returns {count!r}, which is no count")
        return None if count is None else float(count)


class NoReferenceError(Exception):
    """The baseline cannot be computed in higher precision."""


class FunctionLaunch:
    """Calls a variant; its first call looks at what the function returns."""

    def __init__(self, name: str, call: Callable[[], Any], inputs: Arguments) -> None:
        self._name = name
        self._call = call
        self._inputs = inputs
        self._launch = self._first
        self.outputs = tuple(map(as_tensor, inputs.outputs)) or None

    def __call__(self) -> Any:
        """Launch once."""
        return self._launch()

    def _first(self) -> Any:
        result = self._call()
        if result is None and not self._inputs.outputs:
            raise TypeError(
                f"{self._name} returns nothing: return the result, or allocate what it writes into "
                "with @….outputs"
            )
        self._refuse_inputs(result)
        waits = [value for value in _as_tuple(result) if hasattr(value, "block_until_ready")]
        self._launch = self._wait if waits else self._call
        return result

    def _wait(self) -> Any:
        """Launch and wait: JAX launches on streams of its own, which nobody else waits for."""
        result = self._call()
        for value in _as_tuple(result):
            value.block_until_ready()
        return result

    def _refuse_inputs(self, result: Any) -> None:
        """Raise where a result lies in the memory of an input: the check could not poison it."""
        storages = {_storage(tensor) for tensor in self._inputs.inputs()} - {0}  # 0: no elements
        for value in _as_tuple(result):
            if is_array(value) and _storage(as_tensor(value)) in storages:
                raise TypeError(
                    f"{self._name} returns memory of an input: allocate what it writes into with "
                    "@….outputs"
                )


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _seed_others(seed: int) -> None:
    """Seed the generators of Python and NumPy, where it is loaded; the runner seeds torch's."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _arrays(value: Any) -> Iterator[Any]:
    """All arrays in a value and the containers in it."""
    if is_array(value):
        yield value
    elif isinstance(value, Mapping):
        yield from _arrays(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)


def _widened(value: Any) -> Any:
    """A copy of a value with its floating-point arrays in float64 (complex128)."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, Mapping):
        return {key: _widened(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_widened, value))
    return _widened_array(value) if is_array(value) else value


def _widened_array(array: Any) -> Any:
    if not isinstance(array, torch.Tensor) and hasattr(array, "astype"):  # NumPy, CuPy, JAX
        return array.astype("float64") if array.dtype.kind == "f" else array.copy()
    tensor = as_tensor(array)
    if tensor.is_complex():
        return tensor.to(_WIDE.get(tensor.dtype, tensor.dtype), copy=True)
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)


def _require_wide(result: Any, inputs: Arguments) -> Any:
    """The result; raises TypeError where it was rounded on the way."""
    if not any(tensor.is_floating_point() for tensor in inputs.inputs()):
        return result
    for value in _as_tuple(result):
        tensor = as_tensor(value)
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise TypeError(f"its result is {tensor.dtype} on inputs in float64")
    return result
