"""Checks that everything which is written about a `.cu` file has a value in every cell."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from profiler.kernels.arithmetic import SIZES, Arithmetic, ExpressionError, unknown_name
from profiler.kernels.cuda_file.description import (
    OVERRIDES,
    CudaFile,
    TensorArgument,
    placeholders,
)
from profiler.kernels.cuda_file.torch_syntax import parse_torch, split_function
from profiler.model import Params, Problem, Variant
from profiler.planning.spec import CudaWorkload, LoadedSpec
from profiler.planning.spec.source import FieldPath

_MODULES = frozenset({"torch", "F"})

MOST_BYTES = 10**13
"""More than the memory of any GPU, generously: 10 TB; the largest have less than 0.5 TB."""


def check_cuda_file(
    loaded: LoadedSpec, variants: Sequence[Variant], problems: Sequence[Problem]
) -> None:
    """Raise SpecError, with file and line, for what has no value in some cell.

    Nothing to check where the workload is no `.cu` file.
    """
    workload = loaded.experiment.workload
    if isinstance(workload, CudaWorkload):
        description = workload.description(loaded.base)
        _Checks(loaded, description, problems).run(variants)


@dataclass(frozen=True, eq=False)
class _Checks:
    """Checks of one description, at the problems of its spec."""

    loaded: LoadedSpec
    description: CudaFile
    problems: Sequence[Problem]

    def run(self, variants: Sequence[Variant]) -> None:
        """Check the tensors, the reference, and every variant at every problem."""
        self._check_names(variants)
        self._check_macros(variants)
        self._check_tensors()
        reference: FieldPath = ("workload", "reference")
        self._check_expression(self.description.reference, {}, reference)
        for variant in variants:
            if "torch" in variant.params:
                path = self._field(variant, "torch")
                if "kernel" in variant.params:
                    raise self._error(
                        path, f"variant '{variant.name}' has a kernel, too; take one of the two"
                    )
                self._check_expression(str(variant.params["torch"]), variant.params, path)
            else:
                self._check_kernel(variant)

    def _check_names(self, variants: Iterable[Variant]) -> None:
        tensors = {tensor.name for tensor in self.description.tensors}
        taken = {name for variant in variants for name in variant.params}
        taken |= {name for problem in self.problems for name in problem.params} | _MODULES
        for name in sorted(tensors & taken):
            tensor = self.description.tensor(name)
            assert tensor is not None  # noqa: S101 - its name is one of a tensor
            raise self._error(self._place(tensor), "a parameter has this name, too; rename one")
        if not any(tensor.output for tensor in self.description.tensors):
            raise self._error(
                ("workload", "arguments"), "no tensor is an output: say `output: true` of one"
            )

    def _check_macros(self, variants: Iterable[Variant]) -> None:
        """Raise for a macro of a parameter that no variant has: it would never be defined."""
        taken = {name: None for variant in variants for name in variant.params}
        for macro, value in (self.description.define or {}).items():
            path: FieldPath = ("workload", "define")
            names = self._value(path, partial(placeholders, str(value)), f"macro {macro}")
            for name in names:
                if name not in taken:
                    raise self._error(
                        path, f"no variant has a parameter: {unknown_name(name, taken)}"
                    )

    def _check_tensors(self) -> None:
        for tensor in self.description.tensors:
            if tensor.scratch:  # its sizes may be parameters of variants
                continue
            place = self._place(tensor)
            self._each_problem((*place, "shape"), tensor.shape_of)
            self._each_problem((*place, "dtype"), tensor.dtype_of)
            self._each_problem((*place, "shape"), partial(_require_memory, tensor))
            if tensor.fill is not None and tensor.fill.kind in ("normal", "uniform"):
                self._each_problem((*place, "fill"), partial(_require_floating, tensor))
        for name, amount in (
            ("flops", self.description.flops),
            ("bytes", self.description.bytes),
        ):
            if amount is not None:
                self._each_problem(("workload", name), partial(_amount, amount))

    def _place(self, tensor: TensorArgument) -> FieldPath:
        """Where the spec describes a tensor: among the arguments, or in a struct."""
        arguments: FieldPath = ("workload", "arguments")
        if tensor.name in self.description.arguments:
            return (*arguments, tensor.name)
        structs = self.description.structs.values()
        holder = next(struct.name for struct in structs if tensor.name in struct.fields)
        return (*arguments, holder, "struct", tensor.name)

    def _each_problem(self, field: FieldPath, value_at: Callable[[Params], Any]) -> None:
        for problem in self.problems:
            self._value(field, partial(value_at, problem.params), f"problem '{problem.name}'")

    def _value(self, field: FieldPath, value: Callable[[], Any], where: str) -> Any:
        try:
            return value()
        except ExpressionError as error:
            raise self._error(field, f"{error} ({where})") from error

    def _check_expression(self, text: str, params: Params, field: FieldPath) -> None:
        if split_function(text) is not None:
            return
        syntax = self._value(field, lambda: parse_torch(text), "an expression of torch")
        outputs = sum(tensor.output for tensor in self.description.tensors)
        # A function such as topk gives several results without a comma.
        if isinstance(syntax.root, ast.Tuple) and len(syntax.root.elts) != outputs:
            raise self._error(
                field,
                f"gives {len(syntax.root.elts)} results; arguments that are outputs: {outputs}",
            )
        for problem in self.problems:
            readable = self._readable({**params, **problem.params})
            for name in sorted(syntax.names):
                if name not in readable:
                    raise self._error(field, unknown_name(name, readable))

    def _readable(self, values: Params) -> Mapping[str, Any]:
        """Names that an expression may use: parameters, inputs, and scalars that have a value."""
        description = self.description
        scalars = {name for name, s in description.scalars.items() if s.names <= values.keys()}
        inputs = {tensor.name for tensor in description.tensors if tensor.is_read}
        parameters = {name for name in values if name not in OVERRIDES}
        return dict.fromkeys((*parameters, *scalars, *inputs))

    def _check_kernel(self, variant: Variant) -> None:
        description, params = self.description, variant.params
        where = f"variant '{variant.name}'"
        for name, value_of in (("source", description.source_of), ("define", description.macros)):
            self._value(self._field(variant, name), partial(value_of, params), where)
        steps = description.steps(params)
        for number, step in enumerate(steps):
            launch = partial(self._launch_field, variant, number)
            which = where if len(steps) == 1 else f"{where}, launch {number + 1}"
            self._value(launch("kernel"), partial(description.kernel_of, step), which)
            for problem in self.problems:
                at = f"{which}, problem '{problem.name}'"
                values = {**step, **problem.params}
                for tensor in self._scratch_of(step):
                    shape = (*self._place(tensor), "shape")
                    self._value(shape, partial(_require_memory, tensor, values), at)
                for name, value in self._launch_values(values):
                    self._value(launch(name), value, at)

    def _scratch_of(self, step: Params) -> Iterator[TensorArgument]:
        tensors = map(self.description.tensor, self.description.leaves(step))
        return (tensor for tensor in tensors if tensor is not None and tensor.scratch)

    def _launch_values(self, values: Params) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Functions that give what a launch needs, each with the field that says it."""
        description = self.description
        for name in ("grid", "block", "shared"):
            yield name, partial(_sizes, description, values, name)
        yield "arguments", partial(_scalars, description, values)

    def _field(self, variant: Variant, name: str) -> FieldPath:
        """Where the spec says something of a variant: in its own entry, or of the workload."""
        if name not in variant.params:
            return ("workload", name)
        items = self.loaded.experiment.variants.list or ()
        for index, item in enumerate(items):
            if item.params == variant.params:
                return ("variants", "list", index, name)
        return ("variants",)

    def _launch_field(self, variant: Variant, number: int, name: str) -> FieldPath:
        """Where the spec says something of one of several launches, or of the only one."""
        step = self.description.steps(variant.params)[number]
        if step.get(name) == variant.params.get(name):
            return self._field(variant, name)
        of_variant = "launches" in variant.params
        listed = self._field(variant, "launches") if of_variant else ("workload", "launches")
        return (*listed, number, name)

    def _error(self, field: FieldPath, message: str) -> Exception:
        return self.loaded.error(field, message)


def _amount(amount: Arithmetic, values: Params) -> int | float:
    """FLOPs or bytes of a problem; raises ExpressionError below 0."""
    number = amount.number(values)
    if number < 0:
        raise ExpressionError(f"'{amount.text}' is {number:g}, which is below 0")
    return number


def _sizes(description: CudaFile, values: Params, name: str) -> list[int]:
    return [size.whole(values) for size in description.expressions(values, name)]


def _scalars(description: CudaFile, values: Params) -> list[int | float]:
    return [
        description.scalar(argument).number(values)
        for argument in description.leaves(values)
        if description.tensor(argument) is None
    ]


def _require_memory(tensor: TensorArgument, values: Params) -> None:
    """Raise ExpressionError for a tensor that is larger than the memory of any GPU."""
    sizes, dtype = tensor.shape_of(values), tensor.dtype_of(values)
    needed = math.prod(sizes) * SIZES[dtype]
    if needed > MOST_BYTES:
        raise ExpressionError(
            f"{tensor.name}: {dtype} of the shape {list(sizes)} takes {needed:,} bytes "
            f"({needed // 10**12:,} TB), more than any GPU has"
        )


def _require_floating(tensor: TensorArgument, values: Params) -> None:
    """Raise ExpressionError for a tensor of whole numbers that is filled with random reals."""
    dtype = tensor.dtype_of(values)
    if "float" not in dtype:
        raise ExpressionError(f"{dtype} has no random reals; say `integers`")
