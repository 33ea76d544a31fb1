"""Gradients by torch.func, and a custom operator of torch.library."""

import torch

import profiler


@torch.library.custom_op("clients::cube_slope", mutates_args=())
def cube_slope(x: torch.Tensor) -> torch.Tensor:
    return 3 * x * x


slopes = profiler.Experiment("functional-gradients", problems={"n": [16, 1000]})


@slopes.inputs
def inputs(n):
    return torch.randn(n)


@slopes.variant(baseline=True)
def by_hand(x):
    return 3 * x**2


@slopes.variant
def by_vmap(x):
    return torch.func.vmap(torch.func.grad(lambda value: value**3))(x)


@slopes.variant
def by_library(x):
    return torch.ops.clients.cube_slope(x)


@slopes.variant
def by_autograd(x):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad((leaf**3).sum(), leaf)[0]
