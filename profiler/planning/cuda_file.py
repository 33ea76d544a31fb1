"""Checks that `.cu` files have the described kernels and macros, and that expressions have values.

Every tensor, argument and expression has one in every cell.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from profiler.errors import close_hint
from profiler.kernels.arithmetic import SIZES, Arithmetic, ExpressionError, unknown_name
from profiler.kernels.cuda_file.description import (
    OF_KERNEL,
    OVERRIDES,
    CudaFile,
    TensorArgument,
    placeholders,
)
from profiler.kernels.cuda_file.torch_syntax import parse_torch, split_function
from profiler.model import Params, Plan, Problem, Variant
from profiler.notices import counted
from profiler.planning.cuda_source import Function, SourceFile, read_source
from profiler.planning.python_files import function_faults
from profiler.planning.spec import CudaWorkload, LoadedSpec, did_you_mean
from profiler.planning.spec.source import FieldPath

Fault = tuple[FieldPath, str]
"""Field of the spec, and a sentence on its fault."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_OVERLOAD = re.compile(r"static_cast<.+>\s*\((.+)\)\s*")
_TEMPLATE = re.compile(r"<[^<>]*>")
_OF_HOST = {
    "cudaTextureObject_t": "a texture",
    "cudaSurfaceObject_t": "a surface",
    "CUtensorMap": "a tensor map",
}
"""Types of parameters whose values only host code makes."""
_OF_CLUSTERS = frozenset({"this_cluster", "cluster_group"})
_OF_LIBRARIES = re.compile(r"(::)?(cub::Device|thrust::|cublas|cudnn)")
_BY_FUNCTION = "let a host function of the file do it, and name that by `function`"


def cuda_faults(loaded: LoadedSpec, plan: Plan) -> Iterator[Fault]:
    """Faults of kernels and functions that the spec names, except missing sources."""
    workload = loaded.experiment.workload
    if not isinstance(workload, CudaWorkload):
        return
    description = workload.description(loaded.base)
    yield from _function_faults(description.reference, ("workload", "reference"), loaded.base)
    flags = loaded.compiler_flags
    yield from _header_faults(description, plan, flags)
    included_elsewhere = not {"-I", "-include", "-isystem"}.isdisjoint(flags)
    for variant in plan.variants:
        torch = variant.params.get("torch")
        if torch is not None:
            yield from _function_faults(str(torch), ("variants",), loaded.base)
        elif not included_elsewhere:
            yield from _kernel_faults(description, variant, flags)


def cuda_notes(loaded: LoadedSpec, plan: Plan) -> tuple[str, ...]:
    """Sentences on parameters of variants that nothing reads, and on unlikely numbers of bytes."""
    workload = loaded.experiment.workload
    if not isinstance(workload, CudaWorkload):
        return ()
    description = workload.description(loaded.base)
    notes: dict[str, str] = {}
    for variant in plan.variants:
        if "torch" not in variant.params:
            notes |= dict(_faults_of_names(description, variant, loaded.compiler_flags))
    return (
        *notes.values(),
        *_problem_notes(loaded, plan),
        *_traffic_notes(description, plan.problems),
    )


def _problem_notes(loaded: LoadedSpec, plan: Plan) -> Iterator[str]:
    """Sentences on parameters of problems that no word of workload and variants names.

    None where a function in Python gets all of them.
    """
    experiment = loaded.experiment
    texts = [repr(experiment.workload), repr(experiment.variants), str(experiment.page.weights)]
    if any(".py:" in text for text in texts):
        return
    read_names = {name for text in texts for name in _WORD.findall(text)}
    read_names |= {"problem", "inputs"}  # a name alone, and what the inputs hold
    for name in dict.fromkeys(name for problem in plan.problems for name in problem.params):
        values = {repr(problem.params.get(name)) for problem in plan.problems}
        if name not in read_names and len(values) > 1:
            yield (
                f"The parameter '{name}' of problems changes nothing: neither workload nor "
                "variants name it, and the same is measured for each of its values."
            )


def _traffic_notes(description: CudaFile, problems: Sequence[Problem]) -> Iterator[str]:
    """Sentence on a least traffic that no kernel of these tensors has, at the first such problem.

    It writes each output that has no fill, and may read and write every tensor once.
    """
    if description.bytes is None:
        return
    for problem in problems:
        amount = description.bytes.number(problem.params)
        tensors = [tensor for tensor in description.tensors if not tensor.scratch]
        sizes = [_bytes_of(tensor, problem.params) for tensor in tensors]
        outputs = [tensor.output and tensor.fill is None for tensor in tensors]
        written, most = sum(itertools.compress(sizes, outputs)), 2 * sum(sizes)
        begin = f"workload.bytes is {amount:,.0f} at {problem.name}, "
        if 0 < amount < written:
            yield (
                f"{begin}less than the {written:,} bytes of the outputs, all of which the kernel "
                "writes: it counts bytes (4 of a float32), not elements."
            )
            return
        if amount > most and len(tensors) == len(description.tensors):
            yield (
                f"{begin}more than reading and writing every tensor once takes ({most:,}): it is "
                "the least traffic to device memory, not the sum of all loads."
            )
            return


def _header_faults(description: CudaFile, plan: Plan, flags: Sequence[str]) -> Iterator[Fault]:
    """Faults of headers that exist and cannot be read, one for each source."""
    launched = (variant.params for variant in plan.variants if "torch" not in variant.params)
    for path in dict.fromkeys(description.source_of(params).resolve() for params in launched):
        for header in _source(path, flags).unreadable:
            message = f"{path.name} includes {header.name}, which cannot be read"
            yield ("workload", "source"), message


def _source(path: Path, flags: Sequence[str]) -> SourceFile:
    """Parsed source of a file, whose headers may lie in the folders of `-I`."""
    folders = (flag[2:] for flag in flags if flag.startswith("-I"))
    return read_source(path, tuple(path.parent / folder for folder in folders if folder))


def _kernel_faults(
    description: CudaFile, variant: Variant, flags: Sequence[str]
) -> Iterator[Fault]:
    path = description.source_of(variant.params).resolve()
    names = ("launches", "function", "kernel")
    of_variant = not variant.params.keys().isdisjoint(names)
    of_workload = next((name for name in names if getattr(description, name)), "kernel")
    field: FieldPath = ("variants",) if of_variant else ("workload", of_workload)
    if not path.is_file():
        return
    source = _source(path, flags)
    macros = description.macros(variant.params)
    for step in description.steps(variant.params):
        kernel_text = description.kernel_of(step)
        if "<<<" in kernel_text:
            message = "has a launch in it; write its name, and `grid`, `block` and `arguments`"
            yield field, f"'{kernel_text}' (variant '{variant.name}') {message}"
            continue
        if _OF_LIBRARIES.match(kernel_text):
            remedy = "write a host function that calls it, and name that by `function`"
            subject = f"'{kernel_text}' (variant '{variant.name}') is called by host code"
            yield field, f"{subject}: {remedy}"
            continue
        name = _OVERLOAD.sub(r"\1", kernel_text).partition("<")[0].rpartition("::")[2].strip()
        if source.complete and name not in source.identifiers and name not in macros:
            hint = did_you_mean(name, source.kernels) or "; it has no __global__ function"
            kind = "kernel"
            if description.is_function(step):
                kind, hint = "function", did_you_mean(name, [f.name for f in source.functions])
            yield field, f"{path.name} has no {kind} '{name}' (variant '{variant.name}'){hint}"
        elif (fault := _fault_of_kind(description, step, source, name)) is not None:
            yield field, f"'{name}' (variant '{variant.name}') is {fault}"
        elif (called := source.kernel(name) or source.plain_function(name)) is not None:
            yield from ((field, fault) for fault in _body_faults(description, step, source, called))
            yield from _parameter_faults(description, step, source, called)


def _fault_of_kind(
    description: CudaFile, step: Params, source: SourceFile, name: str
) -> str | None:
    """What a function is that its key does not name (kernel, host function), with the remedy."""
    kernel, function = source.kernel(name), source.plain_function(name)
    if kernel is not None and description.is_function(step):
        return f"a kernel ({kernel.place}): name it by `kernel`, with its grid and block"
    is_device = function is not None and "__device__" in function.specifiers
    if function is None or (description.is_function(step) and not is_device):
        return None
    kernels = ", ".join(source.kernels) or "this file has none"
    remedy = f"name a kernel ({kernels}) with its grid, block and arguments"
    if is_device:
        return f"a device function ({function.place}), not a __global__ one: {remedy}"
    launched = f"; it launches {function.launches[0]}" if function.launches else ""
    return (
        f"a host function ({function.place}), not a __global__ one: name it by `function`, without "
        f"grid and block, or {remedy}{launched}"
    )


def _body_faults(
    description: CudaFile, step: Params, source: SourceFile, kernel: Function
) -> Iterator[str]:
    """Host settings that a kernel and its called functions need and do not get, as sentences."""
    if description.is_function(step):  # which makes them itself
        return
    called_functions = tuple(source.reachable_functions(kernel))
    syncing = next((function for function in called_functions if function.syncs_grid), None)
    if syncing is not None and not description.is_cooperative(step):
        yield (
            f"kernel '{kernel.name}' waits for its whole grid (in {syncing.name}, "
            f"{syncing.place}), which only a cooperative launch allows: say `cooperative: true`"
        )
    identifiers = frozenset().union(*(function.identifiers for function in called_functions))
    if identifiers & _OF_CLUSTERS and "__cluster_dims__" not in kernel.specifiers:
        yield (
            f"kernel '{kernel.name}' ({kernel.place}) works in clusters of blocks, and is launched "
            "without: declare their size, `__global__ void __cluster_dims__(2, 1, 1) "
            f"{kernel.name}(…)`, or {_BY_FUNCTION}"
        )
    for name, place in source.constants.items():
        if name in identifiers:
            yield (
                f"kernel '{kernel.name}' reads '{name}' ({place}), __constant__ memory that host "
                f"code sets, which does not run here: give it its values in its declaration, pass "
                f"them as an argument, or {_BY_FUNCTION}"
            )


def _parameter_faults(
    description: CudaFile, step: Params, source: SourceFile, kernel: Function
) -> Iterator[Fault]:
    """Faults of described arguments that do not fit the kernel's parameters."""
    arguments = description.arguments_of(step)
    if len(arguments) != len(kernel.parameters):
        if not kernel.has_hidden_parameters:
            yield (
                ("workload", "arguments"),
                f"'{kernel.name}' has {counted(len(kernel.parameters), 'parameter')} "
                f"({'; '.join(filter(None, (', '.join(kernel.parameters), kernel.place)))}) and "
                f"is given {len(arguments)}: {', '.join(arguments)}",
            )
        return
    pairs = zip(arguments, kernel.parameters, strict=True)
    for number, (name, parameter) in enumerate(pairs, start=1):
        plain = _TEMPLATE.sub("", parameter)
        for fault in itertools.islice(_misfits(description, source, name, plain), 1):
            of_kernel = f"argument {number} of '{kernel.name}' ({name})"
            takes = f"it takes `{parameter}` ({kernel.place}), {fault}"
            is_workload_argument = name in description.arguments
            field: FieldPath = ("workload", "arguments", *((name,) if is_workload_argument else ()))
            yield field, f"{of_kernel}: {takes}"


def _misfits(description: CudaFile, source: SourceFile, name: str, parameter: str) -> Iterator[str]:
    """Why an argument does not fit a parameter, and what to do; the first is the cause."""
    tokens, tensor = _WORD.findall(parameter), description.tensor(name)
    pointers = parameter.count("*") + parameter.count("[")
    struct = next((word for word in tokens[:-1] if word in source.structs), None)
    for word in tokens:
        if word in _OF_HOST:
            yield f"{_OF_HOST[word]}, which only host code makes: {_BY_FUNCTION}"
    if name in description.structs and pointers:
        yield (
            "a pointer, and a struct is given by value: take it so, without a `*`, or "
            f"{_BY_FUNCTION}"
        )
    # A struct with a constructor may be made of a number.
    is_plain = struct is not None and struct not in source.structs[struct]
    if pointers == 0 and (struct if tensor else is_plain) and name not in description.structs:
        yield f"a struct by value: give its members (`{name}: {{struct: …}}`, docs/cuda-file.md)"
    if tensor is None:
        return
    if pointers > 1 and not (tensor.pointers or tensor.dtype == "int64"):
        yield (
            f"a pointer to pointers, and '{name}' is one tensor: say `pointers: true` of it for "
            f"the addresses of {name}[0], {name}[1], …"
        )
    if pointers == 1 and struct is not None and source.holds_pointers(struct):
        yield (
            f"a pointer to structs that hold pointers, which no tensor has: take {struct} by value "
            f"and give its members (`{{struct: …}}`, docs/cuda-file.md), or {_BY_FUNCTION}"
        )


def _faults_of_names(
    description: CudaFile, variant: Variant, flags: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Parameters and macros of a variant that change nothing, or too much, each with a sentence."""
    params = variant.params
    path = description.source_of(params).resolve()
    source = _source(path, flags)
    macros = description.macros(params)
    for name in sorted(macros.keys() & source.own_macros.keys()):
        yield (
            name,
            f"The macro '{name}' changes no kernel: {source.own_macros[name]} defines it, whatever "
            f"its value was before. Put that line between `#ifndef {name}` and `#endif`.",
        )
    replaced = [name for name in macros if name in source.template_parameters]
    if replaced:
        yield (
            ", ".join(replaced),
            "A macro takes the place of a template parameter of its name, which does not compile: "
            f"write {', '.join(f'{{{name}}}' for name in replaced)} in the name of the kernel "
            f"({source.template_parameters[replaced[0]]}).",
        )
    if not source.complete:
        return
    kernels = " ".join(description.kernel_of(step) for step in description.steps(params))
    used_words = source.identifiers | set(_WORD.findall(kernels))
    used_words |= {word for value in macros.values() for word in _WORD.findall(str(value))}
    for name in sorted(macros.keys() - used_words - description.at_launch(params).keys()):
        close = _close_word(name, source)
        yield name, f"The macro '{name}' changes nothing: {path.name} has no such word{close}."
    for name in sorted(params.keys() - description.used_parameters(params)):
        hint = f"; as a macro it needs `define: [{name}]`." if name in source.identifiers else ""
        hint = hint or close_hint(name, OVERRIDES)
        yield (
            name,
            f"The parameter '{name}' changes nothing: nothing of the launch reads it{hint or '.'}",
        )


def _close_word(name: str, source: SourceFile) -> str:
    close = difflib.get_close_matches(name, source.identifiers, n=1)
    return f"; it has '{close[0]}'" if close else ""


def _function_faults(text: str, field: FieldPath, base: Path) -> Iterator[Fault]:
    """Faults of a function that a spec names as `FILE.py:FUNCTION`."""
    file_and_function = split_function(text)
    if file_and_function is None:
        return
    file, function = file_and_function
    needed = {function: ("problem", "inputs")}
    yield from ((field, fault) for fault in function_faults(base / file, needed, {}))


_MODULES = frozenset({"torch", "F"})

MOST_BYTES = 10**13
"""More than the memory of any GPU, generously: 10 TB; the largest have less than 0.5 TB."""


def check_cuda_file(
    loaded: LoadedSpec, variants: Sequence[Variant], problems: Sequence[Problem]
) -> None:
    """Raise SpecError, with file and line, for an expression without a value in some cell.

    Nothing to check where the workload is no `.cu` file.
    """
    workload = loaded.experiment.workload
    if isinstance(workload, CudaWorkload):
        _Checks(loaded, workload.description(loaded.base), problems).run(variants)


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
                for key in ("kernel", "function"):
                    if key in variant.params:
                        raise self.loaded.error(
                            path, f"variant '{variant.name}' has a {key}, too; take one of the two"
                        )
                self._check_expression(str(variant.params["torch"]), variant.params, path)
            else:
                self._check_kernel(variant)

    def _check_names(self, variants: Iterable[Variant]) -> None:
        tensors = {tensor.name for tensor in self.description.tensors}
        parameter_names = {name for variant in variants for name in variant.params}
        parameter_names |= {name for problem in self.problems for name in problem.params} | _MODULES
        for name in sorted(tensors & parameter_names):
            tensor = self.description.tensor(name)
            assert tensor is not None  # noqa: S101 - its name is one of a tensor
            raise self.loaded.error(
                self._place(tensor), "a parameter has this name, too; rename one"
            )
        if not any(tensor.output for tensor in self.description.tensors):
            raise self.loaded.error(
                ("workload", "arguments"), "no tensor is an output: say `output: true` of one"
            )

    def _check_macros(self, variants: Iterable[Variant]) -> None:
        """Raise for a macro of a parameter that no variant has: it would never be defined."""
        parameter_names = {name: None for variant in variants for name in variant.params}
        for macro, value in (self.description.define or {}).items():
            path: FieldPath = ("workload", "define")
            for name in self._value(path, partial(placeholders, str(value)), f"macro {macro}"):
                if name not in parameter_names:
                    raise self.loaded.error(
                        path, f"no variant has a parameter: {unknown_name(name, parameter_names)}"
                    )

    def _check_tensors(self) -> None:
        for tensor in self.description.tensors:
            if tensor.scratch:  # its sizes may be parameters of variants
                continue
            place = self._place(tensor)
            self._each_problem((*place, "dtype"), tensor.dtype_of)
            self._each_problem((*place, "shape"), partial(_require_memory, tensor))
            self._each_problem((*place, "fill"), tensor.fill_of)
        for name, amount in (
            ("flops", self.description.flops),
            ("bytes", self.description.bytes),
        ):
            if amount is not None:
                self._each_problem(("workload", name), partial(_amount, amount))

    def _place(self, tensor: TensorArgument) -> FieldPath:
        """Field of the spec that describes a tensor: among the arguments, or in a struct."""
        arguments: FieldPath = ("workload", "arguments")
        if tensor.name in self.description.arguments:
            return (*arguments, tensor.name)
        structs = self.description.structs.items()
        holder = next(name for name, fields in structs if tensor.name in fields)
        return (*arguments, holder, "struct", tensor.name)

    def _each_problem(self, field: FieldPath, value_at: Callable[[Params], Any]) -> None:
        for problem in self.problems:
            self._value(field, partial(value_at, problem.params), f"problem '{problem.name}'")

    def _value(self, field: FieldPath, value: Callable[[], Any], where: str) -> Any:
        try:
            return value()
        except ExpressionError as error:
            raise self.loaded.error(field, f"{error} ({where})") from error

    def _check_expression(self, text: str, params: Params, field: FieldPath) -> None:
        if split_function(text) is not None:
            return
        syntax = self._value(field, lambda: parse_torch(text), "an expression of torch")
        outputs = sum(tensor.output for tensor in self.description.tensors)
        # A function such as topk gives several results without a comma.
        if isinstance(syntax.root, ast.Tuple) and len(syntax.root.elts) != outputs:
            raise self.loaded.error(
                field,
                f"gives {len(syntax.root.elts)} results; arguments that are outputs: {outputs}",
            )
        for problem in self.problems:
            readable = self._readable({**params, **problem.params})
            for name in sorted(syntax.names):
                if name not in readable:
                    raise self.loaded.error(field, unknown_name(name, readable))

    def _readable(self, values: Params) -> Mapping[str, Any]:
        """Names that an expression may use: parameters, inputs, and scalars with values."""
        description = self.description
        scalars = {name for name, s in description.scalars.items() if s.names <= values.keys()}
        inputs = {tensor.name for tensor in description.tensors if tensor.is_read}
        parameters = {name for name in values if name not in OVERRIDES}
        return dict.fromkeys((*parameters, *scalars, *inputs))

    def _check_kernel(self, variant: Variant) -> None:
        description, params = self.description, variant.params
        variant_place = f"variant '{variant.name}'"
        self._value(
            self._field(variant, "source"), partial(description.source_of, params), variant_place
        )
        steps = description.steps(params)
        for number, step in enumerate(steps):
            launch = partial(self._launch_field, variant, number)
            launch_place = (
                variant_place if len(steps) == 1 else f"{variant_place}, launch {number + 1}"
            )
            self._value(launch("kernel"), partial(description.kernel_of, step), launch_place)
            if description.is_function(step):
                self._check_function(step, launch, launch_place)
            self._value(
                launch("cooperative"), partial(description.is_cooperative, step), launch_place
            )
            for problem in self.problems:
                at = f"{launch_place}, problem '{problem.name}'"
                values = {**step, **problem.params}
                for tensor in self._value(launch("arguments"), partial(self._scratch_of, step), at):
                    shape = (*self._place(tensor), "shape")
                    self._value(shape, partial(_require_memory, tensor, values), at)
                for name, value in self._launch_values(values):
                    self._value(launch(name), value, at)
        self._value(
            self._field(variant, "define"), partial(description.macros, params), variant_place
        )

    def _check_function(
        self, step: Params, field_of: Callable[[str], FieldPath], launch_place: str
    ) -> None:
        """Raise for settings of a kernel beside a host function, which has them in its body."""
        for key in ("kernel", *OF_KERNEL):
            if key in step:
                raise self.loaded.error(
                    field_of(key),
                    f"the function '{self.description.kernel_of(step)}' launches kernels itself: "
                    f"leave out `{key}` ({launch_place})",
                )

    def _scratch_of(self, step: Params) -> list[TensorArgument]:
        tensors = map(self.description.tensor, self.description.leaves(step))
        return [tensor for tensor in tensors if tensor is not None and tensor.scratch]

    def _launch_values(self, values: Params) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Functions that evaluate the settings of a launch, each with its field in the spec."""
        description = self.description
        if not description.is_function(values):
            for name in ("grid", "block", "shared"):
                yield name, partial(_sizes, description, values, name)
        yield "arguments", partial(_scalars, description, values)

    def _field(self, variant: Variant, name: str) -> FieldPath:
        """Field with a setting of a variant: in its own entry, or of the workload."""
        if name not in variant.params:
            return ("workload", name)
        for index, item in enumerate(self.loaded.experiment.variants.list or ()):
            if item.params == variant.params:
                return ("variants", "list", index, name)
        return ("variants",)

    def _launch_field(self, variant: Variant, number: int, name: str) -> FieldPath:
        """Field with a setting of one launch of several, or of the only launch."""
        if self.description.steps(variant.params)[number].get(name) == variant.params.get(name):
            return self._field(variant, name)
        of_variant = "launches" in variant.params
        launches_field = (
            self._field(variant, "launches") if of_variant else ("workload", "launches")
        )
        return (*launches_field, number, name)


def _amount(amount: Arithmetic, values: Params) -> int | float:
    """FLOPs or bytes of a problem; raises ExpressionError below 0."""
    number = amount.number(values)
    if number < 0:
        raise ExpressionError(f"'{amount.text}' is {number:g}, which is below 0")
    return number


def _sizes(description: CudaFile, values: Params, name: str) -> list[int]:
    numbers = _without_overrides(values)
    return [size.whole_number(numbers) for size in description.expressions(values, name)]


def _without_overrides(values: Params) -> Params:
    """Values that arithmetic may read, without `kernel` and `grid`, which are no numbers."""
    return {name: value for name, value in values.items() if name not in OVERRIDES}


def _scalars(description: CudaFile, values: Params) -> list[int | float]:
    numbers = _without_overrides(values)
    tensors = {tensor.name for tensor in description.tensors}
    scalars = [
        description.scalar(name) for name in description.leaves(values) if name not in tensors
    ]
    for name in sorted({name for scalar in scalars for name in scalar.names} - numbers.keys()):
        raise ExpressionError(
            unknown_name(name, dict.fromkeys([*tensors, *description.structs, *numbers]))
        )
    return [scalar.number(numbers) for scalar in scalars]


def _require_memory(tensor: TensorArgument, values: Params) -> None:
    """Raise ExpressionError for a tensor that is larger than the memory of any GPU."""
    sizes, dtype = tensor.shape_of(values), tensor.dtype_of(values)
    needed = _bytes_of(tensor, values)
    if needed > MOST_BYTES:
        raise ExpressionError(
            f"{tensor.name}: {dtype} of the shape {list(sizes)} takes {needed:,} bytes "
            f"({needed // 10**12:,} TB), more than any GPU has"
        )


def _bytes_of(tensor: TensorArgument, values: Params) -> int:
    return math.prod(tensor.shape_of(values)) * SIZES[tensor.dtype_of(values)]
