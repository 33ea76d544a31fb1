"""A stand-in for Triton on a CPU: what the examples use of it, one program after another.

Kernels are ordinary Python here: a pointer is the flat memory of a tensor with offsets, and loads
and stores index it. The autotuner has the names and fields of Triton's, which the profiler reads.
"""

import torch

from triton import language
from triton.runtime.autotuner import Autotuner, Config, Heuristics

__all__ = [
    "Autotuner",
    "Config",
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
]


def cdiv(dividend, divisor):
    return -(-dividend // divisor)


def next_power_of_2(number):
    return 1 << max(number - 1, 0).bit_length()


class JITFunction:
    """A function that runs once for each place of its grid."""

    def __init__(self, fn):
        self.fn, self.__name__ = fn, fn.__name__
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])

    def __getitem__(self, grid):
        return lambda *args, **settings: self.run(*args, grid=grid, **settings)

    def run(self, *args, grid, num_warps=4, num_stages=3, **constants):
        del num_warps, num_stages
        named = dict(zip(self.arg_names, args, strict=False)) | constants
        sizes = grid(named) if callable(grid) else grid
        given = {
            name: language.Pointer(value.view(-1)) if isinstance(value, torch.Tensor) else value
            for name, value in named.items()
        }
        for language.program in range(sizes[0]):
            self.fn(**given)


def jit(fn):
    return JITFunction(fn)


def autotune(configs, key):
    return lambda fn: Autotuner(fn, configs, key)


def heuristics(values):
    return lambda fn: Heuristics(fn, values)
