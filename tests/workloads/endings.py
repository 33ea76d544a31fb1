"""A workload on the CPU with a variant for every way in which a cell can end."""

import itertools
import os
import signal
import time
from pathlib import Path

import torch

# In small letters: what these say changes no number, and counts for no key.
STOP_AFTER = int(os.environ.get("endings_stop_after", "-1"))  # noqa: SIM112
"""Launches, of all variants together, after which the next one waits."""

GO = Path(os.environ.get("endings_go", "go"))  # noqa: SIM112
"""The file that it waits for."""

launches = itertools.count()

TOLERANCES = {"float32": (1e-6, 1e-5)}


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(problem["rows"], 8, device=device, generator=generator)


def reference(problem, inputs):
    return inputs.double().sum(dim=1)


def prepare(variant, problem, inputs, library):
    how = variant.get("how", "well")
    if how == "raise":
        raise RuntimeError("no such algorithm")

    def launch():
        if next(launches) == STOP_AFTER:
            wait_for_go()
        if how in ACTIONS:
            ACTIONS[how]()
        result = inputs.sum(dim=1)
        return result + 1 if how == "wrong" else result

    return launch


def wait_for_go():
    while not GO.exists():
        time.sleep(0.02)


def flops(problem):
    return 7 * problem["rows"]


def bytes(problem):  # noqa: A001 - the contract's name
    return 4 * 9 * problem["rows"]


def _exhaust():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


ACTIONS = {
    "exhaust": _exhaust,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    # As long as the stand-in for ncu needs to notice: the real one does not let go of a kernel.
    "fault": lambda: time.sleep(0.3),
    "hang": lambda: time.sleep(600),
}
