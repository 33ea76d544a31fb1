"""Doubles a vector; some variants go wrong on purpose."""

import ctypes

import torch


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.rand(problem["n"], device=device, generator=generator)
    return values, torch.empty_like(values), torch.zeros(1, dtype=torch.int32, device=device)


def reference(problem, inputs):
    return inputs[0].double() * 2


def prepare(variant, problem, inputs, library):
    values, output, never = inputs
    if library is None:
        return _torch_launch(variant, values)
    function = ctypes.CDLL(str(library)).launch
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong] + [
        ctypes.c_void_p
    ] * 2

    def launch():
        stream = torch.cuda.current_stream().cuda_stream
        error = function(
            values.data_ptr(), output.data_ptr(), values.numel(), never.data_ptr(), stream
        )
        if error:
            raise RuntimeError(f"launch failed with cudaError {error}")
        return output

    launch.outputs = (output,)
    return launch


def _torch_launch(variant, values):
    if variant["mode"] == "too_big":
        return lambda: torch.empty(1 << 45, device=values.device)
    return lambda: values * 2


def flops(problem):
    return float(problem["n"])


def bytes(problem):  # noqa: A001 - the name that the contract gives it
    return 8.0 * problem["n"]
