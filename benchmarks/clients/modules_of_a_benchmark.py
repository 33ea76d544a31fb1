"""A task of KernelBench's form: a `Model`, a `ModelNew`, `get_inputs` and `get_init_inputs`."""

from functools import partial

import torch
from torch import nn

import profiler


class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


class ModelNew(Model):
    """The same weights; the norm by moments of each group."""

    def forward(self, x):
        y = self.linear(x).unflatten(1, (self.norm.num_groups, -1))
        variance, mean = torch.var_mean(y, 2, unbiased=False, keepdim=True)
        y = ((y - mean) * torch.rsqrt(variance + self.norm.eps)).flatten(1)
        return torch.relu(torch.addcmul(self.norm.bias, y, self.norm.weight))


class ModelOfOtherVariance(ModelNew):
    def forward(self, x):
        y = self.linear(x).unflatten(1, (self.norm.num_groups, -1))
        y = ((y - y.mean(2, True)) / y.std(2, keepdim=True)).flatten(1)
        return torch.relu(y)


def get_inputs(rows=256, features=64):
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [64, 16]


modules = profiler.Experiment("modules-of-a-benchmark")


@modules.inputs
def inputs():
    return tuple(get_inputs())


def made(module, x):
    torch.manual_seed(0)
    return module(*get_init_inputs()).to(x)


@modules.variant(baseline=True, setup=True)
def reference(x):
    return partial(made(Model, x), x)


@modules.variant(setup=True)
def candidate(x):
    return partial(made(ModelNew, x), x)


@modules.variant(setup=True)
def other_variance(x):
    return partial(made(ModelOfOtherVariance, x), x)
