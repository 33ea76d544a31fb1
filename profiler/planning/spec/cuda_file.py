"""The kind of workload that is a `.cu` file and its description."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from profiler.kernels.arithmetic import ExpressionError, parse
from profiler.kernels.cuda_file.description import FILLS, CudaFile, parse_list, read_description
from profiler.kernels.cuda_file.torch_syntax import parse_torch, split_function
from profiler.planning.spec.source import kind_of
from profiler.planning.spec.values import (
    PARAMETER_NAME,
    SCALAR_SCHEMA,
    Name,
    OrSingle,
    ParameterName,
    Scalar,
    SpecModel,
    Text,
    as_list,
    did_you_mean,
    wrong,
)

TARGET = "profiler.kernels.cuda_file.workload"
"""Module that the runner loads, with the description."""

RANDOM_FILLS = tuple(name for name, numbers in FILLS.items() if numbers)
_VARYING_FILLS = (*RANDOM_FILLS, "arange")
_FIELD = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d+\])*")


def _check_arithmetic(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong(f"must be a number or arithmetic over parameters, not {kind_of(value)}")
    if isinstance(value, float):
        _require_finite(value)
    try:
        return parse(value).text
    except ExpressionError as error:
        cut = isinstance(value, str) and value.count("(") != value.count(")")
        hint = "; inside of brackets YAML ends a text at a comma: put it in quotes" if cut else ""
        raise wrong(f"{error}{hint}") from None


def _check_sizes(value: object) -> object:
    """A text with commas is a list of sizes; YAML cuts `[ceil_div(n, 4)]` at its comma."""
    sizes = as_list(value)
    if not isinstance(sizes, list | tuple) or not all(_is_size(size) for size in sizes):
        return sizes
    try:
        return [size.text for size in parse_list(", ".join(map(str, sizes)))]
    except ExpressionError as error:
        raise wrong(str(error)) from None


def _is_size(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_expression(value: str) -> str:
    if split_function(value) is None:
        try:
            parse_torch(value)
        except ExpressionError as error:
            raise wrong(str(error)) from None
    return value


def _check_fill(value: object) -> object:
    """A name, a number, or a mapping of a name to its two numbers."""
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in RANDOM_FILLS:
            raise wrong(
                f"must be one of {', '.join(RANDOM_FILLS)} with two numbers: `{{uniform: [-1, 1]}}`"
            )
        numbers = next(iter(value.values()))
        if not isinstance(numbers, list | tuple) or len(numbers) != 2:
            raise wrong("needs a list of two numbers: `{uniform: [-1, 1]}`")
        for number in numbers:
            _check_arithmetic(number)
        return value
    if isinstance(value, str):
        if value not in FILLS:
            raise wrong(f"no such fill: {value!r}{did_you_mean(value, FILLS)}")
        return value
    if isinstance(value, float) and math.isinf(value):  # JSON holds its name
        return str(value)
    if isinstance(value, int | float):
        return _require_finite(value)
    raise wrong(f"must be one of {', '.join(FILLS)}, or a number, not {kind_of(value)}")


def _require_finite(value: float) -> float:
    """The number; raises ValueError for NaN and infinities, which JSON cannot hold."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise wrong(f"must be finite, not {number}; the largest float32 is 3.4e38")
    return number


_ARITHMETIC_SCHEMA = {"type": ["string", "number"]}
ArithmeticText = Annotated[
    str, BeforeValidator(_check_arithmetic), WithJsonSchema(_ARITHMETIC_SCHEMA)
]
Sizes = Annotated[
    tuple[ArithmeticText, ...],
    Field(min_length=1, max_length=3),
    BeforeValidator(_check_sizes),
    OrSingle(),
]
Shape = Annotated[
    tuple[ArithmeticText, ...], Field(min_length=1), BeforeValidator(_check_sizes), OrSingle()
]
_PAIR = {"type": "array", "items": _ARITHMETIC_SCHEMA, "minItems": 2, "maxItems": 2}
FillValue = Annotated[
    Any,
    AfterValidator(_check_fill),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(FILLS)},
                {"type": "number"},
                {"type": "object", "additionalProperties": _PAIR, "maxProperties": 1},
            ]
        }
    ),
]


class TensorArgument(SpecModel):
    """A tensor whose address a kernel gets."""

    shape: Shape = Field(
        description="Sizes: numbers, or arithmetic over the parameters of the problem."
    )
    dtype: Name = Field(
        default="float32", description="A dtype of torch, or the parameter whose value is one."
    )
    fill: FillValue | None = Field(
        default=None,
        description="`normal`, `uniform`, `integers` (or `{uniform: [-1, n]}`: mean and deviation, "
        "or the least and the bound above, as arithmetic over the parameters of the problem), "
        "`zeros`, `ones`, `inf`, `-inf`, `arange`, or a number; random values come from the run's "
        "seed. Default: "
        "`normal`, of integers `integers`, of an output none. An output with a fill is set "
        "to it before every launch, outside of the measurement.",
    )
    output: Annotated[bool, Strict()] = Field(
        default=False, description="Whether the kernel writes the tensor; outputs are checked."
    )
    scratch: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether the tensor only passes between the launches of a variant: no "
        "input, no result. Parameters of the variant may be its sizes; its fill "
        "is `zeros`, `ones` or a number.",
    )
    pointers: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether the kernel takes a pointer to pointers (`float**`): the addresses of "
        "its parts along the first dimension, `x[0]`, `x[1]`, …",
    )

    @model_validator(mode="after")
    def _is_scratch_alone(self) -> Self:
        if self.scratch and self.output:
            raise wrong("scratch: an output is none; leave one of the two out")
        if self.scratch and (isinstance(self.fill, Mapping) or self.fill in _VARYING_FILLS):
            raise wrong("fill: scratch memory takes zeros, ones or a number; default: it has none")
        return self


def _check_scalar(value: object) -> str | None:
    if isinstance(value, str) and value.rstrip().endswith("*"):
        raise wrong(f"a type, {value!r}; a tensor is a mapping: `{{shape: [n], dtype: float32}}`")
    return None if value is None else _check_arithmetic(value)


def _kind_of_argument(value: object) -> str:
    if isinstance(value, StructArgument) or (isinstance(value, Mapping) and "struct" in value):
        return "(struct)"
    return "(tensor)" if isinstance(value, Mapping | TensorArgument) else "(scalar)"


ScalarArgument = Annotated[
    str | None,
    BeforeValidator(_check_scalar),
    WithJsonSchema({"type": ["string", "number", "null"]}),
    Tag("(scalar)"),
]
FieldArgument = Annotated[
    Annotated[TensorArgument, Tag("(tensor)")] | ScalarArgument, Discriminator(_kind_of_argument)
]


class StructArgument(SpecModel):
    """A struct that a kernel takes by value."""

    struct: dict[Name, FieldArgument] = Field(
        description="Fields in any order, as C++ has them behind a dot (`n`, `layout.stride`, "
        "`sizes[0]`), with arithmetic, the name of a tensor, or a tensor described here; a name "
        "alone is the parameter or tensor of that name. The compiler knows their types; fields "
        "that are left out are zero.",
    )

    @model_validator(mode="after")
    def _fields_are_named(self) -> Self:
        for field, value in self.struct.items():
            if not _FIELD.fullmatch(field):
                raise wrong(f"no field of a struct: {field!r}; say n, layout.stride or sizes[0]")
            if not isinstance(value, str) and not PARAMETER_NAME.fullmatch(field):
                raise wrong(f"{field}: a field of a field is set to arithmetic or a tensor's name")
        return self


Argument = Annotated[
    Annotated[TensorArgument, Tag("(tensor)")]
    | Annotated[StructArgument, Tag("(struct)")]
    | ScalarArgument,
    Discriminator(_kind_of_argument),
]


def _check_arguments(value: object) -> object:
    if not isinstance(value, Mapping):
        raise wrong(
            "must be a mapping of names in the order of the kernel's parameters, with the shape of "
            f"each tensor: `{{x: {{shape: [n]}}, n}}`, not {kind_of(value)}"
        )
    return value


def _check_names(value: object) -> object:
    """A list of arguments as one text."""
    joined = ", ".join(map(str, value)) if isinstance(value, list) else value
    if not isinstance(joined, str):
        raise wrong(f"must be names and arithmetic (`x, out, rows`), not {kind_of(joined)}")
    try:
        parse_list(joined)
    except ExpressionError as error:
        raise wrong(str(error)) from None
    return joined


Kernel = Annotated[
    Name | None,
    Field(
        description="Name of the kernel, with its namespace and template arguments; parameters of "
        "the variant in braces: `tiled<{tile}, {rows}>`."
    ),
]


HostFunction = Annotated[
    Name | None,
    Field(
        description="Name of a host function of the file that launches kernels itself, in place of "
        "`kernel`: it has no `grid`, `block` and `shared`."
    ),
]


class KernelLaunch(SpecModel):
    """One of several launches in a row; what it does not say is that of the variant."""

    kernel: Kernel = None
    function: HostFunction = None
    grid: Sizes | None = Field(default=None, description="Blocks in x, y and z.")
    block: Sizes | None = Field(default=None, description="Threads of a block in x, y and z.")
    shared: ArithmeticText | None = Field(
        default=None, description="Dynamic shared memory of a block, in bytes."
    )
    cooperative: Annotated[bool, Strict()] | None = Field(
        default=None, description="Whether all its blocks run at once, as a sync of the grid needs."
    )
    arguments: Annotated[
        str | None,
        BeforeValidator(_check_names),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": SCALAR_SCHEMA}]}),
    ] = Field(
        default=None,
        description="Names of `workload.arguments` and arithmetic, in the order of the kernel's "
        "parameters: `x, partial, rows // 2`, or a list. Default: all of them.",
    )


Launches = Annotated[tuple[KernelLaunch, ...], Field(min_length=1)]


def launches_text(launches: Launches) -> str:
    """The launches of a variant as one text, because values of parameters are scalars."""
    return json.dumps([launch.model_dump(mode="json", exclude_none=True) for launch in launches])


def _check_macros(value: object) -> object:
    """A list of names stands for macros of these names."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: f"{{{name}}}" for name in value}
    return value


_MACRO_NAMES = {"type": "array", "items": {"type": "string"}}
_MACRO_VALUES = {"type": "object", "additionalProperties": SCALAR_SCHEMA}
Macros = Annotated[
    dict[ParameterName, Scalar],
    BeforeValidator(_check_macros),
    WithJsonSchema({"anyOf": [_MACRO_NAMES, _MACRO_VALUES]}),
]


class CudaWorkload(SpecModel):
    """Kernels of a `.cu` file as it is: `__global__` functions, launched as described here.

    Variants may set `source`, `kernel`, `function`, `grid`, `block`, `shared`, `cooperative` and
    `arguments` as parameters, and have `launches` of their own.
    """

    source: Name | None = Field(
        default=None, description="The `.cu` file, relative to the spec's folder."
    )
    kernel: Kernel = None
    function: HostFunction = None
    launches: Launches | None = Field(
        default=None,
        description="Several launches in a row, in place of `kernel`. Each is a mapping of its own "
        "values of `kernel`, `grid`, `block`, `shared`, `cooperative` and `arguments`.",
    )
    arguments: Annotated[dict[ParameterName, Argument], BeforeValidator(_check_arguments)] = Field(
        min_length=1,
        description="Arguments in the order of the kernel's parameters: tensors, structs, and "
        "numbers as arithmetic over parameters. A name alone is the parameter of that name.",
    )
    grid: Sizes | None = Field(
        default=None,
        description="Blocks in x, y and z: arithmetic over parameters of variant and problem.",
    )
    block: Sizes | None = Field(default=None, description="Threads of a block in x, y and z.")
    shared: ArithmeticText = Field(
        default="0", description="Dynamic shared memory of a block, in bytes."
    )
    cooperative: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether all blocks run at once, as a sync of the whole grid needs: a "
        "cooperative launch, which fails for more blocks than the GPU holds.",
    )
    define: Macros | None = Field(
        default=None,
        description="Macros: names of parameters of the variant, or a mapping to values that hold "
        "them in braces: `{TILE: '{tile}'}`. Default: the parameters of a variant whose names "
        "are in capitals.",
    )
    reference: Annotated[Text, AfterValidator(_check_expression)] = Field(
        description="The right result: an expression of torch over the tensors, which are "
        "float64 in it (`x.T`, `softmax(x, dim=-1)`; several outputs: `a, b`), or a function of "
        "yours, `reference.py:transpose`, that gets `problem` and `inputs`.",
    )
    flops: ArithmeticText | None = Field(
        default=None, description="Floating-point operations of a problem."
    )
    bytes: ArithmeticText | None = Field(
        default=None, description="Least traffic to device memory of a problem."
    )

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.kernel is not None and self.function is not None:
            raise wrong("function: there is a kernel, too; leave one of the two out")
        return self

    def target(self, _base: Path) -> str:
        """Module that the runner loads."""
        return TARGET

    def document(self, base: Path) -> dict[str, Any]:
        """The description as JSON, with the folder of the spec."""
        launches = [launch.model_dump(exclude_none=True) for launch in self.launches or ()]
        return {
            **self.model_dump(mode="json"),
            "launches": launches or None,
            "base": str(base.resolve()),
        }

    def description(self, base: Path) -> CudaFile:
        """The description for the planner and the runner."""
        return read_description(self.document(base))


def is_cuda_file(workload: object) -> bool:
    """Whether the data of a spec describe a `.cu` file."""
    return (
        isinstance(workload, Mapping)
        and not {"module", "command"} & workload.keys()
        and (bool({"source", "arguments"} & workload.keys()))
    )


def with_joined_lists(variants: object) -> object:
    """Data of `variants` with each list of sizes or arguments as one text: `[32, 8]` as `32, 8`."""
    if not isinstance(variants, Mapping):
        return variants
    joined = {
        key: _joined(variants[key], text_of)
        for key, text_of in (("list", _text), ("matrix", _texts))
        if key in variants
    }
    return {**variants, **joined}


def _joined(data: object, text_of: Callable[[object], object]) -> object:
    """Variants or grids, with `text_of` the lists that are settings of a launch."""
    if isinstance(data, list):
        return [_joined(item, text_of) for item in data]
    if not isinstance(data, Mapping):
        return data
    changed = {key: text_of(value) for key, value in data.items() if key in _LISTS}
    if "params" in data:
        changed["params"] = _joined(data["params"], text_of)
    return {**data, **changed}


_LISTS = ("grid", "block", "arguments")


def _texts(values: object) -> object:
    return [_text(value) for value in values] if isinstance(values, list) else values


def _text(sizes: object) -> object:
    return (
        ", ".join(map(str, sizes))
        if isinstance(sizes, list) and all(map(_is_size, sizes))
        else sizes
    )
