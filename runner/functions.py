"""The functions of a `profiler.Experiment` as a workload: arguments by name, any arrays."""

from __future__ import annotations

import inspect
import itertools
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from numbers import Number
from pathlib import Path
from types import CoroutineType, GeneratorType
from typing import Any

import torch

from profiler.kernels.autotuned import Row, watch_launch
from profiler.kernels.references import Reference, WithoutNarrowTypes, move, nudge
from profiler.runner.arguments import Arguments, Parameters, copy_of, named_arrays, wide_array
from profiler.runner.arrays import as_tensor, is_array, leaves, memory_address
from profiler.runner.checks.check import (
    MOST_ROUNDINGS,
    TF32_STEP,
    WrongResultError,
    as_tensors,
    count_wrong,
    tf32_roundings,
    worst_error,
)
from profiler.runner.checks.rounding import is_rounding_alone
from profiler.runner.experiment import (
    FUNCTION,
    Experiment,
    Function,
    VariantFunction,
    accepted_arguments,
    call_fault,
    positional_names,
)
from profiler.runner.failures import describe
from profiler.runner.phases import without_tf32
from profiler.runner.timing import Launch
from profiler.runner.variant_options import ExperimentError, VariantOptions

_VANISHED = 2.0**-20
"""Size of a result in float64, by that in its own types, where terms cancel: float64 has 2^29 times
as many steps as float32."""
_EXPLAINED_BY_FLOAT32 = MOST_ROUNDINGS * torch.finfo(torch.float32).eps / TF32_STEP
"""Error of a baseline that float32 explains, in roundings of the largest element to TF32."""
_TF32_ERROR = 16.0
"""Times the error without TF32 that a result is off by at least where TF32 was used: its step is
8,192 times that of float32."""


class FunctionWorkload:
    """The functions of a workload (docs/architecture.md), made from an experiment's functions."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._functions = experiment.functions
        self._tuned: list[Row] = []
        """Autotuned configurations of the baseline, which is tuned when it makes the reference."""
        self._refusals: dict[str, str] = {}
        """Why the baseline takes no float64, by problem: it is not asked for each of its inputs."""
        self._needs_help: set[str] = set()
        """Problems of which it makes no result in float64 while narrower types are left in it."""
        self.flops = self._amount_function("flops")
        self.bytes = self._amount_function("bytes")

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> Arguments:
        """Arguments of the variants; what torch allocates lies on the device by default."""
        random.seed(seed)  # the runner seeds torch's generators
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        values = {**self._file_values(problem), "device": device, "seed": seed}
        with device:
            inputs = self._call_role("inputs", values)
            if isinstance(inputs, GeneratorType):
                inputs = tuple(inputs)
            outputs = self._call_role("outputs", values) if "outputs" in self._functions else ()
        fault = "returns nothing" if inputs is None else ""
        if isinstance(inputs, CoroutineType):
            inputs.close()
            fault = "is `async def`, and not awaited"
        if fault:
            name = getattr(self._functions["inputs"], "__name__", "inputs")
            raise TypeError(f"{name} {fault}: return the inputs as an array, a tuple or a mapping")
        by_name = dict(inputs) if isinstance(inputs, Mapping) else {}
        positional = () if isinstance(inputs, Mapping) else _as_tuple(inputs)
        return Arguments(positional, by_name, _as_tuple(outputs))

    def prepare(
        self, variant: Parameters, problem: Parameters, inputs: Arguments, library: Path | None
    ) -> Launch:
        """Launch of a variant."""
        del library  # nothing is built for functions
        entry, parameters = self._variant(variant)
        problem, options = self._file_values(problem), entry.options_of(parameters)
        originals = inputs.originals if options.in_place else None
        bound = inputs.bind(entry.function, problem, parameters)

        def set_up() -> Callable[[], Any]:
            call = _launch_of(entry, options, bound)
            if options.setup:  # its function was bound with gradients, what it returned was not
                call = inputs.with_gradients(call)
            return inputs.with_fresh_gradients(call)

        with watch_launch() as tuned:
            call = set_up()
        if entry is self._experiment.baseline_function():
            tuned += self._tuned
        launch = FunctionLaunch(entry.name, call, inputs, originals, tuned)
        if options.setup and inputs.have_gradients:  # the graph of its forward pass is made there
            launch.add_restart(set_up)
        return launch

    def is_own_reference(self, variant: Parameters) -> bool:
        """Whether a variant is the baseline, whose result in float64 is the reference."""
        entry, parameters = self._variant(variant)
        baseline = self._experiment.baseline_function()
        first, _ = next(baseline.combinations())
        return "reference" not in self._functions and entry is baseline and parameters == first

    def named_inputs(self, inputs: Arguments) -> dict[str, torch.Tensor]:
        """Tensors of the inputs by the baseline's names for them."""
        names = positional_names(self._experiment.baseline_function().function)
        first = {
            names[number] if number < len(names) else f"input {number}": value
            for number, value in enumerate(inputs.positional)
        }
        return dict(named_arrays({**first, **inputs.by_name}))

    def own_check(
        self, variant: Parameters, problem: Parameters, inputs: Arguments
    ) -> Callable[[Any], None] | None:
        """Check of a variant, or of the experiment; None for a comparison with the reference."""
        entry, parameters = self._variant(variant)
        options = entry.options_of(parameters)
        inputs = inputs.originals if options.in_place else inputs
        return self.check_of(problem, inputs, options.check)

    def check_of(
        self, problem: Parameters, inputs: Arguments, variant_check: Function | None = None
    ) -> Callable[[Any], None] | None:
        """The variant's check, or the experiment's; None for a comparison with the reference."""
        function = variant_check or self._functions.get("check")
        if function is None:
            return None
        return partial(_require_right, function, inputs.user_inputs, self._file_values(problem))

    def reference(self, problem: Parameters, inputs: Arguments) -> Reference:
        """Right result: of the user's reference, or of the baseline on inputs in float64.

        In its own types, with a doubt, where the baseline takes no float64, seems to ignore it, or
        has no room for it.
        """
        problem = self._file_values(problem)
        if "reference" in self._functions:
            of_user = partial(self._by_own_reference, problem, inputs)
            return Reference(of_user(), None, of_user)
        with suppress(torch.OutOfMemoryError):  # and what was made until then is freed
            return self._reference_in_float64(problem, inputs)
        doubt = "needs more memory in float64 than the GPU has"
        return self._own_as_reference(problem, inputs, doubt)

    def _reference_in_float64(self, problem: Parameters, inputs: Arguments) -> Reference:
        refusal = self._refusals.get(repr(problem))
        if refusal is not None:
            return self._own_as_reference(problem, inputs, refusal)
        narrow = WithoutNarrowTypes()
        in_float64 = partial(self._in_float64, problem)
        without_narrow = partial(in_float64, within=narrow)
        ways = (in_float64, without_narrow)
        for compute in ways[repr(problem) in self._needs_help :]:
            try:
                wide = compute(inputs)
            except (torch.OutOfMemoryError, MemoryError):
                raise
            except Exception as error:
                doubt = f"takes no inputs in float64 ({describe(error, Path())})"
            else:
                if compute is without_narrow or not _is_rounded(wide, inputs):
                    return self._wide_reference(problem, inputs, compute, wide, narrow.largest_step)
            self._needs_help.add(repr(problem))
        self._refusals[repr(problem)] = doubt
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
        """Reference in float64, or in the baseline's own types where types explain no difference.

        `compute` made `wide`; `largest_step`: of the types that were left out on the way.
        """
        own_result = self._own_result_without_chance(problem, inputs)
        if are_alike(own_result, wide, self._cancellation(problem, inputs, own_result, wide)):

            def both_nearby(seed: int) -> tuple[Any, Any]:
                nudged = inputs.unwritten.copied()
                move(nudged.inputs(), seed)
                return self._in_own_types(problem, nudged), compute(nudged)

            steps = [torch.finfo(t.dtype).eps for t in inputs.inputs() if t.is_floating_point()]
            if self._rounds_to_tf32(problem, inputs, own_result, wide):
                steps.append(TF32_STEP)
            return Reference(
                wide, own_result, partial(compute, inputs), both_nearby, max([*steps, largest_step])
            )
        doubt = (
            "seems to ignore the types of its inputs: on inputs in float64 it gives something else "
            "altogether"
        )
        return self._own_as_reference(problem, inputs, doubt)

    def _cancellation(
        self, problem: Parameters, inputs: Arguments, own_result: Any, wide: Any
    ) -> Callable[[int], bool]:
        """Whether the terms of an output, by its number, cancel: in float64 nearly nothing is left.

        What is left in its own types moves with the inputs by as much as itself, other than the
        result of a kernel that wrote nothing because it takes no float64.
        """
        nudged = cache(partial(self._in_own_types, problem, inputs, nudged_by=0))

        def cancels(number: int) -> bool:
            own_tensor = as_tensors(own_result, "the result")[number]
            wide_tensor = as_tensors(wide, "the result")[number]
            if not (own_tensor.is_floating_point() and wide_tensor.is_floating_point()):
                return False
            own_wide = own_tensor.double()
            if not float(wide_tensor.double().norm()) <= _VANISHED * float(own_wide.norm()):
                return False
            moved = as_tensors(nudged(), "the result")[number].double()
            return moved.shape == own_wide.shape and is_rounding_alone(
                (moved - own_wide).abs(), own_wide
            )

        return cancels

    def _rounds_to_tf32(
        self, problem: Parameters, inputs: Arguments, own_result: Any, wide: Any
    ) -> bool:
        """Whether TF32 explains errors of the baseline that float32 does not: it is tried without.

        torch's convolutions and RNNs round float32 to TF32 by default; no type on the way shows it.
        """
        own_tensors, expected = as_tensors(own_result, "the result"), as_tensors(wide, "the result")
        errors = {
            number: worst_error(own_tensor, expected[number])
            for number, own_tensor in enumerate(own_tensors)
            if own_tensor.dtype.to_real() == torch.float32
        }
        unexplained_errors = {
            number: error
            for number, error in errors.items()
            if tf32_roundings(error, expected[number]) > _EXPLAINED_BY_FLOAT32
        }
        if not unexplained_errors:
            return False
        with without_tf32():
            tensors = as_tensors(self._in_own_types(problem, inputs), "the result")
        return all(
            _TF32_ERROR * worst_error(tensors[number], expected[number]) < error
            for number, error in unexplained_errors.items()
        )

    def _own_result_without_chance(self, problem: Parameters, inputs: Arguments) -> Any:
        """Result of the baseline; ExperimentError where it depends on random numbers it draws."""
        states = _random_states()
        result = self._in_own_types(problem, inputs)
        if all(map(torch.equal, states, _random_states())):
            return result
        tensors, others = (
            as_tensors(value, "the result")
            for value in (result, self._in_own_types(problem, inputs))
        )
        if any(
            tensor.shape != other.shape or count_wrong(tensor, other, 1.0)
            for tensor, other in zip(tensors, others, strict=True)
        ):
            raise ExperimentError(
                f"the baseline {self._experiment.baseline_function().name} draws random numbers, "
                "and gives another result each time: draw them in @….inputs, or say what is right "
                "with @….check"
            )
        return result

    def _own_as_reference(self, problem: Parameters, inputs: Arguments, doubt: str) -> Reference:
        """Reference that is the baseline's result in its own types, without a better one."""
        name = self._experiment.baseline_function().name
        in_own_types = partial(self._in_own_types, problem, inputs)
        own_result = in_own_types()
        if not are_alike(own_result, in_own_types()):
            raise ExperimentError(
                f"the baseline {name} gives another result each time: say what is right with "
                "@….check, or write a reference with @….reference"
            )
        return Reference(own_result, None, in_own_types, doubt=f"{name} {doubt}")

    def _by_own_reference(
        self, problem: Parameters, inputs: Arguments, nudged_by: int | None = None
    ) -> Any:
        """Result of the user's reference, on nudged copies of the inputs where a seed is given."""
        if nudged_by is not None:
            inputs = inputs.unwritten.copied()
            nudge(inputs.inputs(), nudged_by)
        return replace(inputs, outputs=()).bind(self._functions["reference"], problem)()

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
        return self._in_own_types(self._file_values(problem), inputs)

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
        convert: Callable[[Function], Function] = lambda function: function,
    ) -> Any:
        """Result of the baseline on some inputs; `convert` gives the function that is called."""
        baseline = self._experiment.baseline_function()
        parameters, options = next(baseline.combinations())
        call = inputs.bind(convert(baseline.function), problem, parameters)
        result = _launch_of(baseline, options, call)()
        return inputs.outputs if result is None else result

    def _variant(self, variant: Parameters) -> tuple[VariantFunction, Parameters]:
        """Function of a variant and its parameters."""
        name = variant.get(FUNCTION)
        if name not in self._experiment.variants:
            names = ", ".join(self._experiment.variants)
            raise ValueError(f"no function {name!r} is marked as a variant; there are: {names}")
        parameters = {key: value for key, value in variant.items() if key != FUNCTION}
        return self._experiment.variants[name], self._file_values(parameters)

    def _file_values(self, parameters: Parameters) -> Parameters:
        """Parameters with the values of the file: tuples, dtypes and functions by their names."""
        return self._experiment.file_values(parameters)

    def _call_role(self, role: str, values: Parameters) -> Any:
        function = self._functions[role]
        return function(**accepted_arguments(function, values))

    def _amount_function(self, role: str) -> Callable[[Parameters], float | None] | None:
        return partial(self._count_of, role) if role in self._functions else None

    def _count_of(self, role: str, problem: Parameters) -> float | None:
        """FLOPs or bytes of a problem; raises ValueError for a value that is no count."""
        count = self._call_role(role, self._file_values(problem))
        if count is not None and not 0 <= float(count) < math.inf:
            raise ValueError(f"the function of {role} returns {count!r}, which is no count")
        return None if count is None else float(count)


class FunctionLaunch:
    """Calls a variant; its first call examines the result of the function.

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
        self._launch = self._first_call
        self.on_own_streams = False
        """Whether its framework launches on its own streams: it waits for nothing on torch's."""
        self.outputs = tuple(map(as_tensor, inputs.outputs)) or None

    def add_restart(self, set_up: Callable[[], Callable[[], Any]]) -> None:
        """Add a method `restart`, which sets the launch up again from the inputs as they are."""

        def restart() -> None:
            self._call = set_up()
            self._launch = self._first_call

        self.restart = restart

    def __call__(self) -> Any:
        """Launch once."""
        return self._launch()

    def _first_call(self) -> Any:
        with watch_launch() as tuned:
            result = self._call()
        self.tuned = tuned or self.tuned
        if result is None and not self._inputs.outputs:
            remedy = (
                "return the inputs that it writes"
                if hasattr(self, "restore")
                else "return the result, or allocate what it writes into with @….outputs"
            )
            raise TypeError(f"{self._name} returns nothing: {remedy}")
        if not hasattr(self, "restore"):
            self._refuse_inputs(result)
        self.on_own_streams = any(hasattr(value, "block_until_ready") for value in leaves(result))
        self._launch = self._launch_and_wait if self.on_own_streams else self._call
        return result

    def _launch_and_wait(self) -> Any:
        """Launch and wait: JAX launches on its own streams, which torch does not wait for."""
        result = self._call()
        for value in leaves(result):
            value.block_until_ready()
        return result

    def _refuse_inputs(self, result: Any) -> None:
        """Raise where a result lies in the memory of an input: the check could not poison it."""
        storages = set(map(memory_address, self._inputs.inputs())) - {0}  # 0: no elements
        for number, value in enumerate(leaves(result)):
            if is_array(value) and memory_address(as_tensor(value)) in storages:
                raise TypeError(
                    f"{self._name} returns memory of an input as output {number}: leave out what "
                    "it only passes on, allocate what it writes into with @….outputs, or mark it "
                    "in_place=True where it writes its inputs"
                )


def _launch_of(
    entry: VariantFunction, options: VariantOptions, call: Callable[[], Any]
) -> Callable[[], Any]:
    """Launch of a variant: the call of its function, or the function it returns with setup=True."""
    if not options.setup:
        return call
    launch = call()
    if not callable(launch):
        raise TypeError(f"{entry.name} has setup=True and must return a function")
    if fault := call_fault(launch):
        raise TypeError(
            f"{entry.name} has setup=True, and the function that it returns is called without "
            f"arguments: {fault}"
        )
    return launch  # type: ignore[no-any-return]  # the signature is the user's promise


def _copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, original in pairs:
            tensor.copy_(original)


def _require_right(function: Function, inputs: Any, problem: Parameters, outputs: Any) -> None:
    """Raise WrongResultError where a check of the user's gives a reason, False, or asserts."""
    arguments = (outputs, inputs, dict(problem))
    try:
        answer = function(*arguments[: _count_taken(function, len(arguments))])
    except AssertionError as error:
        answer = f"AssertionError: {error}".removesuffix(": ")
    reason = _reason_of(answer)
    if reason is not None:
        raise WrongResultError(reason)


def _count_taken(check: Function, most: int) -> int:
    """Number of positional arguments that a check takes: none for what has a number as default.

    So a bound of its own (`tolerance=1e-3`) is not taken for the problem.
    """
    names = positional_names(check)
    if not names:
        return most
    parameters = inspect.signature(check).parameters
    taken = itertools.takewhile(
        lambda name: name not in parameters or not isinstance(parameters[name].default, Number),
        names[:most],
    )
    return len(list(taken))


def _reason_of(answer: Any) -> str | None:
    """Why a result is wrong by the answer of a check; None where it is right.

    Truth values may be of any library. Raises TypeError for numbers, arrays and what is empty,
    which do not say whether the result is right.
    """
    if hasattr(answer, "dtype") and hasattr(answer, "shape"):
        is_truth = str(answer.dtype).endswith("bool") and math.prod(answer.shape) == 1
        unclear_text = f"an array of shape {tuple(answer.shape)}" if answer.shape else f"{answer}"
    else:
        is_truth = answer is None or isinstance(answer, bool)
        unclear_text = repr(answer)
        if answer and not isinstance(answer, Number):
            return str(answer)
    if not is_truth:
        raise TypeError(
            f"the check returns {unclear_text}: it must return nothing or True where the result is "
            "right, else why it is wrong"
        )
    return None if answer is None or answer else "its check returns False"


SAMPLED = 1 << 16
"""Number of elements by which two results are compared for likeness."""
MOST_UNLIKE = 0.5
"""Largest norm of the difference of two results, by the second's norm, that types explain."""


def are_alike(
    result: Any, other_result: Any, cancels: Callable[[int], bool] = lambda _: False
) -> bool:
    """Whether two results could differ by their types alone: no error of rounding is so large.

    Or in outputs alone that are nothing but rounding, by their numbers (`cancels`).
    """
    tensors, other_tensors = (as_tensors(value, "the result") for value in (result, other_result))
    return len(tensors) == len(other_tensors) and all(
        first.shape == second.shape and (_is_alike(first, second) or cancels(number))
        for number, (first, second) in enumerate(zip(tensors, other_tensors, strict=True))
    )


def _is_alike(tensor: torch.Tensor, other_tensor: torch.Tensor) -> bool:
    step = max(1, tensor.numel() // SAMPLED)
    wide = torch.complex128 if other_tensor.is_complex() or tensor.is_complex() else torch.float64
    first, second = (t.reshape(-1)[::step].to(wide) for t in (tensor, other_tensor))
    # Where the narrower types overflow, the result in wider types does not.
    finite = first.isfinite()
    first, second = first[finite], second[finite]
    if torch.equal(first, second):
        return True
    largest = torch.maximum(first.abs().max(), second.abs().max())  # else squares overflow
    first, second = first / largest, second / largest
    return bool((first - second).norm() <= MOST_UNLIKE * second.norm())


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _random_states() -> list[torch.Tensor]:
    """States of torch's generators of random numbers."""
    is_initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    of_gpu = [torch.cuda.get_rng_state()] if is_initialized else []
    return [torch.get_rng_state(), *of_gpu]


def _wide_function(function: Function) -> Function:
    """A function with its module, or its bound arrays, in float64."""
    module = getattr(function, "__self__", None)
    if isinstance(module, torch.nn.Module):
        return getattr(copy_of(module, wide_array), function.__name__)  # type: ignore[no-any-return]
    if isinstance(function, partial):
        values = (copy_of(value, wide_array) for value in function.args)
        keywords = {key: copy_of(value, wide_array) for key, value in function.keywords.items()}
        return partial(_wide_function(function.func), *values, **keywords)
    return copy_of(function, wide_array)  # type: ignore[no-any-return]


def _is_rounded(result: Any, inputs: Arguments) -> bool:
    """Whether a result on inputs in float64 is of a narrower floating type."""
    if not any(tensor.is_floating_point() for tensor in inputs.inputs()):
        return False
    tensors = [as_tensor(value) for value in leaves(result) if is_array(value)]
    return any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors)
