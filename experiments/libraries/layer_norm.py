"""LayerNorm. Packages: torch, liger-kernel, quack-kernels, flashinfer-python."""

import torch

import profiler

norm = profiler.Experiment("layer-norm", problems={"rows": 4096, "columns": [1024, 4096, 8192]})

@norm.inputs
def normal_bfloat16_with_float32_weights(rows, columns):
    return torch.randn(rows, columns).bfloat16(), *torch.rand(2, columns).unbind()

@norm.variant(baseline=True, tags="torch")
def eager(x, weight, bias):
    return torch.layer_norm(x, weight.shape, weight.to(x.dtype), bias.to(x.dtype), 1e-6)

@norm.variant(setup=True, tags="torch")
def compiled(x, weight, bias):
    return lambda run=torch.compile(eager, dynamic=False): run(x, weight, bias)

@norm.variant(tags="library", library=["liger_kernel", "quack", "flashinfer"], setup=True)
def library(x, weight, bias, library):
    if library == "liger_kernel":
        from liger_kernel.transformers.functional import liger_layer_norm
        return lambda: liger_layer_norm(x, weight, bias, 1e-6)
    if library == "flashinfer":
        from flashinfer.norm import layernorm as layernorm_fwd
    else:
        from quack.rmsnorm import layernorm_fwd
    return lambda: layernorm_fwd(x, weight, bias, 1e-6)
