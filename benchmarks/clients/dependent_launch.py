"""Two kernels in a row, and the same by programmatic dependent launch: the second begins early."""

import torch
import triton
import triton.language as tl

import profiler

ELEMENTS = 1024


@triton.jit
def scaled(x, out, factor, early: tl.constexpr, size: tl.constexpr):
    if early:
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * size + tl.arange(0, size)
    values = tl.load(x + at)
    if early:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + at, factor * values)


rows = profiler.Experiment("dependent-launch", problems={"n": [2**22]}, collect={"device": "cuda"})


@rows.inputs
def inputs(n, device):
    return torch.randn(n)


def scaled_twice(x, early):
    for _ in range(2):
        out = torch.empty_like(x)
        scaled[x.numel() // ELEMENTS,](x, out, 1.5, early, ELEMENTS, launch_pdl=early)
        x = out
    return x


@rows.variant(baseline=True)
def in_a_row(x):
    return scaled_twice(x, early=False)


@rows.variant
def dependent(x):
    """Under CUPTI the sum of both; by the timer the second begins while the first ends."""
    return scaled_twice(x, early=True)
