"""A kernel that runs on the host, so that its stamps can be collected without a GPU."""

import ctypes

import torch


def make_inputs(problem, device, seed):
    return torch.arange(float(problem["n"]))


def reference(problem, inputs):
    return 2 * inputs.double()


def prepare(variant, problem, inputs, library):
    if library is None:
        return lambda: inputs * 2
    launch, output = ctypes.CDLL(str(library)).launch, torch.empty_like(inputs)
    launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)

    def call():
        launch(inputs.data_ptr(), output.data_ptr(), len(inputs))
        return output

    return call
