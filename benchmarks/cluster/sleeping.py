"""A workload whose kernels sleep: it takes as long on a busy machine as on an idle one."""

import os
import time

import torch

TOLERANCES = {"float32": (1e-6, 1e-5)}
SLEEP_S = float(os.environ.get("SLEEP_S", "1.0"))


def make_inputs(problem, device, seed):  # noqa: ARG001 - what the runner gives
    """A vector of the length of the problem."""
    return torch.ones(problem["rows"], device=device)


def reference(problem, inputs):  # noqa: ARG001
    """The same vector in double precision."""
    return inputs.double()


def prepare(variant, problem, inputs, library):  # noqa: ARG001
    """Return a launch that sleeps."""

    def launch():
        time.sleep(SLEEP_S)
        return inputs.clone()

    return launch
