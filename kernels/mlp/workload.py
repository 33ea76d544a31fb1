"""Training steps of a multilayer perceptron: data, right results, and each implementation.

A launch is one step. Ranges (`profiler.kernels.marks`): `define_input`, `define_model`, and in each
step `step_<n>` with `forward`, `backward` and `optimizer_step` inside; in eager code `forward`
holds a range for each layer, `layer_1` and so on. Compiled code and graphs have no layers to mark.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Protocol

import torch

from fusion.launches import (
    Call,
    Memory,
    compile_launch,
    memory_of,
    time_first_call,
)
from mlp import network
from mlp.graphs import Graphs
from mlp.network import Inputs, Tensors
from mlp.space import COMPILE, GRAPHS, Params, check_variant, has_adam, least_bytes
from mlp.space import total_flops as flops_of
from mlp.training import Training
from profiler.kernels.marks import mark

TOLERANCES = {"float32": (1e-5, 1e-4)}
"""Absolute and relative bound, for sums of 1000 products through eight layers and back. Gradients
of weights are about 0.2, weights 0.04, and the first step of Adam moves each by almost 1e-3."""


class Phases(Protocol):
    """The phases of a step."""

    def clear_gradients(self) -> None:
        """Back the gradients of the step before."""

    def forward(self) -> None:
        """Compute the loss."""

    def backward(self) -> None:
        """Compute the gradients."""

    def update(self) -> None:
        """Update the parameters."""


class Step:
    """One variant of one problem: a call is one training step."""

    def __init__(self, training: Training, phases: Phases, compile_seconds: float | None) -> None:
        self._training = training
        self._phases = phases
        self._count = 0
        self.outputs: Tensors = ()
        """None to poison, but the first launch is the one that is compared: the second one has
        other parameters."""
        self.compile_seconds = compile_seconds
        self.buffer_bytes: int | None = None
        self.peak_bytes: int | None = None

    def __call__(self) -> Tensors:
        """Make the next step; returns loss, gradients, and with Adam the updated parameters."""
        self._count += 1
        with mark(f"step_{self._count}"):
            return self.step()

    def step(self) -> Tensors:
        """Make a step without a step number."""
        self._phases.clear_gradients()
        with mark("forward"):
            self._phases.forward()
        with mark("backward"):
            self._phases.backward()
        if self._training.has_optimizer:
            with mark("optimizer_step"):
                self._phases.update()
        return self._training.results

    def restart(self) -> None:
        """Reset parameters and optimiser, so that the next step is the first."""
        self._training.restore()

    def keep(self, memory: Memory | None) -> None:
        """Record the memory of a step; None on a device without memory counters."""
        if memory is not None:
            self.buffer_bytes, self.peak_bytes = memory.buffer_bytes, memory.peak_bytes


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Batch, target and the parameters to start from."""
    with mark("define_input"):
        return network.make_inputs(problem, device, seed)


def reference(problem: Params, inputs: Inputs) -> Tensors:
    """Loss and gradients of the first step, and with Adam its updated parameters, in float64."""
    return network.first_step(problem, inputs)


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Step:
    """Step of one variant before its first call.

    Compiled and recorded variants make a few steps here; parameters and optimiser are reset after
    them. Raises RuntimeError for graphs without a CUDA device, and what the compiler raises.
    """
    del library  # Nothing is built by the orchestrator.
    reason = check_variant(variant)
    if reason is not None:
        raise ValueError(reason)
    implementation, device = variant["implementation"], inputs.device
    if implementation == GRAPHS and device.type != "cuda":
        raise RuntimeError(
            f"CUDA graphs need a CUDA device and cannot run on {device.type}; "
            "leave out the implementation graphs there"
        )
    with mark("define_model"):
        training = Training(inputs, adam=has_adam(problem), capturable=implementation == GRAPHS)
    seconds = None
    if implementation == COMPILE:
        seconds = _compile(training)
    else:
        # A layer that is only replayed has no range: its mark is made when it is recorded.
        loss = network.loss if implementation == GRAPHS else network.marked_loss
        training.set_loss(functools.partial(loss, *training.arguments))
    step = _record(training) if implementation == GRAPHS else _run(training, seconds)
    training.restore()
    return step


def flops(problem: Params) -> float:
    """Operations of the matrix products of a step."""
    return flops_of(problem)


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory of a step."""
    return least_bytes(problem)


def _compile(training: Training) -> float:
    """Seconds of compiling the loss and its backward pass, to the end of both first calls."""
    with torch.enable_grad():
        compiled = compile_launch(network.loss, training.arguments)
    training.set_loss(functools.partial(_single_result, compiled.call))
    training.forward()
    seconds = time_first_call(training.first_gradients, training.inputs.device).seconds
    training.clear_gradients()
    return compiled.seconds + seconds


def _single_result(call: Call) -> torch.Tensor:
    """The only tensor of a call's result."""
    result = call()
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"the loss must be one tensor, not {type(result)}")
    return result


def _run(training: Training, compile_seconds: float | None) -> Step:
    step = Step(training, training, compile_seconds)
    step.step()  # Adam makes its moments, which are state, in the first step.
    step.keep(memory_of(functools.partial(_step_and_clear, step, training), training.inputs.device))
    return step


def _step_and_clear(step: Step, training: Training) -> Tensors:
    """Loss of a step whose gradients are freed, so that the next step's count as its own."""
    results = step.step()
    training.clear_gradients()
    return results[:1]


def _record(training: Training) -> Step:
    graphs = Graphs(training)
    step = Step(training, graphs, None)
    step.keep(graphs.memory)
    step.outputs = step.step()[: 1 + len(training.parameters)]
    return step
