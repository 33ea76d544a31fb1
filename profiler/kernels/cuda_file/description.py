"""Description of a `.cu` file in an experiment file: arguments, grid, block; no torch."""

from __future__ import annotations

import ast
import json
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.kernels.arithmetic import SIZES, Arithmetic, ExpressionError, Value, parse

Params = Mapping[str, Value]

OF_KERNEL = ("grid", "block", "shared", "cooperative")
"""Settings that only a kernel takes: a host function has its own in its body."""
OF_LAUNCH = ("kernel", "function", *OF_KERNEL, "arguments")
"""Settings that each of several launches in a row may have."""
OVERRIDES = ("source", *OF_LAUNCH, "launches", "torch")
"""Parameters of a variant that override the workload's settings, and are no macros."""
FILLS: Mapping[str, tuple[float | str, ...]] = {
    "normal": (0.0, 1.0),
    "uniform": (0.0, 1.0),
    "integers": (0, 100),
    "zeros": (),
    "ones": (),
    "inf": (),
    "-inf": (),
    "arange": (),
}
"""Kinds of fill, each with the two numbers that it takes where it takes any: mean and standard
deviation, or the least and the bound above."""

KINDS: Mapping[str, str] = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "bfloat16": "g2",
    "int64": "i8",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint8": "u1",
    "bool": "b1",
}
"""Kind and bytes of a dtype's elements, as the launcher names them.

A kernel may take other types for its own ends (a struct of several numbers, 8-bit floats), which it
calls `?`."""

CPP_TYPES: Mapping[str, str] = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
}
"""Types of C++ and CUDA by torch's names."""

MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
"""CUDA C++ programming guide, technical specifications: all compute capabilities from 3.0."""


@dataclass(frozen=True)
class Fill:
    """Kind and numbers of the elements that a tensor is filled with."""

    kind: str
    numbers: tuple[float | str, ...] = ()
    """Texts are arithmetic over the parameters of the problem."""

    @property
    def constant(self) -> float | None:
        """The common value of all elements; None where they differ."""
        if self.kind == "constant":
            return float(self.numbers[0])
        return {"zeros": 0.0, "ones": 1.0, "inf": math.inf, "-inf": -math.inf}.get(self.kind)

    def at(self, values: Params) -> Fill:
        """The fill with its numbers; raises ExpressionError where no random values have them."""
        numbers = tuple(parse(number).number(values) for number in self.numbers)
        number_texts = " and ".join(f"{number:g}" for number in numbers)
        if self.kind == "normal" and numbers[1] < 0:
            raise ExpressionError(f"the standard deviation is below 0: {numbers[1]:g}")
        if self.kind in ("uniform", "integers") and numbers[0] >= numbers[1]:
            raise ExpressionError(f"the least is not below the bound: {number_texts}")
        if self.kind == "integers" and any(number != int(number) for number in numbers):
            raise ExpressionError(f"bounds of integers are integers, not {number_texts}")
        return Fill(self.kind, numbers)


@dataclass(frozen=True)
class TensorArgument:
    """A tensor whose pointer kernels get."""

    name: str
    shape: tuple[Arithmetic, ...]
    dtype: str
    """Name of a dtype, or of the parameter whose value is one."""
    fill: Fill | None
    """Fill of the elements, `default` by their dtype; None: every launch writes all of them."""
    output: bool
    scratch: bool = False
    """Whether the tensor only passes data between the launches of a variant, which may size it."""
    pointers: bool = False
    """Whether kernels get the addresses of its parts along the first dimension."""

    @property
    def is_read(self) -> bool:
        """Whether results depend on the tensor's fill."""
        return (
            self.fill is not None
            and not self.scratch
            and not (self.output and self.fill.kind == "zeros")
        )

    def dtype_of(self, values: Params) -> str:
        """Name of the dtype; raises ExpressionError for an unknown dtype."""
        dtype = self.dtype if self.dtype in SIZES else values.get(self.dtype, self.dtype)
        if dtype not in SIZES:
            raise ExpressionError(
                f"{self.name}: no dtype '{dtype}'; there are {', '.join(sorted(SIZES))}"
            )
        return str(dtype)

    def fill_of(self, values: Params) -> Fill | None:
        """Fill at a problem; raises ExpressionError for values that no random ones have."""
        if self.fill is None:
            return None
        dtype = self.dtype_of(values)
        if self.fill.kind == "default":
            kind = "normal" if "float" in dtype else "integers"
            return Fill(kind, (0, 2) if dtype == "bool" else FILLS[kind])
        if self.fill.kind in ("normal", "uniform") and "float" not in dtype:
            raise ExpressionError(f"{dtype} has no random reals; say `integers`")
        is_infinite = math.isinf(self.fill.constant or 0)
        if is_infinite and ("float" not in dtype or dtype == "float8_e4m3fn"):
            raise ExpressionError(f"{dtype} has no infinity; fill with a number")
        return self.fill.at(values)

    def shape_of(self, values: Params) -> tuple[int, ...]:
        """Sizes; raises ExpressionError for a size below 1 or without a value."""
        sizes = tuple(size.whole_number(values) for size in self.shape)
        if any(size < 1 for size in sizes):
            raise ExpressionError(f"{self.name}: the shape {list(sizes)} has no elements")
        return sizes


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block and dynamic shared memory of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Bytes."""
    cooperative: bool = False

    def fault(self) -> str | None:
        """Reason why no GPU can launch this shape, or None."""
        for name, sizes, limits in (
            ("grid", self.grid, MAX_GRID),
            ("block", self.block, MAX_BLOCK),
        ):
            if any(not 1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
                most = _product_text(limits)
                return f"{name} of {_product_text(sizes)}: each must be from 1 to {most}"
        threads = self.block[0] * self.block[1] * self.block[2]
        if threads > MAX_THREADS:
            return f"block of {_product_text(self.block)} threads: at most {MAX_THREADS}"
        return f"shared memory of {self.shared} bytes" if self.shared < 0 else None


@dataclass(frozen=True)
class CudaFile:
    """Kernels of a file with their arguments and launch settings, which variants may override."""

    base: Path
    """Folder that names of files are relative to."""
    source: str | None
    kernel: str | None
    function: str | None
    """Host function of the file that launches kernels itself, in place of a kernel."""
    launches: Sequence[Params] | None
    """Settings of each launch of a variant that has no kernel of its own; None: there is one."""
    tensors: tuple[TensorArgument, ...]
    scalars: Mapping[str, Arithmetic]
    """By name of the argument."""
    structs: Mapping[str, Mapping[str, str]]
    """By name of an argument that is a struct, given by value: field, as C++ writes it after a dot
    → name of a tensor, or arithmetic. Other fields are zero."""
    arguments: tuple[str, ...]
    """Names of tensors and scalars, in the order of the kernel's parameters."""
    grid: Any
    block: Any
    shared: Any
    cooperative: bool
    define: Mapping[str, Value] | None
    """Macro → text with placeholders; None: a macro for each parameter in capitals.

    A macro `size` would change the headers of C++ and CUDA, which have this name everywhere.
    """
    reference: str
    flops: Arithmetic | None
    bytes: Arithmetic | None

    def source_of(self, variant: Params) -> Path:
        """The `.cu` file of a variant; raises ExpressionError without a named file."""
        return self.base / str(self._setting(variant, "source", self.source))

    def steps(self, variant: Params) -> tuple[Params, ...]:
        """Parameters of each launch of a variant, in order: the variant's and the launch's.

        The other methods, such as `kernel_of`, take one of them as their variant.
        """
        has_own_launches = "launches" in variant
        launches = _launches(variant["launches"]) if has_own_launches else self.launches
        names_one = not {"kernel", "function"}.isdisjoint(variant)
        if not launches or (names_one and not has_own_launches):
            return (variant,)
        shared_params = {name: value for name, value in variant.items() if name != "launches"}
        return tuple({**shared_params, **launch} for launch in launches)

    def is_function(self, variant: Params) -> bool:
        """Whether a variant calls a host function, and launches no kernel itself."""
        return "function" in variant or ("kernel" not in variant and self.function is not None)

    def name_text(self, variant: Params) -> str:
        """Name of a variant's kernel or host function, with placeholders."""
        if self.is_function(variant):
            return str(self._setting(variant, "function", self.function))
        return str(self._setting(variant, "kernel", self.kernel))

    def kernel_of(self, variant: Params) -> str:
        """Kernel or host function of a variant with its template arguments."""
        return fill(self.name_text(variant), variant)

    def macros(self, variant: Params) -> dict[str, str | int]:
        """Macro definitions for compiling a variant's file."""
        if self.define is not None:
            filled = {
                name: self._macro_value(value, variant) for name, value in self.define.items()
            }
            return {name: text for name, text in filled.items() if text is not None}
        # A macro of a template argument's name would stand in the place of its declaration.
        macro_names = variant.keys() - self._kernel_parameters(variant)
        return {
            name: cpp_text(value)
            for name, value in variant.items()
            if name in macro_names and name.isupper() and value is not None
        }

    def launch_shape(self, variant: Params, problem: Params) -> LaunchShape | None:
        """Grid, block and shared memory, None of a host function, which has its own.

        Raises ExpressionError for one without a value.
        """
        if self.is_function(variant):
            return None
        values = {**variant, **problem}
        return LaunchShape(
            grid=_three_values(self.expressions(variant, "grid"), values),
            block=_three_values(self.expressions(variant, "block"), values),
            shared=self.expressions(variant, "shared")[0].whole_number(values),
            cooperative=self.is_cooperative(variant),
        )

    def is_cooperative(self, variant: Params) -> bool:
        """Whether all blocks of a launch must run at once; ExpressionError for no truth value."""
        value = variant.get("cooperative", self.cooperative)
        if not isinstance(value, bool):
            raise ExpressionError(f"cooperative: must be true or false, not {value!r}")
        return value

    def expressions(self, variant: Params, name: str) -> tuple[Arithmetic, ...]:
        """Parsed `grid`, `block` or `shared` of a variant."""
        setting = self._setting(variant, name, getattr(self, name))
        try:
            parsed = parse_list(setting)
        except ExpressionError as error:
            raise ExpressionError(f"{name}: {error}") from None
        if len(parsed) > (1 if name == "shared" else 3):
            raise ExpressionError(f"{name}: {len(parsed)} values are too many")
        return parsed

    def arguments_of(self, variant: Params) -> tuple[str, ...]:
        """Arguments of a variant's kernel: names of tensors, or arithmetic."""
        listed_arguments = variant.get("arguments")
        if listed_arguments is None:
            return self.arguments
        return tuple(expression.text for expression in parse_list(listed_arguments))

    def scalar(self, argument: str) -> Arithmetic:
        """Arithmetic of an argument that is no tensor."""
        return self.scalars.get(argument) or parse(argument)

    def tensor(self, name: str) -> TensorArgument | None:
        """The tensor with a name; None where an argument is a scalar."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def leaves(self, variant: Params) -> tuple[str, ...]:
        """Arguments of a variant's kernel, structs field by field."""
        arguments = self.arguments_of(variant)
        return tuple(
            leaf
            for name in arguments
            for leaf in (self.structs[name].values() if name in self.structs else (name,))
        )

    def at_launch(self, variant: Params) -> dict[str, Value]:
        """Parameters that act when a variant's kernels are launched, not when they are compiled."""
        launches = [self._texts_at_launch(step) for step in self.steps(variant)]
        used_names = {name for _, _, names in launches for name in names}
        return {
            "launch": "; ".join(launch for launch, _, _ in launches),
            "scalars": "; ".join(scalars for _, scalars, _ in launches),
            **{name: variant[name] for name in sorted(used_names) if name in variant},
        }

    def _texts_at_launch(self, step: Params) -> tuple[str, str, set[str]]:
        """A launch in C++ syntax, its scalar arguments, and the names that both depend on."""
        is_function = self.is_function(step)
        shapes = () if is_function else ("grid", "block", "shared")
        parts = [self.expressions(step, name) for name in shapes]
        arguments = [a for a in self.leaves(step) if self.tensor(a) is None]
        parts.append(tuple(self.scalar(argument) for argument in arguments))
        texts = [", ".join(expression.text for expression in part) for part in parts]
        used_names = {name for part in parts for expression in part for name in expression.names}
        tensors = (tensor for tensor in map(self.tensor, self.leaves(step)) if tensor is not None)
        sizes = (size for tensor in tensors if tensor.scratch for size in tensor.shape)
        used_names.update(name for size in sizes for name in size.names)
        shape = "; ".join([*texts[:-1], *["cooperative"] * self.is_cooperative(step)])
        # Kernels are told apart by their machine code, which has no names.
        launched = self.kernel_of(step) if is_function else f"<<<{shape}>>>"
        return f"{launched}({', '.join(self.leaves(step))})", texts[-1], used_names

    def used_parameters(self, variant: Params) -> set[str]:
        """Parameters of a variant that its program or launch depends on."""
        in_kernels = self._kernel_parameters(variant)
        templates = (str(value) for value in (self.define or {}).values())
        in_macros = (name for text in templates for name in placeholders(text))
        macros = self.macros(variant) if self.define is None else {}
        # `variant` is the only parameter of one that has nothing but a name.
        return {*OVERRIDES, "variant", *in_kernels, *in_macros, *macros, *self.at_launch(variant)}

    def _kernel_parameters(self, variant: Params) -> set[str]:
        """Parameters in braces in the names of a variant's kernels and functions."""
        texts = map(self.name_text, self.steps(variant))
        return {name for text in texts for name in placeholders(text)}

    def _macro_value(self, value: Value, variant: Params) -> str | int | None:
        """Value of a macro; None where it stands for a parameter that the variant lacks."""
        if isinstance(value, str):
            names = placeholders(value)
            is_single = len(names) == 1 and value == f"{{{names[0]}}}"
            lacks = is_single and variant.get(names[0]) is None
            return None if lacks else fill(value, variant)
        return None if value is None else cpp_text(value)

    @staticmethod
    def _setting(variant: Params, name: str, default: Any) -> Any:
        value = variant.get(name, default)
        if value is None:
            hint = "; a host function has its own, and is named by `function`"
            raise ExpressionError(
                f"no {name}: give it for the workload, or for this variant"
                f"{hint if name in OF_KERNEL else ''}"
            )
        return value


def read_description(document: Mapping[str, Any]) -> CudaFile:
    """Description from its JSON form; raises ExpressionError for invalid arithmetic."""
    arguments = document["arguments"]
    structs = {
        n: a["struct"] for n, a in arguments.items() if isinstance(a, Mapping) and "struct" in a
    }
    described = {n: a for n, a in arguments.items() if n not in structs}
    # Tensors may be described where a struct first has them.
    described |= {
        field: value
        for fields in structs.values()
        for field, value in fields.items()
        if isinstance(value, Mapping)
    }
    tensors = {n: a for n, a in described.items() if isinstance(a, Mapping)}
    amounts = {
        name: None if document[name] is None else _parsed_as(name, document[name])
        for name in ("flops", "bytes")
    }
    return CudaFile(
        base=Path(document["base"]),
        source=document["source"],
        kernel=document["kernel"],
        function=document["function"],
        launches=document["launches"],
        tensors=tuple(_tensor(name, argument) for name, argument in tensors.items()),
        scalars={
            name: _parsed_as(name, name if value is None else value)
            for name, value in described.items()
            if name not in tensors
        },
        structs={name: _fields(name, fields) for name, fields in structs.items()},
        arguments=tuple(arguments),
        grid=document["grid"],
        block=document["block"],
        shared=document["shared"],
        cooperative=document["cooperative"],
        define=document["define"],
        reference=document["reference"],
        flops=amounts["flops"],
        bytes=amounts["bytes"],
    )


def parse_list(source: Any) -> tuple[Arithmetic, ...]:
    """Arithmetic of a list, of a text with commas, or of a single value."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        return tuple(parse(item) for item in source)
    try:
        root = ast.parse(f"({source},)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (parse(source),)  # which says what is wrong with it
    items = root.elts if isinstance(root, ast.Tuple) else [root]
    return tuple(parse(ast.unparse(item)) for item in items)


def cpp_text(value: Value) -> str | int:
    """A parameter's value in C++ syntax; a dtype becomes the name of its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int) else CPP_TYPES.get(str(value), str(value))


def placeholders(text: str) -> tuple[str, ...]:
    """Names in braces; raises ExpressionError for any other use of a brace."""
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ExpressionError(f"braces in '{text}': {error}; write {{{{ for a brace") from None
    return tuple(name for _, name, _, _ in pieces if name is not None)


def fill(text: str, variant: Params) -> str:
    """Text with its placeholders filled; raises ExpressionError for one without a value."""
    for name in placeholders(text):
        if name not in variant:
            raise ExpressionError(f"nothing fills {{{name}}} in '{text}'")
    pieces = string.Formatter().parse(text)
    return "".join(
        literal + ("" if name is None else str(cpp_text(variant[name])))
        for literal, name, _, _ in pieces
    )


def _launches(text: Value) -> list[dict[str, Value]]:
    """Launches of a variant, from the text that the spec has in its parameters."""
    try:
        return [dict(launch) for launch in json.loads(str(text))]
    except (ValueError, TypeError):
        raise ExpressionError(
            f"launches: {text!r} is no list of launches; they stand beside a variant of "
            "`variants.list`, or in `workload`"
        ) from None


def _fields(name: str, fields: Mapping[str, Any]) -> dict[str, str]:
    """Fields of a struct: names of tensors, or texts checked to be arithmetic."""
    texts = {
        field: field if value is None or isinstance(value, Mapping) else str(value)
        for field, value in fields.items()
    }
    for field, text in texts.items():
        _parsed_as(f"{name}: {field}", text)
    return texts


def _tensor(name: str, argument: Mapping[str, Any]) -> TensorArgument:
    output, scratch = bool(argument["output"]), bool(argument["scratch"])
    setting = argument["fill"]
    is_unfilled = setting is None and (output or scratch)
    return TensorArgument(
        name=name,
        shape=tuple(_parsed_as(f"{name}: shape", size) for size in argument["shape"]),
        dtype=argument["dtype"],
        # Like an output, scratch memory is uninitialised by default.
        fill=None if is_unfilled else _fill("default" if setting is None else setting),
        output=output,
        scratch=scratch,
        pointers=argument["pointers"],
    )


def _fill(setting: Any) -> Fill:
    """Fill of a tensor, as the spec has it: a name, a number, or a name with two numbers."""
    if isinstance(setting, str):
        return Fill(setting, FILLS.get(setting, ()))
    if isinstance(setting, Mapping):
        ((kind, numbers),) = setting.items()
        return Fill(kind, tuple(numbers))
    return Fill("constant", (setting,))


def _parsed_as(name: str, source: Any) -> Arithmetic:
    try:
        return parse(source)
    except ExpressionError as error:
        raise ExpressionError(f"{name}: {error}") from None


def _three_values(expressions: Sequence[Arithmetic], values: Params) -> tuple[int, int, int]:
    sizes = [expression.whole_number(values) for expression in expressions]
    x, y, z = (*sizes, *[1] * (3 - len(sizes)))
    return x, y, z


def _product_text(sizes: Iterable[int]) -> str:
    return " x ".join(str(size) for size in sizes)
