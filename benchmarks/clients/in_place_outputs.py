"""A step of an optimiser: parameters and moments are overwritten, and all three are results."""

import torch

import profiler

steps = profiler.Experiment("in-place-outputs", problems={"n": [100_000]})


@steps.inputs
def inputs(n):
    return torch.randn(n), torch.randn(n), torch.zeros(n), torch.ones(n)


@steps.variant(baseline=True)
def out_of_place(parameters, gradient, first, second):
    first = first.lerp(gradient, 0.1)
    second = second.lerp(gradient.square(), 0.01)
    return parameters - 1e-2 * first / (second.sqrt() + 1e-8), first, second


@steps.variant(in_place=True)
def in_place(parameters, gradient, first, second):
    first.lerp_(gradient, 0.1)
    second.lerp_(gradient.square(), 0.01)
    parameters.addcdiv_(first, second.sqrt().add_(1e-8), value=-1e-2)
    return parameters, first, second


@steps.variant
def in_place_and_unsaid(parameters, gradient, first, second):
    return in_place(parameters, gradient, first, second)
