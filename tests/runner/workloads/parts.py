"""A small training step in marked parts, also with ranges that a user pushes by hand."""

from __future__ import annotations

import nvtx
import torch
from torch.profiler import record_function

from profiler.kernels.marks import mark

TOLERANCES = {"default": (1e-6, 1e-2)}  # a matrix product may round otherwise inside a graph


def loss_of(x):
    return torch.softmax(x @ x / len(x), 1).square().sum()


def make_inputs(problem, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    size = problem["size"]
    shape = (size, size)
    return torch.randn(shape, generator=generator, device=device).requires_grad_()


def reference(problem, inputs):
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(loss_of(inputs), inputs)
    return gradient.detach()


def prepare(variant, problem, inputs, library):
    if variant["how"] in ("breaks", "graph"):
        return {"breaks": Breaks, "graph": Graph}[variant["how"]](inputs)
    step = {"marked": marked_step, "pushed": pushed_step, "threaded": threaded_step}
    return lambda: step[variant["how"]](inputs)


def marked_step(x):
    with torch.enable_grad():
        with mark("forward"):
            loss = loss_of(x)
        with mark("backward"):
            (gradient,) = torch.autograd.grad(loss, x)
    return gradient


def pushed_step(x):
    with torch.enable_grad():
        nvtx.push_range("forward")
        with record_function("forward"):
            loss = loss_of(x)
        nvtx.pop_range()
        nvtx.push_range("backward")
        with record_function("backward"), record_function("gradient"):
            (gradient,) = torch.autograd.grad(loss, x)
        nvtx.pop_range()
    return gradient


def threaded_step(x):
    """Backward on the thread that autograd has for the device."""
    with torch.autograd.set_multithreading_enabled(True):
        return marked_step(x)


class Graph:
    """The marked step as a CUDA graph: its marks lie in its capture, not in its launches."""

    def __init__(self, inputs):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            marked_step(inputs)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._gradient = marked_step(inputs)

    def __call__(self):
        with mark("replay"):
            self._graph.replay()
        return self._gradient


class Breaks:
    """Right when it is checked and warmed up, and refuses after that."""

    LAUNCHES = 4  # the check without `outputs` launches twice, then one warm-up, then one more

    def __init__(self, inputs):
        self._inputs = inputs
        self._left = self.LAUNCHES

    def __call__(self):
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("no more")
        return marked_step(self._inputs)
