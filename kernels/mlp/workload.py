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
        """Make the loss."""

    def backward(self) -> None:
        """Make the gradients."""

    def update(self) -> None:
        """Change the parameters."""


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
        """Make the next step; loss, gradients, and with Adam the parameters after it."""
        self._count += 1
        with mark(f"step_{self._count}"):
            return self.step()

    def step(self) -> Tensors:
        """Make a step without a number of its own."""
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
        """Set parameters and optimiser back to the start, so that the next step is the first."""
        self._training.restore()

    def keep(self, memory: Memory | None) -> None:
        """Remember the memory of a step; None where the device does not count."""
        if memory is not None:
            self.buffer_bytes, self.peak_bytes = memory.buffer_bytes, memory.peak_bytes


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Batch, target and the parameters to start from."""
    with mark("define_input"):
        return network.make_inputs(problem, device, seed)


def reference(problem: Params, inputs: Inputs) -> Tensors:
    """Loss, gradients, and with Adam the parameters after the first step, in float64."""
    return network.first_step(problem, inputs)


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Step:
    """Make the step of one variant, as it is before its first call.

    What is compiled or recorded makes a few steps here; parameters and optimiser are set back after
    that. Raises RuntimeError for graphs without a CUDA device, and what the compiler raises.
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
    made = _record(training) if implementation == GRAPHS else _run(training, seconds)
    training.restore()
    return made


def flops(problem: Params) -> float:
    """Operations of the matrix products of a step."""
    return flops_of(problem)


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory of a step."""
    return least_bytes(problem)


def _compile(training: Training) -> float:
    """Compile the loss, and with it the way back; seconds to the end of the first call of both."""
    with torch.enable_grad():
        compiled = compile_launch(network.loss, training.arguments)
    training.set_loss(functools.partial(_only, compiled.call))
    training.forward()
    seconds = time_first_call(training.first_gradients, training.inputs.device).seconds
    training.clear_gradients()
    return compiled.seconds + seconds


def _only(call: Call) -> torch.Tensor:
    """Call what gives one tensor and not several."""
    result = call()
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"the loss must be one tensor, not {type(result)}")
    return result


def _run(training: Training, compile_seconds: float | None) -> Step:
    made = Step(training, training, compile_seconds)
    made.step()  # Adam makes its moments in the first one: they are state.
    made.keep(memory_of(functools.partial(_step_and_clear, made, training), training.inputs.device))
    return made


def _step_and_clear(made: Step, training: Training) -> Tensors:
    """Make a step and give its gradients back, so that the next one's count as its own."""
    results = made.step()
    training.clear_gradients()
    return results[:1]


def _record(training: Training) -> Step:
    graphs = Graphs(training)
    made = Step(training, graphs, None)
    made.keep(graphs.memory)
    made.outputs = made.step()[: 1 + len(training.parameters)]
    return made
