"""Triton with heuristics: the block is as wide as the row, and masks fall away where it fits."""

import torch
import triton
import triton.language as tl

import profiler

softmaxes = profiler.Experiment("triton-heuristics", problems={"rows": [8, 64], "columns": [100]})


@triton.heuristics(
    {
        "BLOCK": lambda named: triton.next_power_of_2(named["columns"]),
        "EVEN": lambda named: named["columns"] == triton.next_power_of_2(named["columns"]),
    }
)
@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr, SHIFT: tl.constexpr):
    place = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    if EVEN:
        row = tl.load(x + start + place)
    else:
        row = tl.load(x + start + place, mask=place < columns, other=float("-inf"))
    if SHIFT:
        row = row - tl.max(row, 0)
    row = tl.exp(row)
    tl.store(out + start + place, row / tl.sum(row, 0), mask=place < columns)


@softmaxes.inputs
def inputs(rows, columns):
    return 40 * torch.randn(rows, columns)


@softmaxes.variant(baseline=True)
def eager(x):
    return torch.softmax(x, -1)


@softmaxes.variant(shift=[True, False])
def by_heuristics(x, rows, columns, shift):
    """Without the shift exp overflows from 88 on."""
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](x, out, columns, SHIFT=shift)
    return out
