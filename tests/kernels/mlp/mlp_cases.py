"""A small network, and how far a step is from what is expected of it."""

import math

import torch

from mlp import workload

SMALL = {"layers": 3, "width": 64, "batch": 16}


def small(optimizer):
    return {"optimizer": optimizer, **SMALL}


def prepared(implementation, problem, device, seed=1):
    """Give a step and its inputs."""
    inputs = workload.make_inputs(problem, torch.device(device), seed)
    return workload.prepare({"implementation": implementation}, problem, inputs, None), inputs


def excess(got, right):
    """Largest error in units of what is allowed, infinite where numbers or shapes differ."""
    if [each.shape for each in got] != [each.shape for each in right]:
        return math.inf
    absolute, relative = workload.TOLERANCES["float32"]
    errors = (
        (one.double() - other).abs() / (absolute + relative * other.abs())
        for one, other in zip(got, right, strict=True)
    )
    return max(error.nan_to_num(nan=math.inf).max().item() for error in errors)
