"""Workload of a `.cu` file that an experiment file describes (docs/workloads.md)."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.arithmetic import Arithmetic, Value
from profiler.kernels.cuda_file.description import (
    CudaFile,
    Fill,
    Params,
    TensorArgument,
    read_description,
)
from profiler.kernels.cuda_file.launch import CudaLaunch
from profiler.kernels.cuda_file.torch_expression import compiled
from profiler.kernels.cuda_file.torch_syntax import parse_torch, split_function
from profiler.kernels.references import Reference, nudge, wide_type

Tensors = dict[str, torch.Tensor]
Launch = Callable[[], Any]


def described(document: Mapping[str, Any]) -> CudaFileWorkload:
    """Workload of a description in JSON, from the job of a session."""
    return CudaFileWorkload(read_description(document))


class CudaFileWorkload:
    """A workload made from a description."""

    def __init__(self, description: CudaFile) -> None:
        self._description = description
        self._scratch_tensors: dict[tuple[str, tuple[int, ...], str], torch.Tensor] = {}
        """Memory between launches of variants of one problem, by name, shape and dtype."""

    def make_inputs(self, problem: Params, device: torch.device, seed: int) -> Tensors:
        """All tensors with outputs, shared by the variants because they may be large."""
        self._scratch_tensors.clear()
        return make_tensors(self._description, problem, device, seed)

    def named_inputs(self, inputs: Tensors) -> Tensors:
        """Tensors that no kernel may write."""
        tensors = self._description.tensors
        return {t.name: inputs[t.name] for t in tensors if not t.output and not t.scratch}

    def reference(self, problem: Params, inputs: Tensors) -> Any:
        """Result of the reference: the expression in float64, or the user's function."""
        is_function = split_function(self._description.reference) is not None
        compute = self._user_function_result if is_function else self._expression_in_float64
        evaluate = partial(compute, problem, inputs)
        return Reference(evaluate(None), None, evaluate)

    def _user_function_result(self, problem: Params, inputs: Tensors, nudged_by: int | None) -> Any:
        """Result of the user's function, on nudged tensors where a seed is given."""
        tensors = readable(self._description, inputs)
        if nudged_by is not None:
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}
            nudge(tensors.values(), nudged_by)
        return self._user_function(self._description.reference)(dict(problem), tensors)

    def _expression_in_float64(
        self, problem: Params, inputs: Tensors, nudged_by: int | None
    ) -> Any:
        """Result of the reference's expression in float64, on tensors nudged by a seed if any."""
        syntax = parse_torch(self._description.reference)
        tensors = in_higher_precision(readable(self._description, inputs), syntax.names)
        if nudged_by is not None:
            nudge(tensors.values(), nudged_by)
        return compiled(syntax)({**self._numbers({}, problem), **tensors})

    def prepare(
        self, variant: Params, problem: Params, inputs: Tensors, library: Path | None
    ) -> Launch:
        """Launch of one variant: a torch expression, or kernels of the built library."""
        if "torch" in variant:
            return self._torch_launch(variant, problem, inputs)
        device = next(iter(inputs.values())).device
        if device.type != "cuda":
            raise RuntimeError(f"a CUDA kernel cannot run on {device.type}")
        if library is None:
            raise RuntimeError("the kernel needs its built library, and got none")

        def stream() -> int:
            return torch.cuda.current_stream(device).cuda_stream

        return self.kernel_launch(variant, problem, inputs, library, stream)

    def kernel_launch(
        self,
        variant: Params,
        problem: Params,
        inputs: Tensors,
        library: Path,
        stream: Callable[[], int],
    ) -> Launch:
        """Launch of the kernels of a variant, one after another, on a stream."""
        description = self._description
        steps, device = description.steps(variant), next(iter(inputs.values())).device
        used_names = {name for step in steps for name in description.leaves(step)}
        of_scratch = [t for t in description.tensors if t.scratch and t.name in used_names]
        scratch = {t.name: self._scratch(t, {**variant, **problem}, device) for t in of_scratch}
        tensors = {**inputs, **scratch}
        launches = [
            CudaLaunch(
                library,
                number,
                description.launch_shape(step, problem),
                self._arguments({**step, **problem}, tensors),
                stream,
            )
            for number, step in enumerate(steps)
        ]
        outputs = [tensor for tensor in description.tensors if tensor.output]
        filled = [t for t in (*outputs, *of_scratch) if not t.is_read]
        return OutputLaunch(
            launches,
            outputs=tuple(inputs[tensor.name] for tensor in outputs),
            memory_behind={t.name: memory_behind(tensors[t.name]) for t in (*outputs, *of_scratch)},
            filled=[(tensors[t.name], t.fill.constant or 0) for t in filled if t.fill is not None],
            copied=[(inputs[t.name], inputs[filled_name(t.name)]) for t in outputs if t.is_read],
        )

    def _arguments(self, values: Params, tensors: Tensors) -> list[tuple[str, Any]]:
        """Name and value of each argument of a kernel; a struct has a list of its fields."""
        description = self._description

        def value_of(name: str) -> torch.Tensor | int | float:
            if name not in tensors:
                return description.scalar(name).number(values)
            tensor = description.tensor(name)
            has_pointers = tensor is not None and tensor.pointers
            return _addresses(tensors[name]) if has_pointers else tensors[name]

        return [
            (
                name,
                [(f, value_of(value)) for f, value in description.structs[name].items()]
                if name in description.structs
                else value_of(name),
            )
            for name in description.arguments_of(values)
        ]

    def _scratch(self, tensor: TensorArgument, values: Params, device: torch.device) -> Any:
        """Scratch memory between launches, NaN at first, shared by variants with equal sizes."""
        key = (tensor.name, tensor.shape_of(values), tensor.dtype_of(values))
        if key not in self._scratch_tensors:
            self._scratch_tensors[key] = make_scratch(tensor, values, device)
        return self._scratch_tensors[key]

    def flops(self, problem: Params) -> float | None:
        """Floating-point operations of a problem; None where the description has none."""
        return _amount(self._description.flops, problem)

    def bytes(self, problem: Params) -> float | None:
        """Least traffic to device memory, in bytes; None where the description has none."""
        return _amount(self._description.bytes, problem)

    def _torch_launch(self, variant: Params, problem: Params, inputs: Tensors) -> Launch:
        text = str(variant["torch"])
        tensors = readable(self._description, inputs)
        if split_function(text) is not None:
            function = self._user_function(text)
            return lambda: function(dict(problem), tensors)
        evaluate = compiled(parse_torch(text))
        values = {**self._numbers(variant, problem), **tensors}
        return lambda: evaluate(values)

    def _numbers(self, variant: Params, problem: Params) -> dict[str, Value]:
        """Parameters and the scalar arguments that they determine, by name."""
        values: dict[str, Value] = {**variant, **problem}
        scalars = self._description.scalars
        return values | {
            name: scalar.number(values)
            for name, scalar in scalars.items()
            if scalar.names <= values.keys()
        }

    def _user_function(self, reference: str) -> Callable[..., Any]:
        file, name = split_function(reference) or ("", "")
        function = getattr(self._module(file), name, None)
        if not callable(function):
            raise TypeError(f"{file} has no function {name}(problem, inputs)")
        return function  # type: ignore[no-any-return]  # the signature is the user's promise

    def _module(self, file: str) -> Any:
        if file not in self._modules:
            path = (self._description.base / file).resolve()
            spec = importlib.util.spec_from_file_location(f"reference_file_{path.stem}", path)
            if spec is None or spec.loader is None:
                raise ImportError(f"not a Python file: {file}")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            sys.path.append(str(path.parent))  # last, so that nothing there stands for another
            spec.loader.exec_module(module)
            self._modules[file] = module
        return self._modules[file]

    @cached_property
    def _modules(self) -> dict[str, Any]:
        return {}


class OutputLaunch:
    """Launches in a row with their outputs.

    `restore` sets those that are read as well (sums that are added to, values that are changed in
    place), and scratch memory that has a fill, to what they were filled with: a value, or a copy.
    """

    def __init__(
        self,
        launches: Sequence[Launch],
        *,
        outputs: tuple[torch.Tensor, ...],
        memory_behind: Mapping[str, torch.Tensor],
        filled: Sequence[tuple[torch.Tensor, float]],
        copied: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ) -> None:
        self._launches = launches
        self.outputs = outputs
        self.memory_behind = memory_behind
        self._filled = filled
        self._copied = copied

    def restore(self) -> None:
        """Fill tensors that have a fill again; no part of a launch."""
        for tensor, value in self._filled:
            tensor.fill_(value)
        for tensor, original in self._copied:
            tensor.copy_(original)

    restart = restore

    def __call__(self) -> tuple[torch.Tensor, ...]:
        """Start the kernels and return their outputs, without waiting."""
        for launch in self._launches:
            launch()
        return self.outputs


def _addresses(tensor: torch.Tensor) -> torch.Tensor:
    """Addresses of a tensor's parts along its first dimension, as a tensor on its device."""
    return torch.tensor([part.data_ptr() for part in tensor], dtype=torch.int64).to(tensor.device)


def _amount(amount: Arithmetic | None, problem: Params) -> float | None:
    return None if amount is None else float(amount.number(problem))


# ---- tensors: made once per problem, the same for the same seed ---------------------------------

_DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Dtypes that torch draws random numbers in; for other dtypes a float32 is converted."""


def make_tensors(
    description: CudaFile, problem: Params, device: torch.device, seed: int
) -> dict[str, torch.Tensor]:
    """Tensors by name; outputs without a fill are uninitialised.

    An output that kernels also read has a second tensor, named `filled_name`, which keeps its fill.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    tensors = {
        tensor.name: _make(tensor, problem, generator)
        for tensor in description.tensors
        if not tensor.scratch
    }
    read_outputs = (
        tensor.name for tensor in description.tensors if tensor.is_read and tensor.output
    )
    return {**tensors, **{filled_name(name): tensors[name].clone() for name in read_outputs}}


_BYTES_BEHIND = 1024


def empty_guarded(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor with memory behind it that no kernel may write (`memory_behind`)."""
    size = math.prod(shape) * dtype.itemsize
    memory = torch.empty(size + _BYTES_BEHIND, dtype=torch.uint8, device=device)
    return memory[:size].view(dtype).reshape(shape)


def memory_behind(tensor: torch.Tensor) -> torch.Tensor:
    """Bytes of a tensor's storage behind the tensor."""
    memory = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return memory.set_(tensor.untyped_storage(), tensor.nbytes, (_BYTES_BEHIND,), (1,))


def filled_name(output: str) -> str:
    """Name of the tensor that keeps an output's fill."""
    return f"{output} as filled"


def readable(description: CudaFile, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors that results depend on, by name; filled outputs with their fill."""
    return {
        tensor.name: tensors[filled_name(tensor.name) if tensor.output else tensor.name]
        for tensor in description.tensors
        if tensor.is_read
    }


def dtype_named(name: str) -> torch.dtype:
    """Dtype of torch by its name, without `torch.`."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"torch.{name} is no dtype")
    return dtype


def _make(tensor: TensorArgument, problem: Params, generator: torch.Generator) -> torch.Tensor:
    dtype, shape = dtype_named(tensor.dtype_of(problem)), tensor.shape_of(problem)
    fill, is_written = tensor.fill_of(problem), tensor.output or tensor.scratch
    if fill is not None and not is_written:
        return _filled(fill, shape, dtype, generator)
    empty = empty_guarded if is_written else torch.empty
    made: torch.Tensor = empty(shape, dtype=dtype, device=generator.device)
    return made if fill is None else made.copy_(_filled(fill, shape, dtype, generator))


def _filled(
    fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """A tensor of these values, on the device of the generator."""
    if fill.kind == "arange":
        return torch.arange(math.prod(shape), device=generator.device).reshape(shape).to(dtype)
    if fill.constant is not None:
        return _constant(shape, fill, dtype, generator.device)
    drawn = torch.empty(shape, dtype=_drawing_dtype(dtype, fill), device=generator.device)
    first, second = map(float, fill.numbers)
    match fill.kind:
        case "normal":
            drawn.normal_(first, second, generator=generator)
        case "uniform":
            drawn.uniform_(first, second, generator=generator)
        case "integers":
            drawn.random_(int(first), int(second), generator=generator)
    return drawn.to(dtype)


def make_scratch(tensor: TensorArgument, values: Params, device: torch.device) -> torch.Tensor:
    """Scratch memory between launches, with sizes by parameters of variant and problem.

    Without a fill it holds values that no kernel leaves: NaN, or a large pattern in integers.
    """
    if tensor.fill is not None:
        return _make(tensor, values, torch.Generator(device=device))
    memory = empty_guarded(tensor.shape_of(values), dtype_named(tensor.dtype_of(values)), device)
    if memory.dtype.is_floating_point:
        return memory.fill_(math.nan)
    return memory.fill_(memory.dtype == torch.bool or torch.iinfo(memory.dtype).max // 10 * 7)


def _drawing_dtype(dtype: torch.dtype, fill: Fill) -> torch.dtype:
    if fill.kind == "integers":
        return torch.int64 if dtype.is_floating_point or dtype == torch.bool else dtype
    return dtype if dtype in _DRAWN else torch.float32


def _constant(
    shape: tuple[int, ...], fill: Fill, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    drawn_in = _drawing_dtype(dtype, fill) if dtype.is_floating_point else dtype
    # Typed by torch as a number, and there only where there is one.
    return torch.full(shape, fill.constant or 0, dtype=drawn_in, device=device).to(dtype)


def in_higher_precision(
    tensors: Mapping[str, torch.Tensor], names: frozenset[str]
) -> dict[str, torch.Tensor]:
    """Named tensors, floating ones copied in float64 and complex ones in complex128."""
    return {name: _widened(tensor) for name, tensor in tensors.items() if name in names}


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return tensor if is_whole else tensor.to(wide_type(tensor.dtype), copy=True)
