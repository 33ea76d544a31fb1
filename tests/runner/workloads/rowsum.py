"""A workload with one variant for every way in which a cell can end."""

import io
import os
import signal
import sys
from contextlib import redirect_stderr

import torch

TOLERANCES = {"float32": (1e-6, 1e-5)}

_ASKED_TOO_MUCH = 1 << 50


def make_inputs(problem, device, seed):
    if problem.get("inputs") == "raise":
        raise ValueError("no such distribution")
    if problem.get("inputs") == "too large":
        return torch.empty(_ASKED_TOO_MUCH, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(problem["rows"], problem["columns"], device=device, generator=generator)


RIGHT = []
"""Right results so far."""


def reference(problem, inputs):
    if problem.get("reference") == "raise":
        raise ArithmeticError("no closed form")
    RIGHT.append(inputs.double().sum(dim=1))
    return RIGHT[-1]


def flops(problem):
    return problem["rows"] * (problem["columns"] - 1)


def bytes(problem):  # noqa: A001 - the contract's name
    return 4 * problem["rows"] * (problem["columns"] + 1)


class RowSum:
    """Writes the sum of each row of its inputs into its only output."""

    def __init__(self, inputs, how):
        self.inputs = inputs
        self.how = how
        self.launches = 0
        self.outputs = (torch.zeros(inputs.shape[0], device=inputs.device),)

    def __call__(self):
        self.launches += 1
        _BEFORE.get(self.how, _nothing)(self)
        torch.sum(self.inputs, dim=1, out=self.outputs[0])
        _AFTER.get(self.how, _nothing)(self)
        return self.outputs[0]


def prepare(variant, problem, inputs, library):
    how = variant["how"]
    if how == "raise in prepare":
        raise RuntimeError("no such algorithm")
    if how == "not callable":
        return 3
    launch = RowSum(inputs, how)
    return _SPECIAL[how](launch) if how in _SPECIAL else launch


def _nothing(launch):
    pass


def _raise(launch):
    raise RuntimeError("launch refused\nwith a second line")


def _raise_late(launch):
    if launch.launches > 6:
        raise RuntimeError("gave up")


def _exhaust(launch):
    torch.empty(_ASKED_TOO_MUCH)


def _segfault(launch):
    os.kill(os.getpid(), signal.SIGSEGV)


def _interrupt(launch):
    with redirect_stderr(io.StringIO()):  # which has no file to print a stack to
        os.kill(os.getpid(), signal.SIGINT)


def _terminate(launch):
    os.kill(os.getpid(), signal.SIGTERM)


def _exit(launch):
    sys.exit(9)


def _off_by_one(launch):
    launch.outputs[0][1] += 1.0


def _all_nan(launch):
    launch.outputs[0].fill_(float("nan"))


def _write_right_result(launch):
    RIGHT[-1][1] += 1.0


_BEFORE = {
    "write right result": _write_right_result,
    "raise": _raise,
    "raise late": _raise_late,
    "exhaust": _exhaust,
    "segfault": _segfault,
    "interrupt": _interrupt,
    "terminate": _terminate,
    "exit": _exit,
}
_AFTER = {"off by one": _off_by_one, "nan": _all_nan}


class _Unwritten:
    """Leaves the last row out, and had the right result there from the start."""

    def __init__(self, launch):
        self.inputs = launch.inputs
        self.outputs = (launch.inputs.sum(dim=1),)

    def __call__(self):
        self.outputs[0][:-1] = self.inputs[:-1].sum(dim=1)
        return self.outputs[0]


class _ReturnsNothing:
    def __init__(self, launch):
        self.outputs = launch.outputs
        self._launch = launch

    def __call__(self):
        self._launch()


class _Overrun:
    """Writes one number past the end of its output."""

    def __init__(self, launch):
        rows = len(launch.inputs)
        self._memory = torch.zeros(rows + 2)
        self.outputs = (self._memory[:rows],)
        self.memory_behind = {"sums": self._memory[rows:].view(torch.uint8)}
        self._inputs = launch.inputs

    def __call__(self):
        torch.sum(self._inputs, dim=1, out=self.outputs[0])
        self._memory[len(self._inputs)] = 1


_SPECIAL = {
    "fresh": lambda launch: lambda: launch.inputs.sum(dim=1),
    "half": lambda launch: lambda: launch.inputs.sum(dim=1).half(),
    "integer": lambda launch: lambda: launch.inputs.sum(dim=1).long(),
    "keep dim": lambda launch: lambda: launch.inputs.sum(dim=1, keepdim=True),
    "two outputs": lambda launch: lambda: (launch.inputs.sum(dim=1), launch.inputs),
    "text": lambda launch: lambda: "done",
    "unwritten": _Unwritten,
    "returns nothing": _ReturnsNothing,
    "overrun": _Overrun,
}
