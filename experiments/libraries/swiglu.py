"""SwiGLU of gates and values. Packages: torch, liger-kernel."""

import torch
import torch.nn.functional as F

import profiler

swiglu = profiler.Experiment("swiglu", problems={"rows": 4096, "columns": [1024, 4096, 11008]})

@swiglu.inputs
def normal_bfloat16(rows, columns):
    return torch.randn(rows, columns).bfloat16(), torch.randn(rows, columns).bfloat16()

@swiglu.variant(baseline=True, tags="torch", tolerance={"bfloat16": {"relative": 2e-2}})
def eager(gate, value):
    return F.silu(gate) * value

@swiglu.variant(setup=True, tags="torch")
def compiled(gate, value):
    return lambda run=torch.compile(eager, dynamic=False): run(gate, value)

@swiglu.variant(setup=True, tags="library")
def liger(gate, value):
    from liger_kernel.transformers.functional import liger_swiglu
    return lambda: liger_swiglu(gate, value)
