"""SwiGLU of gates and values side by side. Packages: torch, liger-kernel, flashinfer-python."""

import torch
import torch.nn.functional as F

import profiler

swiglu = profiler.Experiment("swiglu", problems={"rows": 4096, "columns": [1024, 4096, 11008]})

@swiglu.inputs
def normal_bfloat16(rows, columns):
    return torch.randn(rows, 2 * columns).bfloat16()

@swiglu.variant(baseline=True, tags="torch", tolerance={"bfloat16": {"relative": 2e-2}})
def eager(x):
    return F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]

@swiglu.variant(setup=True, tags="torch")
def compiled(x):
    return lambda run=torch.compile(eager, dynamic=False): run(x)

@swiglu.variant(setup=True, tags="library")
def liger(x):
    from liger_kernel.transformers.functional import liger_swiglu
    return lambda halves=[half.contiguous() for half in x.chunk(2, -1)]: liger_swiglu(*halves)

@swiglu.variant(setup=True, tags="library")
def flashinfer(x):
    from flashinfer.activation import silu_and_mul
    return lambda: silu_and_mul(x)
