"""C++ compiled by torch.utils.cpp_extension.load_inline, bound by pybind11."""

import torch
from torch.utils.cpp_extension import load_inline

import profiler

SOURCE = "torch::Tensor squared(torch::Tensor x) { return x * x; }"

squares = profiler.Experiment("inline-extension", problems={"n": [16, 1000]})


@squares.inputs
def inputs(n):
    return torch.randn(n)


@squares.variant(baseline=True)
def eager(x):
    return x * x


@squares.variant(setup=True)
def inline(x):
    module = load_inline("squares", SOURCE, functions=["squared"])
    return lambda: module.squared(x)
