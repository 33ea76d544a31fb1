"""LayerNorm. Packages: torch, liger-kernel, quack-kernels, flashinfer-python."""

import torch

import profiler

norm = profiler.Experiment("layer-norm", problems={"rows": 4096, "columns": [1024, 4096, 8192]})

@norm.inputs
def normal_bfloat16_with_float32_weights(rows, columns):
    weights = torch.rand(2, columns).bfloat16().float()  # exact in both types
    return torch.randn(rows, columns).bfloat16(), *weights

@norm.variant(baseline=True, tags="torch")
def eager(x, weight, bias):
    return torch.layer_norm(x, weight.shape, weight.to(x.dtype), bias.to(x.dtype), 1e-6)

@norm.variant(setup=True, tags="torch")
def compiled(x, weight, bias):
    return lambda run=torch.compile(eager, dynamic=False): run(x, weight, bias)

@norm.variant(tags="library", library=["liger_kernel", "quack", "flashinfer"], setup=True)
def library(x, weight, bias, library):
    if library == "liger_kernel":
        from liger_kernel.transformers.functional import liger_layer_norm as layer_norm
    elif library == "quack":
        from quack.rmsnorm import layernorm_fwd as layer_norm
    else:
        from flashinfer.norm import layernorm as layer_norm
    return lambda: layer_norm(x, weight, bias, 1e-6)
