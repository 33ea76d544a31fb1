"""Scales a vector with a compiled library whose launcher is host code, so that it runs anywhere."""

import ctypes

import torch
from factors import FACTOR


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(problem["size"], device=device, generator=generator)


def reference(problem, inputs):
    return inputs.double() * FACTOR


def prepare(variant, problem, inputs, library):
    if library is None:
        return lambda: inputs * FACTOR
    return LibraryLaunch(library, inputs)


class LibraryLaunch:
    def __init__(self, library, inputs):
        self.inputs = inputs
        self.outputs = (torch.empty_like(inputs),)
        self.scale = ctypes.CDLL(str(library)).scale
        self.scale.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]

    def __call__(self):
        (output,) = self.outputs
        self.scale(self.inputs.data_ptr(), output.data_ptr(), len(output))
        return output
