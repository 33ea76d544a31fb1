"""Loops compiled by Numba, and a kernel of its CUDA target where there is a GPU; needs `numba`."""

import numba
import numpy as np
from numba import cuda

import profiler

sums = profiler.Experiment(
    "numba-loops",
    problems={"n": [512, 2048]},
    tolerance={"float32": {"relative": 1e-4, "absolute": 1e-4}},
)


@sums.inputs
def inputs(n, device):
    x = np.random.rand(n, n).astype("float32")
    return cuda.to_device(x) if device.type == "cuda" else x


def sum_row(x, row, passes):
    total = np.float32(0)
    for _ in range(passes):
        for column in range(x.shape[1]):
            total += x[row, column]
    return total / passes


sum_on_host = numba.njit(sum_row)
sum_on_device = cuda.jit(device=True)(sum_row)


@numba.njit
def sum_rows(x, out, passes):
    for row in range(x.shape[0]):
        out[row] = sum_on_host(x, row, passes)


@cuda.jit
def sum_rows_kernel(x, out, passes):
    row = cuda.grid(1)
    if row < x.shape[0]:
        out[row] = sum_on_device(x, row, passes)


@sums.reference
def in_float64(x):
    return (x.copy_to_host() if cuda.is_cuda_array(x) else x).astype("float64").sum(1)


def summed(x, passes):
    if isinstance(x, np.ndarray):
        out = np.empty(len(x), "float32")
        sum_rows(x, out, passes)
    else:
        out = cuda.device_array(len(x), "float32")
        sum_rows_kernel[len(x) // 128, 128](x, out, passes)
    return out


@sums.variant(baseline=True)
def along_rows(x):
    return summed(x, 1)


@sums.variant
def eight_times(x):
    return summed(x, 8)


@sums.variant
def without_last_row(x):
    return summed(x, 1)[:-1]
