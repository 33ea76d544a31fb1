"""Loads, stores and what is calculated between them, on flat memory of tensors."""

import torch
from torch import arange, exp, maximum, rsqrt, where

__all__ = [
    "Pointer",
    "arange",
    "constexpr",
    "exp",
    "load",
    "max",
    "maximum",
    "program_id",
    "rsqrt",
    "store",
    "sum",
    "where",
]

constexpr = object()
program = 0


class Pointer:
    """Elements of a tensor from an offset, or several, on."""

    def __init__(self, memory, offsets=0):
        self.memory, self.offsets = memory, offsets

    def __add__(self, offsets):
        return Pointer(self.memory, self.offsets + offsets)


def program_id(axis):
    assert axis == 0
    return program


def load(pointer, mask=None, other=0.0):
    if mask is None:
        return pointer.memory[pointer.offsets]
    read = torch.full(pointer.offsets.shape, float(other), dtype=pointer.memory.dtype)
    read[mask] = pointer.memory[pointer.offsets[mask]]
    return read


def store(pointer, values, mask=None):
    if mask is None:
        pointer.memory[pointer.offsets] = values
    else:
        pointer.memory[pointer.offsets[mask]] = values[mask]


def sum(values, axis=0):  # noqa: A001 - as Triton calls it
    return values.sum(axis)


def max(values, axis=0):  # noqa: A001
    return values.amax(axis)
