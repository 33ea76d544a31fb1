"""Rotary embedding of queries and keys. Packages: torch, liger-kernel."""

import torch

import profiler

rope = profiler.Experiment("rope", problems={"heads": 32, "length": [1024, 8192], "size": 128})

@rope.inputs
def normal_bfloat16(heads, length, size):
    q, k = torch.randn(2, 1, heads, length, size).bfloat16().unbind()
    angles = torch.arange(length)[:, None] / 1e4 ** (torch.arange(0, size, 2).repeat(2) / size)
    return q, k, angles.cos()[None].bfloat16(), angles.sin()[None].bfloat16()

def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-second, first], -1) * sin[:, None]

@rope.variant(baseline=True, tags="torch", tolerance={"bfloat16": {"absolute": 4e-2}})
def eager(q, k, cos, sin):
    return rotated(q, cos, sin), rotated(k, cos, sin)

@rope.variant(setup=True, tags="torch")
def compiled(q, k, cos, sin):
    return lambda run=torch.compile(eager, dynamic=False): run(q, k, cos, sin)

@rope.variant(setup=True, in_place=True, tags="library")
def liger(q, k, cos, sin):
    from liger_kernel.transformers.functional import liger_rope
    return lambda: liger_rope(q, k, cos, sin)
