"""Replays of captured calls: inputs like the captured ones, operators, and right results.

A captured folder names operators, and nothing else of it is run.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.references import wide_type
from profiler.runner.arguments import copy_of
from profiler.runner.arrays import extent
from profiler.runner.capture.distributions import draw, is_skewed, uniform_distribution
from profiler.runner.capture.experiment_file import REGISTERED_BY
from profiler.runner.capture.folder import VALUES_FOLDER, CapturedFolderError, read_calls
from profiler.runner.capture.graphs import graph_function
from profiler.runner.capture.launches import triton_kernel_classes
from profiler.runner.capture.signatures import (
    comparable,
    digest,
    has_results,
    tensors_in,
    written_arguments,
)
from profiler.runner.checks.check import (
    distinct_texts,
    family,
    largest_by_magnitude,
    magnitude_gaps,
    parts_of,
)
from profiler.runner.error_text import telling_line
from profiler.runner.phases import CellSettings

_OPERATOR = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)")
CAPTURED, UNIFORM = "captured", "uniform"
"""Integers of inputs: as frequent as the program's, or all equally frequent."""
_NAMED = ("dtype", "layout", "memory_format")
_RELATIVE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Relative error of a result, of its value and of the root mean square of the right result."""
_OF_CUDNN = re.compile("convolution|cudnn")
_TIMES_OFF = 8
"""How many times as far off a compiled graph may be as its operators one by one: both round at
different places. In a backward pass of bfloat16 the error of one was 4.3 times the other's."""
_RELATIVE_NARROW, _RELATIVE_WIDE = 0.2, 1e-7
_NOTHING_TO_COMPARE = (
    "the operator gives no finite number for inputs that are drawn like the captured ones, so "
    "that nothing can be compared: capture with --values"
)


class CapturedCalls:
    """The calls of a captured folder, by their numbers."""

    def __init__(self, folder: str | Path) -> None:
        """`folder`: the captured folder, or a file in it. Raises CapturedFolderError."""
        path = Path(folder)
        self.folder = path.parent if path.is_file() else path
        self.document = read_calls(self.folder)
        self._settings: Mapping[str, Any] = self.document.get("settings", {})
        """Settings of torch in the program by name; none of a trace."""
        self.calls: dict[int, Mapping[str, Any]] = {
            call["id"]: call for call in self.document["calls"]
        }
        _set_as_captured(self._settings)
        self._graphs: dict[tuple[int, bool], Callable[..., Any]] = {}

    def inputs(
        self,
        call: int,
        device: torch.device | None = None,
        seed: int = 0,
        indices: str = CAPTURED,
    ) -> dict[str, Any]:
        """Arguments of a call by name: the recorded values, else drawn by the recorded statistics.

        `indices`: "uniform" for integers of the same ranges that are all as frequent.

        `device`: in place of the captured device; arguments in main memory beside a GPU stay
        there. Raises CapturedFolderError where no library registers the operator.
        """
        captured = self.calls[call]
        if not {"graph", "launch"} & captured.keys():
            self.operator(call)
        arguments = _CallArguments(self, captured, device, seed, indices)
        return {name: arguments.value(value) for name, value in captured["arguments"].items()}

    def operator(self, call: int) -> Any:
        """The operator of a call; raises CapturedFolderError where no library has it."""
        return operator_named(self.calls[call]["operator"])

    def launch(self, call: int, arguments: Mapping[str, Any], *, wide: bool = False) -> list[Any]:
        """New results of the operator of a call, and the arguments that it wrote."""
        if "graph" in self.calls[call]:
            return list(tensors_in(self.graph(call, wide=wide)(arguments["inputs"])))
        return launch(self.operator(call), arguments)

    def graph(self, call: int, *, wide: bool = False) -> Callable[[list[Any]], Any]:
        """Function of the inputs of a compiled graph: its results, and the inputs that it wrote.

        `wide`: with float64 for every type that the graph converts to.
        """
        if (call, wide) not in self._graphs:
            arguments = _CallArguments(self, self.calls[call])

            def plain(captured: Any) -> Any:
                return _widened(arguments.value(captured)) if wide else arguments.value(captured)

            graph = self.calls[call]["graph"]
            self._graphs[call, wide] = graph_function(graph, operator_named, plain)
        function = self._graphs[call, wide]
        written_inputs: list[int] = self.calls[call]["graph"]["written"]

        def run(inputs: list[Any]) -> Any:
            return [function(*inputs), *(inputs[index] for index in written_inputs)]

        return run

    def relaunch(self, kernel: Any, call: int, arguments: Mapping[str, Any]) -> list[Any]:
        """Launch a Triton kernel as it was; returns the tensors that it may have written."""
        while not isinstance(kernel, triton_kernel_classes()):
            kernel = kernel.fn  # what tunes it, or adds arguments: they are captured
        launch = self.calls[call]["launch"]
        kernel[tuple(launch["grid"])](**arguments, **launch["options"])
        return list(tensors_in(arguments))

    def compiled(self, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Launch of a function that is compiled for these arguments alone (`setup=True`)."""
        # By default the ninth signature of one function, and all after it, would run eagerly.
        torch._dynamo.config.recompile_limit = max(64, len(self.calls))
        return partial(torch.compile(function, dynamic=False), *arguments)

    def check(
        self, outputs: Any, inputs: Mapping[str, Any], problem: Mapping[str, Any]
    ) -> str | None:
        """Why outputs are wrong; None where each is right.

        An output is right that is near to the operator in float64, or in its own types: where the
        operator has no float64 version, one with results of other shapes, or several right results
        (indices of equal elements, signs of eigenvectors).
        """
        call, results = problem["call"], list(tensors_in(outputs))
        faults = self._faults(call, results, inputs, wide=True)
        if any(faults):
            narrow = self._faults(call, results, inputs, wide=False)
            faults = [
                fault and own_type_fault
                for fault, own_type_fault in zip(faults, narrow, strict=True)
            ]
        return next(filter(None, faults), None)

    def _faults(
        self, call: int, results: Sequence[torch.Tensor], inputs: Mapping[str, Any], *, wide: bool
    ) -> list[str | None]:
        """Why each result is wrong, against the operator in float64 or in its own types."""
        copied_inputs = _widened(inputs) if wide else copy_of(inputs, torch.clone)
        result_count = max(1, len(results))
        try:
            right_results = self.launch(call, copied_inputs, wide=wide)
        except (RuntimeError, NotImplementedError) as error:
            if not wide:
                raise
            return [str(error)] * result_count
        right_tensors = list(tensors_in(right_results))
        if len(results) != len(right_tensors):
            return [f"{len(results)} results in place of {len(right_tensors)}"] * result_count
        is_drawn = self.recorded_bytes(call) is None and _has_numbers(inputs)
        if is_drawn and _is_without_finite(right_tensors):
            return [_NOTHING_TO_COMPARE] * result_count
        compared = {id(tensor) for tensor in right_tensors}
        if "graph" not in self.calls[call]:
            compared = {id(tensor) for tensor in self.comparable(call, right_results)}
        relative = self._relative(call)
        own_tensors: list[torch.Tensor | None] = [None] * len(right_tensors)
        if wide and ("graph" in self.calls[call] or any(map(_has_gaps, results, right_tensors))):
            own_tensors = [*tensors_in(self.launch(call, copy_of(inputs, torch.clone)))]
        return [
            _fault_of(result, expected, relative, in_own_types)
            if id(expected) in compared
            else None
            for result, expected, in_own_types in zip(
                results, right_tensors, own_tensors, strict=True
            )
        ]

    def comparable(self, call: int, results: Sequence[Any]) -> list[torch.Tensor]:
        """Tensors of the results of `launch`, without tensors in a form of its library."""
        new_tensors = [] if results[0] is None else comparable(self.operator(call), results[0])
        return [*new_tensors, *tensors_in(results[1:])]

    def same_as(self, function: Callable[..., Any]) -> Callable[..., str | None]:
        """A check against the result of a variant for the same inputs, in their own types."""

        def check(
            outputs: Any, inputs: Mapping[str, Any], problem: Mapping[str, Any]
        ) -> str | None:
            right = function(problem["call"], **copy_of(inputs, torch.clone))
            results, right_results = list(tensors_in(outputs)), list(tensors_in(right))
            if len(results) != len(right_results):
                return f"{len(results)} results in place of {len(right_results)}"
            faults = map(_fault_of, results, right_results, repeat(_RELATIVE))
            return next(filter(None, faults), None)

        return check

    def _relative(self, call: int) -> Mapping[torch.dtype, float]:
        """Relative errors allowed in results of a call, by type: TF32 has the digits of float16."""
        in_matmul = self._settings.get("cuda.matmul.fp32_precision") == "tf32"
        in_cudnn = self._settings.get("cudnn.allow_tf32", True)
        uses_tf32 = in_matmul or (in_cudnn and _OF_CUDNN.search(self._operators(call)))
        if self.document["device"] == "cuda" and uses_tf32:
            return {**_RELATIVE, torch.float32: _RELATIVE[torch.float16]}
        return _RELATIVE

    def _operators(self, call: int) -> str:
        captured = self.calls[call]
        nodes = captured.get("graph", {}).get("nodes", ())
        return " ".join([captured["operator"], *(node["operator"] for node in nodes)])

    def recorded_bytes(self, call: int) -> list[torch.Tensor] | None:
        """Bytes of the storages of a call; None where values were not kept."""
        file = self.folder / VALUES_FOLDER / f"{call}.pt"
        if not file.is_file():
            return None
        return list(torch.load(file, map_location="cpu", weights_only=True))


def _set_as_captured(captured: Mapping[str, Any]) -> None:
    """Make settings of torch as the program had them, but no more threads than there are."""
    settings = CellSettings()
    values = settings.read_values()
    for name in values.keys() & captured.keys():
        value = captured[name]
        values[name] = getattr(torch, value["dtype"]) if isinstance(value, Mapping) else value
    values["num_threads"] = min(values["num_threads"], torch.get_num_threads())
    settings.write_values(values)


def operator_named(name: str) -> Any:
    """An operator, as `aten.mm.default`; raises CapturedFolderError where no library has it."""
    if (parts := _OPERATOR.fullmatch(name)) is None:
        raise CapturedFolderError(f"{name!r} is no name of an operator")
    operator: Any = torch.ops
    if parts[1] in REGISTERED_BY:
        importlib.import_module(REGISTERED_BY[parts[1]])
    try:
        for part in parts.groups():
            operator = getattr(operator, part)
    except AttributeError:
        raise CapturedFolderError(
            f"torch has no operator {name}: import the module that registers it in experiment.py"
        ) from None
    return operator


def launch(operator: Any, arguments: Mapping[str, Any]) -> list[Any]:
    """Results of an operator that are new, None without any, and the arguments that it wrote."""
    schema = operator._schema.arguments
    positional = [arguments[argument.name] for argument in schema if not argument.kwarg_only]
    keywords = {
        argument.name: arguments[argument.name] for argument in schema if argument.kwarg_only
    }
    result = operator(*positional, **keywords)
    new_result = result if has_results(operator) else None
    return [new_result, *written_arguments(operator, arguments).values()]


@dataclass(frozen=True)
class ReplayOutcome:
    """Outcome of the replay of a call."""

    call: int
    operator: str
    count: int
    failure: str = ""
    same_bits: bool | None = None
    """Whether it gave the recorded bits; None where none were recorded, or the call is random."""


def replay_all(folder: str | Path) -> list[ReplayOutcome]:
    """Replay every call of a captured folder once, without kernels of the program's modules."""
    calls = CapturedCalls(folder)
    return [
        _replay_outcome(calls, number, call)
        for number, call in calls.calls.items()
        if "launch" not in call
    ]


def _replay_outcome(calls: CapturedCalls, number: int, call: Mapping[str, Any]) -> ReplayOutcome:
    of_call = (number, call["operator"], call["count"])
    try:
        with torch.no_grad():
            results = calls.launch(number, calls.inputs(number))
    except Exception as error:
        failure = f"{type(error).__name__}: {telling_line(str(error))}"
        return ReplayOutcome(*of_call, failure=failure)
    if "digest" not in call or call["random"]:
        return ReplayOutcome(*of_call)
    compared = results if "graph" in call else calls.comparable(number, results)
    return ReplayOutcome(*of_call, same_bits=digest(compared) == call["digest"])


class _CallArguments:
    """Makes the arguments of one call."""

    def __init__(
        self,
        calls: CapturedCalls,
        call: Mapping[str, Any],
        device: torch.device | None = None,
        seed: int = 0,
        indices: str = CAPTURED,
    ) -> None:
        self._is_uniform = indices == UNIFORM
        self._captured_on = calls.document["device"]
        self._device = device or torch.device(self._captured_on)
        self._generator = torch.Generator(self._device).manual_seed(seed)
        self._in_memory = torch.Generator("cpu").manual_seed(seed)
        self._storages = [
            torch.zeros(storage["bytes"], dtype=torch.uint8, device=self._place(storage["device"]))
            for storage in call["storages"]
        ]
        recorded = calls.recorded_bytes(call["id"])
        self._drawn = recorded is None
        for storage, values in zip(self._storages, recorded or [], strict=False):
            storage.copy_(values)

    def _place(self, captured: str) -> torch.device:
        return self._device if captured == self._captured_on else torch.device(captured)

    def value(self, captured: Any) -> Any:
        """An argument in the form that an operator takes."""
        if isinstance(captured, list):
            return [self.value(item) for item in captured]
        if not isinstance(captured, Mapping):
            return captured
        ((kind, value),) = captured.items()
        makers: Mapping[str, Callable[[Any], Any]] = {
            "tensor": self._tensor,
            "device": self._place,
            "float": float,
            "complex": lambda parts: complex(*parts),
            **dict.fromkeys(_NAMED, partial(getattr, torch)),
        }
        if kind not in makers:
            raise CapturedFolderError(f"{kind!r} is no kind of argument")
        return makers[kind](value)

    def _tensor(self, captured: Mapping[str, Any]) -> torch.Tensor:
        dtype = getattr(torch, captured["dtype"])
        storage = self._storages[captured["storage"]]
        view = torch.empty(0, dtype=dtype, device=storage.device)
        place = (storage.untyped_storage(), captured["offset"])
        tensor = view.set_(*place, captured["shape"], captured["stride"])
        like = captured["values"]
        is_replaced = self._is_uniform and is_skewed(captured)
        if (self._drawn or is_replaced) and (count := extent(tensor.shape, tensor.stride())):
            flat = torch.empty(0, dtype=dtype, device=storage.device).set_(*place, (count,), (1,))
            on_device = storage.device.type == self._device.type
            generator = self._generator if on_device else self._in_memory
            like = uniform_distribution(like, count) if is_replaced else like
            flat.copy_(draw(like, count, dtype, generator))
        return tensor


def _widened(value: Any) -> Any:
    """Copies of arguments with every real and complex type in its widest."""
    if isinstance(value, torch.Tensor):
        return value.to(wide_type(value.dtype), copy=True)
    if isinstance(value, torch.dtype):
        return wide_type(value)
    if isinstance(value, list):
        return [_widened(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _widened(item) for name, item in value.items()}
    return value


def _has_numbers(value: Any) -> bool:
    """Whether a value has floating-point or complex tensors, which are drawn."""
    return any(t.is_floating_point() or t.is_complex() for t in tensors_in(value))


def _is_without_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all elements of floating-point and complex tensors are infinite or NaN."""
    with_numbers = [tensor for tensor in tensors if _has_numbers(tensor) and tensor.numel()]
    return bool(with_numbers) and not any(bool(t.isfinite().any()) for t in with_numbers)


def _has_gaps(result: torch.Tensor, right_result: torch.Tensor) -> bool:
    """Whether some elements are so much larger than others that both are compared apart."""
    if not right_result.is_floating_point():
        return False
    return len(magnitude_gaps(right_result, 1 / _relative_of(result, _RELATIVE))) > 0


def _fault_of(
    result: torch.Tensor,
    right_result: torch.Tensor,
    by_type: Mapping[torch.dtype, float],
    own_result: torch.Tensor | None = None,
) -> str | None:
    """Why a result is wrong, or None. `own_result`: right, too, in the operator's own types.

    Its errors are allowed some times over: the type of a result does not show a type with fewer
    digits inside a graph.
    """
    if result.shape != right_result.shape:
        return f"a result of {tuple(result.shape)} in place of {tuple(right_result.shape)}"
    if family(result.dtype) != family(right_result.dtype):
        return f"a result of {result.dtype}, where {right_result.dtype} is right"
    result, right_result = _of_parts(result), _of_parts(right_result)
    if not right_result.is_floating_point():
        return _count_of_wrong(result != right_result, result, right_result)
    relative = _relative_of(result, by_type)
    got, expected = result.double(), right_result.double()
    is_finite = expected.isfinite() & got.isfinite()
    is_equal = (got == expected) | (got.isnan() & expected.isnan())
    magnitudes, gaps = expected.abs(), magnitude_gaps(expected, 1 / relative)
    part = parts_of(magnitudes, gaps)
    allowed = relative * (magnitudes + _root_mean_squares(magnitudes, gaps)[part])
    if own_result is not None:
        own_errors = (_of_parts(own_result).double() - expected).abs()
        largest = largest_by_magnitude(gaps, magnitudes, own_errors)
        allowed = allowed.maximum(_TIMES_OFF * largest[part])
    is_near = (got - expected).abs() <= allowed
    return _count_of_wrong(~(is_equal | (is_finite & is_near)), got, expected)


def _relative_of(result: torch.Tensor, by_type: Mapping[torch.dtype, float]) -> float:
    narrow = result.element_size() == 1
    return _RELATIVE_NARROW if narrow else by_type.get(result.dtype, _RELATIVE_WIDE)


def _root_mean_squares(magnitudes: torch.Tensor, gaps: torch.Tensor) -> torch.Tensor:
    """Root mean square of the finite elements below, between and above gaps.

    Of elements as large as a mask's, for one, the small ones would be no part.
    """
    part, largest = parts_of(magnitudes, gaps), largest_by_magnitude(gaps, *[magnitudes] * 2)
    shares = (magnitudes / largest[part]).nan_to_num(0.0, 0.0)  # squares of magnitudes overflow
    squares = torch.zeros_like(largest).scatter_add(0, part.flatten(), shares.square().flatten())
    counts = torch.bincount(part[magnitudes.isfinite()], minlength=len(largest))
    return largest * (squares / counts.clamp(min=1)).sqrt()


def _count_of_wrong(
    is_wrong: torch.Tensor, result: torch.Tensor, right_result: torch.Tensor
) -> str | None:
    """Number of wrong elements, with the first; None for none."""
    count = int(is_wrong.sum())
    if not count:
        return None
    first = tuple(is_wrong.nonzero()[0].tolist())
    got, expected = distinct_texts(result[first].item(), right_result[first].item())
    return (
        f"{count} of {is_wrong.numel()} elements are wrong; "
        f"first at {list(first)}: got {got}, expected {expected}"
    )


def _of_parts(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of real and imaginary parts where it is of complex numbers."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
