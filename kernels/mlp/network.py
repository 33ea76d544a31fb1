"""The network, its loss, its data, and the right result of its first step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from mlp.space import Params, has_adam, sizes
from profiler.kernels.marks import mark

Tensors = tuple[torch.Tensor, ...]

WEIGHT_GAIN = 2**0.5
"""Weights have a standard deviation of this over the root of the width: activations and gradients
keep their size from layer to layer, as with ReLU (He et al., arXiv 1502.01852)."""

_BIAS_SCALE = 0.1

LEARNING_RATE = 1e-3

ADAM_EPSILON = 1e-3
"""The first step of Adam is the learning rate times g / (|g| + epsilon). With the usual 1e-8 that
is the sign of g, and the rounding error of a gradient near 0 would turn it. Gradients of weights
are about 0.2 here."""


@dataclass(frozen=True)
class Inputs:
    """Data of one problem, and the parameters that every variant starts from."""

    batch: torch.Tensor
    """(batch, width)."""
    target: torch.Tensor
    """(batch, width)."""
    parameters: Tensors
    """Weight (width, width) and bias (width) of each layer in turn; never written to."""

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.batch.device


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Normal values in float32; the same for the same seed and kind of device."""
    size = sizes(problem)
    width = size["width"]
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.empty(shape, device=device).normal_(0.0, scale, generator=generator)

    data = normal(size["batch"], width), normal(size["batch"], width)
    parameters: Tensors = ()
    scale = WEIGHT_GAIN * width**-0.5
    for _ in range(size["layers"]):
        parameters += normal(width, width, scale=scale), normal(width, scale=_BIAS_SCALE)
    return Inputs(*data, parameters)


def layers_of(parameters: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Weight and bias of each layer."""
    return zip(parameters[::2], parameters[1::2], strict=True)


def layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """One layer: linear, then GeLU."""
    return functional.gelu(functional.linear(x, weight, bias))


def loss_between(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Half the squared distance from the target, as the mean over the rows of the batch."""
    return functional.mse_loss(x, target, reduction="sum") / (2 * len(x))


def loss(x: torch.Tensor, target: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    """Loss of a batch, which variants compile and the reference computes in float64."""
    for weight, bias in layers_of(parameters):
        x = layer(x, weight, bias)
    return loss_between(x, target)


def marked_loss(x: torch.Tensor, target: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    """Loss of a batch with a range around each layer: `layer_1`, `layer_2`, and so on."""
    for number, (weight, bias) in enumerate(layers_of(parameters), start=1):
        with mark(f"layer_{number}"):
            x = layer(x, weight, bias)
    return loss_between(x, target)


def first_step(problem: Params, inputs: Inputs) -> Tensors:
    """Loss and gradients of the first step, and with Adam its updated parameters, in float64."""
    parameters = [tensor.double().requires_grad_() for tensor in inputs.parameters]
    with torch.enable_grad():
        value = loss(inputs.batch.double(), inputs.target.double(), *parameters)
        gradients = torch.autograd.grad(value, parameters)
    result = (value.detach(), *gradients)
    if not has_adam(problem):
        return result
    updated = (
        parameter.detach() - LEARNING_RATE * gradient / (gradient.abs() + ADAM_EPSILON)
        for parameter, gradient in zip(parameters, gradients, strict=True)
    )
    return (*result, *updated)
