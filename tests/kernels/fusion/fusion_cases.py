"""Small problems of every operator, and how far a launch is from what is expected of it."""

import math

from fusion import workload
from fusion.operators import OPERATORS

SMALL = {
    **{name: {"operator": name, "dim0": 37, "dim1": 50} for name in OPERATORS},
    **{
        name: {"operator": name, "dim0": 9, "dim1": 11, "batch": 2, "channels": 4}
        for name in OPERATORS
        if name.startswith("conv_")
    },
    "attention": {"operator": "attention", "batch": 2, "seq_len": 48, "heads": 3, "head_dim": 16},
}


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def excess(launch, variant, problem, inputs):
    """Largest error in units of what is allowed, and infinite where shapes or NaNs differ."""
    wanted, (absolute, relative) = workload.expected(variant, problem, inputs)
    got = as_tuple(launch())
    if [each.shape for each in got] != [each.shape for each in wanted]:
        return math.inf
    largest = 0.0
    for output, right in zip(got, wanted, strict=True):
        error = (output.double() - right.double()).abs()
        allowed = absolute + relative * right.double().abs()
        largest = max(largest, (error / allowed).nan_to_num(nan=math.inf).max().item())
    return largest


def prepared(implementation, problem, device, seed=1):
    """Give a launch, its variant and its inputs."""
    variant = {"implementation": implementation}
    inputs = workload.make_inputs(problem, device, seed)
    return workload.prepare(variant, problem, inputs, None), variant, inputs
