"""Variants of a `.cu` file: what to compile for each, and what no GPU can launch; no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from profiler.kernels.arithmetic import ExpressionError, Value
from profiler.kernels.cuda_file.description import (
    KINDS,
    CudaFile,
    Params,
    TensorArgument,
    placeholders,
)
from profiler.kernels.recipe import Recipe

_SOURCES = Path(__file__).resolve().parent / "src"
LAUNCHER = _SOURCES / "launcher.cu"
"""Source that starts any kernel of the file included before it."""
LAUNCH_HEADER = _SOURCES / "launch.cuh"
"""Header of the launcher, included first, because macros of the user's file would change it."""


class CudaFileSpace:
    """Space of a workload, made from a description."""

    def __init__(self, description: CudaFile) -> None:
        self._description = description

    def variant_name(self, params: Params) -> str | None:
        """Name `tiled<32, 8>` of the kernel, or the torch expression; None where all share it."""
        if "torch" in params:
            return str(params["torch"])
        try:
            steps = self._description.steps(params)
            kernels = [self._description.kernel_of(step) for step in steps]
            texts = map(self._description.name_text, steps)
            inside = {name for text in texts for name in placeholders(text)}
        except ExpressionError:  # said with its line once the variants are known
            return None
        naming = {"kernel", "function", "launches"}
        if not naming & params.keys() and not inside:
            return None
        in_name = {*naming, *inside}
        unnamed_params = {name: value for name, value in params.items() if name not in in_name}
        return ",".join((" + ".join(kernels), *map(_param_text, unnamed_params.items())))

    def recipe(self, params: Params) -> Recipe | None:
        """Recipe of the launcher with the user's file in front; None where torch runs."""
        if "torch" in params:
            return None
        description = self._description
        steps = description.steps(params)
        structs = " ".join(_struct_macros(description, steps))
        return Recipe(
            sources=(LAUNCHER,),
            included=(LAUNCH_HEADER, description.source_of(params).resolve()),
            defines={
                **description.macros(params),
                "PROFILER_KERNEL": ", ".join(description.kernel_of(step) for step in steps),
                "PROFILER_ARGUMENTS": ",".join(
                    str(len(description.arguments_of(step))) for step in steps
                ),
                "PROFILER_TENSORS": " ".join(_tensor_checks(description, steps)),
                **({"PROFILER_STRUCTS": structs} if structs else {}),
            },
        )

    def check_cell(self, variant_params: Params, problem_params: Params) -> str | None:
        """Reason why no GPU can launch this, or None."""
        if "torch" in variant_params:
            return None
        description, steps = self._description, self._description.steps(variant_params)
        shapes = (description.launch_shape(step, problem_params) for step in steps)
        faults = (shape.fault() for shape in shapes if shape is not None)
        return next((fault for fault in faults if fault is not None), None)

    def at_launch(self, params: Params) -> Params:
        """Parameters that act at a launch, with the expressions of grid, block and arguments."""
        return {} if "torch" in params else self._description.at_launch(params)


def _tensor_checks(description: CudaFile, steps: Sequence[Params]) -> Iterator[str]:
    """Macros of launch.cuh that check tensors against the types of the kernels' parameters."""
    for launch, step in enumerate(steps):
        for place, name in enumerate(description.arguments_of(step), start=1):
            tensor = description.tensor(name)
            if tensor is not None:
                yield _tensor_macro("TENSOR", f"{launch},{place},{name}", tensor)


def _struct_macros(description: CudaFile, steps: Sequence[Params]) -> Iterator[str]:
    """Macros of launch.cuh that set the fields of structs, in the order of their arguments."""
    for launch, step in enumerate(steps):
        for place, name in enumerate(description.arguments_of(step), start=1):
            if name in description.structs:
                fields = (
                    _field_macro(description, f"{launch},{place}", name, field, value)
                    for field, value in description.structs[name].items()
                )
                yield f"PROFILER_STRUCT({launch},{place},{name},{' '.join(fields)})"


def _field_macro(description: CudaFile, at: str, struct: str, field: str, value: str) -> str:
    tensor = description.tensor(value)
    if tensor is None:
        return f"PROFILER_FIELD({at},{struct}.{field},{field})"
    return _tensor_macro("FIELD_TENSOR", f"{at},{struct}.{field},{field}", tensor)


def _tensor_macro(kind: str, place: str, tensor: TensorArgument) -> str:
    if tensor.pointers:
        return f"PROFILER_{kind}({place},pointers,p,8)"
    elements = KINDS.get(tensor.dtype)
    if elements is None:
        return f"PROFILER_UNTYPED_{kind}({place})"
    return f"PROFILER_{kind}({place},{tensor.dtype},{elements[0]},{elements[1:]})"


def _param_text(parameter: tuple[str, Value]) -> str:
    """`tile=32` of a parameter; a text of several words is quoted."""
    name, value = parameter
    plain = isinstance(value, str) and value.isidentifier()
    return f"{name}={value if plain else json.dumps(value)}"
