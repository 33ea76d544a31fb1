"""RMSNorm. Packages: torch, liger-kernel, quack-kernels, flashinfer-python."""

import torch

import profiler

norm = profiler.Experiment("rms-norm", problems={"rows": 4096, "columns": [1024, 4096, 16384]})

@norm.inputs
def normal_bfloat16(rows, columns):
    return torch.randn(rows, columns).bfloat16(), torch.rand(columns).bfloat16()

@norm.variant(baseline=True, tags="torch")
def eager(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)

@norm.variant(setup=True, tags="torch")
def compiled(x, weight):
    return lambda run=torch.compile(eager, dynamic=False): run(x, weight)

@norm.variant(tags="library", library=["liger_kernel", "quack", "flashinfer"], setup=True)
def library(x, weight, library):
    if library == "liger_kernel":
        from liger_kernel.transformers.functional import liger_rms_norm
        return lambda: liger_rms_norm(x, weight, 1e-6)
    if library == "quack":
        from quack.rmsnorm import rmsnorm
    else:
        from flashinfer.norm import rmsnorm
    return lambda: rmsnorm(x, weight, eps=1e-6)
