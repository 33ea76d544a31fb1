"""Launches of the hand-written Triton kernels: blocks, tiles and warps by size.

Nothing is tuned while it runs. Triton itself is imported only when a kernel is asked for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fusion import eager
from fusion.launches import Call

FLAT_BLOCK = 2048
"""Elements of a program of the pointwise kernel: 16 for each thread of 4 warps, so that a thread
has four loads of 16 bytes under way."""
FLAT_WARPS = 4

SMALL_TILE = 2048
"""Elements that a program takes of short rows, as many of them as that is."""

MAX_COLUMNS_AT_ONCE = 32768
"""Longest row that is held in registers: 32 elements for each of 1024 threads, which may have 64
registers each."""

PIECE = 16384
"""Elements of a longer row at a time. With 32 warps that takes 57 registers of a thread in softmax
and 64 in layer norm (Triton 3.6, sm_90), so that each multiprocessor has one row under way. If they
have 65536 elements, all of them fit into L2, and the second look at them stays there."""

ELEMENTS_PER_WARP = 1024
MIN_WARPS = 4
MAX_WARPS = 32

TILE_ROWS, TILE_COLUMNS = 8, 512
SQUARE_TILE = 64
"""Side of a tile where one matrix lies by rows and the other by columns: both then read 64
neighbours."""
TILE_WARPS = 8


@dataclass(frozen=True)
class RowPlan:
    """Rows, columns and warps of each program on a matrix."""

    rows: int
    """Rows of a program."""
    columns: int
    """Columns that a program takes at a time, a power of two."""
    warps: int
    holds_rows: bool
    """Whether a program holds whole rows; otherwise it reads each row twice, in pieces."""


def plan_rows(columns: int) -> RowPlan:
    """Rows, columns and warps of a program for rows of a length."""
    if columns > MAX_COLUMNS_AT_ONCE:
        return RowPlan(1, PIECE, MAX_WARPS, holds_rows=False)
    width = power_of_two(columns)
    rows = max(1, SMALL_TILE // width)
    warps = min(MAX_WARPS, max(MIN_WARPS, rows * width // ELEMENTS_PER_WARP))
    return RowPlan(rows, width, warps, holds_rows=True)


def plan_tile(columns: int) -> tuple[int, int]:
    """Rows and columns of a tile of a row-major matrix."""
    width = min(TILE_COLUMNS, power_of_two(columns))
    return TILE_ROWS * TILE_COLUMNS // width, width


def power_of_two(number: int) -> int:
    """The smallest power of two that is not less than a positive number."""
    return 1 << (number - 1).bit_length()


def require_triton(device: torch.device) -> None:
    """Raise RuntimeError where the hand-written kernels cannot run."""
    if device.type != "cuda":
        raise RuntimeError(
            f"the implementation triton is made of CUDA kernels and cannot run on {device.type}"
        )
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError(
            "the implementation triton needs the package triton, which is not installed here "
            "(torch brings it along where it is built for CUDA)"
        )


def make_call(operator: str, arguments: Sequence[torch.Tensor]) -> Call:
    """Call that starts an operator's kernel, which Triton compiles at the first call."""
    from fusion import triton_kernels

    return _STARTERS[operator](triton_kernels, *arguments)


def _pointwise_chain(kernels: Any, x: torch.Tensor) -> Call:
    def call() -> torch.Tensor:
        result = torch.empty_like(x)
        kernels.pointwise_chain[(_ceil(x.numel(), FLAT_BLOCK),)](
            x, result, x.numel(), BLOCK=FLAT_BLOCK, num_warps=FLAT_WARPS
        )
        return result

    return call


def _softmax(kernels: Any, x: torch.Tensor) -> Call:
    rows, columns = x.shape
    plan = plan_rows(columns)
    start = _start_rows(plan, kernels.softmax_rows, kernels.softmax_wide, rows, columns)

    def call() -> torch.Tensor:
        result = torch.empty_like(x)
        start(x, result)
        return result

    return call


def _layer_norm(kernels: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Call:
    rows, columns = x.shape
    plan = plan_rows(columns)
    start = _start_rows(plan, kernels.layer_norm_rows, kernels.layer_norm_wide, rows, columns)

    def call() -> torch.Tensor:
        result = torch.empty_like(x)
        start(x, weight, bias, result)
        return result

    return call


def _start_rows(
    plan: RowPlan, by_rows: Any, wide: Any, rows: int, columns: int
) -> Callable[..., None]:
    """Function that starts one of two kernels with its tensors."""
    if plan.holds_rows:
        grid = (_ceil(rows, plan.rows),)
        sizes: tuple[int, ...] = (rows, columns)
        options = {"ROWS": plan.rows, "COLUMNS": plan.columns, "num_warps": plan.warps}
        kernel = by_rows
    else:
        grid, sizes = (rows,), (columns,)
        options = {"COLUMNS": plan.columns, "num_warps": plan.warps}
        kernel = wide

    def start(*tensors: torch.Tensor) -> None:
        kernel[grid](*tensors, *sizes, **options)

    return start


def _bias_dropout_add(
    kernels: Any, x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor
) -> Call:
    # The result lies in memory as that of eager code does, or the two would not do the same work.
    blank = eager.bias_dropout_add(*(tensor.to("meta") for tensor in (x, residual, bias)))
    # A column-major result is made like its transpose, with the bias along the rows.
    by_columns = blank.stride(0) < blank.stride(1)
    first, second = (x.t(), residual.t()) if by_columns else (x, residual)
    rows, columns = first.shape
    alike = (first.stride(0) < first.stride(1)) == (second.stride(0) < second.stride(1))
    height, width = plan_tile(columns) if alike else (SQUARE_TILE, SQUARE_TILE)
    grid = (_ceil(rows, height) * _ceil(columns, width),)

    def call() -> torch.Tensor:
        result = torch.empty_strided(
            blank.shape, blank.stride(), dtype=blank.dtype, device=x.device
        )
        target = result.t() if by_columns else result
        kernels.bias_dropout_add[grid](
            first,
            second,
            bias,
            target,
            rows,
            columns,
            *first.stride(),
            *second.stride(),
            *target.stride(),
            BIAS_BY_ROW=by_columns,
            ROWS=height,
            COLUMNS=width,
            num_warps=TILE_WARPS,
        )
        return result

    return call


def _bias_gelu(kernels: Any, x: torch.Tensor, bias: torch.Tensor) -> Call:
    rows, columns = x.shape
    height, width = plan_tile(columns)
    grid = (_ceil(rows, height) * _ceil(columns, width),)

    def call() -> torch.Tensor:
        result = torch.empty_like(x)
        kernels.bias_gelu[grid](
            x, bias, result, rows, columns, ROWS=height, COLUMNS=width, num_warps=TILE_WARPS
        )
        return result

    return call


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


_STARTERS: Mapping[str, Callable[..., Call]] = {
    "pointwise_chain": _pointwise_chain,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "bias_dropout_add": _bias_dropout_add,
    "bias_gelu": _bias_gelu,
}
