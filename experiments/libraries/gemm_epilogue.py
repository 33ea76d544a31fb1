"""GELU of a linear layer, gelu(x w + b). Packages: torch, quack-kernels."""

import torch

import profiler

BOUND = {"tolerance": {"bfloat16": {"relative": 2e-2, "absolute": 2e-2}}}
linear = profiler.Experiment("gemm-epilogue", problems={"m": [512, 4096], "n": 4096}, **BOUND)

@linear.inputs
def normal_bfloat16(m, n):
    made = torch.randn(m, n), torch.randn(n, n) / n**0.5, torch.randn(n)
    return tuple(tensor.bfloat16() for tensor in made)

@linear.variant(baseline=True, tags="torch")
def eager(x, w, b):
    return torch.nn.functional.gelu(torch.addmm(b, x, w), approximate="tanh")

@linear.variant(tags="torch")
def of_cublaslt(x, w, b):
    return torch._addmm_activation(b, x, w, use_gelu=True)

@linear.variant(setup=True, tags="torch", mode=["default", "max-autotune-no-cudagraphs"])
def compiled(x, w, b, mode):
    return lambda run=torch.compile(eager, dynamic=False, mode=mode): run(x, w, b)

@linear.variant(setup=True, tags="library")
def quack(x, w, b):
    from quack.gemm_interface import gemm_act
    return lambda: gemm_act(x, w, bias=b, activation="gelu_tanh_approx", store_preact=False)[1]
