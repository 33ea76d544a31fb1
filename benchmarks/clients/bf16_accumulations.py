"""Sums of bfloat16: in float32, in pairs, and in bfloat16 itself, which stands still."""

import torch

import profiler

sums = profiler.Experiment(
    "bf16-accumulations",
    problems={"rows": [64], "columns": [4096]},
    tolerance={"bfloat16": {"relative": 1e-2}},
)


@sums.inputs
def inputs(rows, columns):
    return torch.rand(rows, columns).bfloat16() + 1


@sums.reference
def in_float64(x):
    return x.double().sum(1)


@sums.variant(baseline=True)
def in_float32(x):
    return x.float().sum(1).bfloat16()


@sums.variant
def in_pairs(x):
    while x.shape[1] > 1:
        x = x[:, ::2] + x[:, 1::2]
    return x[:, 0]


@sums.variant
def one_after_another(x):
    """From 512 on, what is added is less than half a step of bfloat16."""
    total = torch.zeros_like(x[:, 0])
    for column in x.unbind(1):
        total += column
    return total
