"""Variants of a `.cu` file: what to compile for each, and what no GPU can launch; no torch."""

from __future__ import annotations

import json
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
"""Source that starts any kernel of a file that is included before it."""
LAUNCH_HEADER = _SOURCES / "launch.cuh"
"""What the launcher needs; included first, because macros of the user's file would change it."""


class CudaFileSpace:
    """Functions of a workload's space for a description."""

    def __init__(self, description: CudaFile) -> None:
        self._description = description

    def variant_name(self, params: Params) -> str | None:
        """`tiled<32, 8>`: the kernel, or the expression of torch; None where that tells nothing."""
        if "torch" in params:
            return str(params["torch"])
        try:
            kernel = self._description.kernel_of(params)
            inside = placeholders(str(params.get("kernel", self._description.kernel)))
        except ExpressionError:  # said with its line once the variants are known
            return None
        if "kernel" not in params and not inside:
            return None
        rest = {n: value for n, value in params.items() if n not in ("kernel", *inside)}
        return ",".join((kernel, *map(_written, rest.items())))

    def recipe(self, params: Params) -> Recipe | None:
        """Launcher with the user's file in front; None where torch runs."""
        if "torch" in params:
            return None
        description = self._description
        return Recipe(
            sources=(LAUNCHER,),
            included=(LAUNCH_HEADER, description.source_of(params).resolve()),
            defines={
                **description.macros(params),
                "PROFILER_KERNEL": description.kernel_of(params),
                "PROFILER_ARGUMENTS": len(description.arguments_of(params)),
                "PROFILER_TENSORS": _tensor_checks(description, params),
            },
        )

    def check_cell(self, variant_params: Params, problem_params: Params) -> str | None:
        """Reason why no GPU can launch this, or None."""
        if "torch" in variant_params:
            return None
        return self._description.launch_shape(variant_params, problem_params).fault()

    def at_launch(self, params: Params) -> Params:
        """Parameters that act at a launch, with the expressions of grid, block and arguments."""
        return {} if "torch" in params else self._description.at_launch(params)


def _tensor_checks(description: CudaFile, params: Params) -> str:
    """Macros of launch.cuh that refuse tensors by the types of the kernel's parameters."""
    places = enumerate(description.arguments_of(params), start=1)
    tensors = ((place, description.tensor(name)) for place, name in places)
    return " ".join(_tensor_check(place, tensor) for place, tensor in tensors if tensor is not None)


def _tensor_check(place: int, tensor: TensorArgument) -> str:
    kind = KINDS.get(tensor.dtype)
    if kind is None:
        return f"PROFILER_UNTYPED_TENSOR({place},{tensor.name})"
    return f"PROFILER_TENSOR({place},{tensor.name},{tensor.dtype},{kind[0]},{kind[1:]})"


def _written(parameter: tuple[str, Value]) -> str:
    """`tile=32`; text that holds more than one word in quotes."""
    name, value = parameter
    plain = isinstance(value, str) and value.isidentifier()
    return f"{name}={value if plain else json.dumps(value)}"
