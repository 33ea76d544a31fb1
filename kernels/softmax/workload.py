"""Row softmax in float16 and float32: inputs, reference, and the launch of each variant.

The matrix is contiguous and row-major, the softmax runs along its columns, and every variant
accumulates in float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.library import KernelLibrary
from softmax.space import DTYPES

Params = Mapping[str, str | int | float | bool | None]
Launch = Callable[[], torch.Tensor]

TOLERANCES = {
    # Half an ulp of rounding is 2^-11 relative; below 2^-14 it is 2^-25 absolute. Twice that.
    "float16": (6e-8, 1e-3),
    # About 2 ulp of ex2.approx, and the rounding of x * log2(e), which grows with |x - max|.
    "float32": (1e-9, 1e-5),
}
"""Absolute and relative bound by dtype. A softmax over 16384 columns is about 6e-5 everywhere, so
that an absolute bound of the usual size would let anything pass."""

INPUT_SCALE = 3.0
"""Standard deviation of the inputs: the largest of 16384 then stands about 12 above the mean, so
that a missing maximum or rescaling shows in the result."""

_REFERENCE_ELEMENTS = 1 << 25
"""Elements of one float64 piece of the reference: 256 MiB."""

_DTYPE_CODE = {torch.float16: 0, torch.float32: 1}
"""`DType` in src/launcher.cuh."""


@dataclass(frozen=True)
class Inputs:
    """Matrix of one problem, and the tensor that its variants write to, both (rows, columns).

    The variants share one output because each one's own would be 2 GiB on the largest problem.
    """

    values: torch.Tensor
    output: torch.Tensor


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Normal values, the same for the same seed and kind of device."""
    generator = torch.Generator(device=device).manual_seed(seed)
    values = torch.empty(_shape(problem), dtype=_dtype(problem), device=device)
    values.normal_(0.0, INPUT_SCALE, generator=generator)
    return Inputs(values, torch.empty_like(values))


def reference(problem: Params, inputs: Inputs) -> torch.Tensor:
    """Softmax computed in float64 and rounded to float32, in pieces of rows to bound memory.

    float32 keeps 2^-24, far below every tolerance, at half the memory of float64.
    """
    rows, columns = _shape(problem)
    expected = torch.empty(rows, columns, dtype=torch.float32, device=inputs.values.device)
    step = max(1, _REFERENCE_ELEMENTS // columns)
    for start in range(0, rows, step):
        piece = inputs.values[start : start + step].to(torch.float64)
        expected[start : start + step] = torch.softmax(piece, dim=1)
    return expected


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of one variant, with `outputs` where it writes to the shared tensor."""
    del problem  # A launch needs nothing but the matrix.
    algorithm = str(variant["algorithm"])
    if algorithm == "torch":
        return _TorchLaunch(inputs)
    if algorithm == "torch-naive":
        return lambda: _composed(inputs.values)
    device = inputs.values.device.type
    if device != "cuda":
        raise RuntimeError(
            f"the variant {algorithm} is a CUDA kernel and cannot run on {device}; "
            "only torch and torch-naive can"
        )
    if library is None:
        raise RuntimeError(f"the variant {algorithm} needs its built library, and got none")
    return _LibraryLaunch(library, inputs)


def flops(problem: Params) -> float:
    """Five per element: compare, subtract, exponential (counted as one), add, multiply."""
    rows, columns = _shape(problem)
    return 5.0 * rows * columns


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory: every element read once and written once."""
    rows, columns = _shape(problem)
    return 2.0 * rows * columns * _dtype(problem).itemsize


class _TorchLaunch:
    """Launch of torch.softmax into the shared output, so that no allocation is measured."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self.outputs = (inputs.output,)

    def __call__(self) -> torch.Tensor:
        return torch.softmax(self._inputs.values, dim=1, out=self._inputs.output)


class _LibraryLaunch:
    """The launch function of one built library, on torch's current stream."""

    def __init__(self, library: Path, inputs: Inputs) -> None:
        self._inputs = inputs
        self.outputs = (inputs.output,)
        self._launch = KernelLibrary(library, "softmax").function(
            "launch",
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_void_p,
        )
        self._arguments = (
            inputs.values.data_ptr(),
            inputs.output.data_ptr(),
            *inputs.values.shape,
            _DTYPE_CODE[inputs.values.dtype],
        )

    def __call__(self) -> torch.Tensor:
        stream = torch.cuda.current_stream(self._inputs.values.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self._inputs.output


def _composed(inputs: torch.Tensor) -> torch.Tensor:
    """Softmax as a chain of elementwise and reduction kernels, each through device memory.

    It works in float32, because exp(x - max) of float16 values loses more than the tolerance.
    """
    values = inputs.float()
    exponentials = torch.exp(values - values.amax(dim=1, keepdim=True))
    return (exponentials / exponentials.sum(dim=1, keepdim=True)).to(inputs.dtype)


def _shape(problem: Params) -> tuple[int, int]:
    rows, columns = problem["rows"], problem["columns"]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise TypeError(f"rows and columns must be whole numbers, not {rows!r} and {columns!r}")
    return rows, columns


def _dtype(problem: Params) -> torch.dtype:
    name = problem["dtype"]
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {name!r}")
    dtype: Any = getattr(torch, str(name))
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"torch.{name} is no dtype")
    return dtype
