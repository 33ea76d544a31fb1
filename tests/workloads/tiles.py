"""A workload on the CPU whose variants take a time that is made up of their parameters.

The quickest is x = 4, y = 2; x = y = 1 ends the process, x = 6, y = 4 gives a wrong result.
"""

import os
import signal
import time

import torch

TOLERANCES = {"float32": (1e-6, 1e-5)}


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(problem["rows"], 8, device=device, generator=generator)


def reference(problem, inputs):
    return inputs.double().sum(dim=1)


def milliseconds(variant):
    """Time of a launch: far apart, because sleeps are longer where other processes run."""
    if "x" not in variant:
        return 3
    return 1 + 4 * abs(variant["x"] - 4) + 3 * abs(variant["y"] - 2)


def prepare(variant, problem, inputs, library):
    seconds = milliseconds(variant) * 1e-3
    corner = (variant.get("x"), variant.get("y"))

    def launch():
        if corner == (1, 1):
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(seconds)
        result = inputs.sum(dim=1)
        return result + 1 if corner == (6, 4) else result

    return launch
