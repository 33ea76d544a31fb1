"""The functions of a `profiler.Experiment` as a workload: arguments by name, any arrays."""

from __future__ import annotations

import copy
import dataclasses
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import GeneratorType
from typing import Any

import torch

from profiler.kernels.autotuned import Row, watch_launch
from profiler.kernels.references import Reference, WithoutNarrowTypes, move, nudge, wide_type
from profiler.runner.arrays import as_tensor, is_array, leaves, memory_address
from profiler.runner.checks.check import WrongResultError, as_tensors
from profiler.runner.experiment import (
    FUNCTION,
    Experiment,
    Function,
    VariantFunction,
    accepted,
    positional_names,
    positional_only,
)
from profiler.runner.failures import describe
from profiler.runner.timing import Launch
from profiler.runner.variant_options import VariantOptions

Parameters = dict[str, Any]


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
        values = (*map(_with_own_containers, self.positional), *self.outputs)
        inputs = {name: _with_own_containers(value) for name, value in self.named.items()}
        offered, parameters = {**problem, **inputs}, parameters or {}
        unnamed = positional_only(function, offered | parameters, len(values))
        named = accepted(function, offered, positional=len(values)) | parameters
        rest = {name: value for name, value in named.items() if name not in unnamed}
        call = partial(function, *values, *unnamed.values(), **rest)
        return _with_gradients(call) if self.have_gradients else call

    def with_fresh_gradients(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """A launch before each of which no input has a gradient, to which `backward` would add."""
        arrays = _arrays((*self.positional, *self.named.values()))
        leaves = [array for array in arrays if _needs_gradient(array) and array.is_leaf]
        return partial(_without_gradients, leaves, call) if leaves else call

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Tensors on the memory of all arrays among the inputs."""
        return tuple(map(as_tensor, _arrays((*self.positional, *self.named.values()))))

    @cached_property
    def have_gradients(self) -> bool:
        """Whether gradients of an input are asked for."""
        return any(map(_needs_gradient, _arrays((*self.positional, *self.named.values()))))

    @property
    def given(self) -> Any:
        """The inputs as the user's function made them: an array, a tuple or a mapping."""
        if self.named:
            return dict(self.named)
        return self.positional[0] if len(self.positional) == 1 else self.positional

    def widened(self) -> Arguments:
        """Copies with every floating-point array in float64."""
        return self._changed(_wide_array)

    @cached_property
    def originals(self) -> Arguments:
        """Copies of the inputs, as they were when these were first asked for."""
        return self.copied()

    @property
    def unwritten(self) -> Arguments:
        """The inputs as no variant wrote them: copies, where one writes them."""
        return self.originals if "originals" in vars(self) else self

    def copied(self) -> Arguments:
        """Copies with every array of its own type."""
        return self._changed(_copied_array)

    def _changed(self, change: Callable[[Any], Any]) -> Arguments:
        """Copies with every array changed, and modules with their parameters in float64."""
        return Arguments(
            positional=tuple(_copy_of(value, change) for value in self.positional),
            named={name: _copy_of(value, change) for name, value in self.named.items()},
            outputs=tuple(_copy_of(value, change) for value in self.outputs),
        )


class FunctionWorkload:
    """The functions of a workload (docs/architecture.md), made from those of an experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._functions = experiment.functions
        self._tuned: list[Row] = []
        """What was tried for the baseline where its result was the reference: it is tuned then."""
        self.flops = self._amount("flops")
        self.bytes = self._amount("bytes")

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> Arguments:
        """Arguments of the variants; what torch allocates lies on the device by default."""
        _seed_others(seed)
        named = {**self._own_values(problem), "device": device, "seed": seed}
        with device:
            inputs = self._called("inputs", named)
            if isinstance(inputs, GeneratorType):
                inputs = tuple(inputs)
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
        entry, parameters = self._variant(variant)
        problem, options = self._own_values(problem), entry.options_of(parameters)
        originals = inputs.originals if options.in_place else None
        bound = inputs.bound(entry.function, problem, parameters)

        def set_up() -> Callable[[], Any]:
            return inputs.with_fresh_gradients(_launch_of(entry, options, bound))

        with watch_launch() as tuned:
            call = set_up()
        if entry is self._experiment.baseline_function():
            tuned += self._tuned
        launch = FunctionLaunch(entry.name, call, inputs, originals, tuned)
        if options.setup and inputs.have_gradients:  # the graph of its forward pass is made there
            launch.set_up_anew_by(set_up)
        return launch

    def is_own_reference(self, variant: Parameters) -> bool:
        """Whether a variant is the baseline, whose result in float64 is the reference."""
        entry, parameters = self._variant(variant)
        baseline = self._experiment.baseline_function()
        first, _ = next(baseline.combinations())
        return "reference" not in self._functions and entry is baseline and parameters == first

    def named_inputs(self, inputs: Arguments) -> dict[str, torch.Tensor]:
        """Tensors of the inputs by what the baseline calls them."""
        names = positional_names(self._experiment.baseline_function().function)
        first = {
            names[number] if number < len(names) else f"input {number}": value
            for number, value in enumerate(inputs.positional)
        }
        return dict(_named_arrays({**first, **inputs.named}))

    def own_check(
        self, variant: Parameters, problem: Parameters, inputs: Arguments
    ) -> Callable[[Any], None] | None:
        """Check of a variant, or of the experiment; None where the reference tells."""
        entry, parameters = self._variant(variant)
        options = entry.options_of(parameters)
        inputs = inputs.originals if options.in_place else inputs
        return self.check_of(problem, inputs, options.check)

    def check_of(
        self, problem: Parameters, inputs: Arguments, own: Function | None = None
    ) -> Callable[[Any], None] | None:
        """A variant's `own` check, or that of the experiment; None where the reference tells."""
        function = own or self._functions.get("check")
        if function is None:
            return None
        return partial(_require_right, function, inputs.given, self._own_values(problem))

    def reference(self, problem: Parameters, inputs: Arguments) -> Any:
        """Right result: of the user's reference, or of the baseline on inputs in float64.

        In its own types, with a doubt, where the baseline takes no others, or seems to ignore them.
        """
        problem = self._own_values(problem)
        if "reference" in self._functions:
            of_user = partial(self._by_own_reference, problem, inputs)
            return Reference(of_user(), None, of_user)
        narrow = WithoutNarrowTypes()  # type: ignore[no-untyped-call]  # torch's own
        in_float64 = partial(self._in_float64, problem)
        without_narrow = partial(in_float64, within=narrow)
        for compute in (in_float64, without_narrow):
            try:
                wide = compute(inputs)
            except (torch.OutOfMemoryError, MemoryError):
                raise
            except Exception as error:
                doubt = f"takes no inputs in float64 ({describe(error, Path())})"
            else:
                if compute is without_narrow or not _is_rounded(wide, inputs):
                    return self._wide_reference(problem, inputs, compute, wide, narrow.largest_step)
        # Where that fails, too, its own error says why.
        return self._own_as_reference(problem, inputs, doubt)

    def _wide_reference(
        self,
        problem: Parameters,
        inputs: Arguments,
        compute: Callable[..., Any],
        wide: Any,
        largest_step: float,
    ) -> Reference:
        """Result of the baseline in float64, if types explain what its own differs by; else that.

        `compute` gave it; `largest_step`: of the types that were left out on the way.
        """
        own = self._in_own_types(problem, inputs)
        if are_alike(own, wide):

            def both_nearby(seed: int) -> tuple[Any, Any]:
                moved = inputs.unwritten.copied()
                move(moved.inputs(), seed)
                return self._in_own_types(problem, moved), compute(moved)

            steps = [torch.finfo(t.dtype).eps for t in inputs.inputs() if t.is_floating_point()]
            nearby = partial(compute, inputs)
            return Reference(wide, own, nearby, both_nearby, max([*steps, largest_step]))
        doubt = (
            "seems to ignore the types of its inputs: on inputs in float64 it gives something else "
            "altogether"
        )
        return self._own_as_reference(problem, inputs, doubt)

    def _own_as_reference(self, problem: Parameters, inputs: Arguments, doubt: str) -> Reference:
        """Result of the baseline in its own types, for want of another."""
        name = self._experiment.baseline_function().name
        in_own_types = partial(self._in_own_types, problem, inputs)
        own = in_own_types()
        if not are_alike(own, in_own_types()):
            raise NoReferenceError(
                f"the baseline {name} gives another result each time: say what is right with "
                "@….check, or write a reference with @….reference"
            )
        return Reference(own, None, in_own_types, doubt=f"{name} {doubt}")

    def _by_own_reference(
        self, problem: Parameters, inputs: Arguments, nudged_by: int | None = None
    ) -> Any:
        """Result of the user's reference, on nudged copies of the inputs where a seed is given."""
        if nudged_by is not None:
            inputs = inputs.unwritten.copied()
            nudge(inputs.inputs(), nudged_by)
        return replace(inputs, outputs=()).bound(self._functions["reference"], problem)()

    def _in_float64(
        self,
        problem: Parameters,
        inputs: Arguments,
        nudged_by: int | None = None,
        *,
        within: AbstractContextManager[Any] = nullcontext(),  # noqa: B008 - it has no state
    ) -> Any:
        """Result of the baseline on inputs in float64, nudged where a seed is given."""
        wide = inputs.unwritten.widened()
        if nudged_by is not None:
            nudge(wide.inputs(), nudged_by)
        with within:
            return self._by_baseline(problem, wide, _wide_function)

    def own_result(self, problem: Parameters, inputs: Arguments) -> Any:
        """Result of the baseline on copies of inputs, in the types that it gives."""
        return self._in_own_types(self._own_values(problem), inputs)

    def _in_own_types(
        self, problem: Parameters, inputs: Arguments, nudged_by: int | None = None
    ) -> Any:
        """Result of the baseline on copies of the inputs, nudged where a seed is given."""
        copies = inputs.unwritten.copied()
        if nudged_by is not None:
            nudge(copies.inputs(), nudged_by)
        with watch_launch() as tuned:
            result = self._by_baseline(problem, copies)
        self._tuned = tuned or self._tuned
        return result

    def _by_baseline(
        self,
        problem: Parameters,
        inputs: Arguments,
        made: Callable[[Function], Function] = lambda function: function,
    ) -> Any:
        """Result of the baseline on some inputs; `made` of its function is called."""
        baseline = self._experiment.baseline_function()
        parameters, options = next(baseline.combinations())
        call = inputs.bound(made(baseline.function), problem, parameters)
        result = _launch_of(baseline, options, call)()
        return inputs.outputs if result is None else result

    def _variant(self, variant: Parameters) -> tuple[VariantFunction, Parameters]:
        """Function of a variant and its parameters."""
        name = variant.get(FUNCTION)
        if name not in self._experiment.variants:
            names = ", ".join(self._experiment.variants)
            raise ValueError(f"no function {name!r} is marked as a variant; there are: {names}")
        parameters = {key: value for key, value in variant.items() if key != FUNCTION}
        return self._experiment.variants[name], self._own_values(parameters)

    def _own_values(self, parameters: Parameters) -> Parameters:
        """Parameters with the values of the file: tuples, dtypes and functions by their names."""
        return self._experiment.own_values(parameters)

    def _called(self, role: str, named: Parameters) -> Any:
        function = self._functions[role]
        return function(**accepted(function, named))

    def _amount(self, role: str) -> Callable[[Parameters], float | None] | None:
        return partial(self._counted, role) if role in self._functions else None

    def _counted(self, role: str, problem: Parameters) -> float | None:
        """FLOPs or bytes of a problem; raises ValueError for what is no count."""
        count = self._called(role, self._own_values(problem))
        if count is not None and not 0 <= float(count) < math.inf:
            raise ValueError(f"the function of {role} returns {count!r}, which is no count")
        return None if count is None else float(count)


class NoReferenceError(Exception):
    """The baseline gives another result each time."""


class FunctionLaunch:
    """Calls a variant; its first call looks at what the function returns.

    `originals`: copies of the inputs of a variant that writes them. `tuned`: what autotuners tried
    before the first launch, which adds to it.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[], Any],
        inputs: Arguments,
        originals: Arguments | None = None,
        tuned: Sequence[Row] = (),
    ) -> None:
        self._name = name
        self.tuned = tuned
        self._call = call
        self._inputs = inputs
        if originals is not None:
            pairs = list(zip(inputs.inputs(), originals.inputs(), strict=True))
            self.restore = partial(_copy_all, pairs)
        self._launch = self._first
        self.outputs = tuple(map(as_tensor, inputs.outputs)) or None

    def set_up_anew_by(self, set_up: Callable[[], Callable[[], Any]]) -> None:
        """Carry `restart`, which sets the launch up again from the inputs as they are."""

        def restart() -> None:
            self._call = set_up()
            self._launch = self._first

        self.restart = restart

    def __call__(self) -> Any:
        """Launch once."""
        return self._launch()

    def _first(self) -> Any:
        with watch_launch() as tuned:
            result = self._call()
        self.tuned = tuned or self.tuned
        if result is None and not self._inputs.outputs:
            raise TypeError(
                f"{self._name} returns nothing: return the result, or allocate what it writes into "
                "with @….outputs"
            )
        if not hasattr(self, "restore"):
            self._refuse_inputs(result)
        waits = [value for value in leaves(result) if hasattr(value, "block_until_ready")]
        self._launch = self._wait if waits else self._call
        return result

    def _wait(self) -> Any:
        """Launch and wait: JAX launches on streams of its own, which nobody else waits for."""
        result = self._call()
        for value in leaves(result):
            value.block_until_ready()
        return result

    def _refuse_inputs(self, result: Any) -> None:
        """Raise where a result lies in the memory of an input: the check could not poison it."""
        storages = set(map(memory_address, self._inputs.inputs())) - {0}  # 0: no elements
        for value in leaves(result):
            if is_array(value) and memory_address(as_tensor(value)) in storages:
                raise TypeError(
                    f"{self._name} returns memory of an input: allocate what it writes into with "
                    "@….outputs, or mark it in_place=True where it writes its inputs"
                )


def _launch_of(
    entry: VariantFunction, options: VariantOptions, call: Callable[[], Any]
) -> Callable[[], Any]:
    """What launches a variant: the call of its function, or what that returns with setup=True."""
    if not options.setup:
        return call
    launch = call()
    if not callable(launch):
        raise TypeError(f"{entry.name} has setup=True and must return a function")
    return launch  # type: ignore[no-any-return]  # the signature is the user's promise


def _with_gradients(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call for which gradients are on, which they are not otherwise."""

    def with_gradients() -> Any:
        with torch.enable_grad():
            return call()

    return with_gradients


def _without_gradients(leaves: Sequence[torch.Tensor], call: Callable[[], Any]) -> Any:
    for leaf in leaves:
        leaf.grad = None
    return call()


def _copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, original in pairs:
            tensor.copy_(original)


def _require_right(function: Function, inputs: Any, problem: Parameters, outputs: Any) -> None:
    """Raise WrongResultError where a check of the user's gives a reason, False, or asserts."""
    given = (outputs, inputs, dict(problem))
    try:
        reason = function(*given[: len(positional_names(function)) or len(given)])
    except AssertionError as error:
        reason = f"AssertionError: {error}".removesuffix(": ")
    if reason is not None and reason is not True:
        raise WrongResultError(str(reason) if reason else "its check returns False")


SAMPLED = 1 << 16
"""Elements of a result by which it is told whether two are alike."""
MOST_UNLIKE = 0.5
"""Norm of the difference of two results, by that of the second, that types may explain."""


def are_alike(result: Any, other: Any) -> bool:
    """Whether two results could differ by their types alone: no error of rounding is so large."""
    tensors, others = (as_tensors(value, "the result") for value in (result, other))
    return len(tensors) == len(others) and all(map(_is_alike, tensors, others))


def _is_alike(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    if tensor.shape != other.shape:
        return False
    step = max(1, tensor.numel() // SAMPLED)
    wide = torch.complex128 if other.is_complex() or tensor.is_complex() else torch.float64
    first, second = (t.reshape(-1)[::step].to(wide) for t in (tensor, other))
    # Where the narrower types overflow, the result in wider ones does not.
    finite = first.isfinite()
    first, second = first[finite], second[finite]
    if torch.equal(first, second):
        return True
    largest = torch.maximum(first.abs().max(), second.abs().max())  # else squares overflow
    first, second = first / largest, second / largest
    return bool((first - second).norm() <= MOST_UNLIKE * second.norm())


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
    else:
        for _, item in _parts("", value):
            yield from _arrays(item)


def _named_arrays(value: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Arrays in named values and in the containers among them, by name: `x`, `weights[0]`."""
    for name, item in value.items():
        if is_array(item):
            yield name, as_tensor(item)
        else:
            yield from _named_arrays(dict(_parts(name, item)))


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, each with its name: `x[0]`, `x['a']`, `x.a` of a dataclass."""
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"{name}[{number}]", item) for number, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield f"{name}.{part.name}", getattr(value, part.name)


def _copy_of(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a value with its arrays changed."""
    if isinstance(value, torch.nn.Module):
        copied = copy.deepcopy(value)
        return copied.double() if change is _wide_array else copied
    if isinstance(value, Mapping):
        return {key: _copy_of(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_copy_of(item, change) for item in value]
        # Of a named tuple the type takes its items one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = copy.copy(value)
        for part in dataclasses.fields(value):
            object.__setattr__(changed, part.name, _copy_of(getattr(value, part.name), change))
        return changed
    return change(value) if is_array(value) else value


def _with_own_containers(value: Any) -> Any:
    """The value with containers of its own on the same arrays.

    What a variant takes out of one, or puts into it, is so for that variant alone.
    """
    if isinstance(value, tuple):
        items = map(_with_own_containers, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if not is_record and not isinstance(value, dict | list):
        return value
    copied: Any = copy.copy(value)  # of the same class, whatever that adds
    if isinstance(value, dict):
        copied.update({key: _with_own_containers(item) for key, item in value.items()})
    elif isinstance(value, list):
        copied[:] = map(_with_own_containers, value)
    else:
        for part in dataclasses.fields(value):
            object.__setattr__(copied, part.name, _with_own_containers(getattr(value, part.name)))
    return copied


def _wide_function(function: Function) -> Function:
    """A function with the module, or the arrays, that it is made of in float64."""
    module = getattr(function, "__self__", None)
    if isinstance(module, torch.nn.Module):
        return getattr(_copy_of(module, _wide_array), function.__name__)  # type: ignore[no-any-return]
    if isinstance(function, partial):
        values = (_copy_of(value, _wide_array) for value in function.args)
        named = {key: _copy_of(value, _wide_array) for key, value in function.keywords.items()}
        return partial(_wide_function(function.func), *values, **named)
    return _copy_of(function, _wide_array)  # type: ignore[no-any-return]


def _copied_array(array: Any) -> Any:
    if not isinstance(array, torch.Tensor) and hasattr(array, "copy"):  # NumPy, CuPy, JAX
        return array.copy()
    return as_tensor(array).detach().clone().requires_grad_(_needs_gradient(array))


def _needs_gradient(array: Any) -> bool:
    return isinstance(array, torch.Tensor) and array.requires_grad


def _wide_array(array: Any) -> Any:
    """A copy of an array, in float64 (complex128) where it holds real (complex) numbers."""
    if not isinstance(array, torch.Tensor) and hasattr(array, "astype"):  # NumPy, CuPy, JAX
        return array.astype("float64") if array.dtype.kind == "f" else array.copy()
    tensor = as_tensor(array).detach()
    return tensor.to(wide_type(tensor.dtype), copy=True).requires_grad_(_needs_gradient(array))


def _is_rounded(result: Any, inputs: Arguments) -> bool:
    """Whether a result on inputs in float64 is of a narrower floating type."""
    if not any(tensor.is_floating_point() for tensor in inputs.inputs()):
        return False
    tensors = [as_tensor(value) for value in leaves(result) if not isinstance(value, float)]
    return any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors)
