"""The k largest of each row, as samplers and routers take them. Packages: torch, quack-kernels,
flashinfer-python."""

import torch

import profiler

top_k = profiler.Experiment("top-k", problems={"rows": 4096, "columns": [256, 4096], "k": [8, 32]})

@top_k.inputs
def normal_float32(rows, columns):
    return torch.randn(rows, columns)

@top_k.variant(baseline=True, tags="torch")
def eager(x, k):
    return x.topk(k).values

@top_k.variant(tags="torch")
def sort(x, k):
    return x.sort(descending=True).values[:, :k]

@top_k.variant(setup=True, tags="library")
def quack(x, k):
    from quack.topk import topk
    return lambda: topk(x, k)[0]

@top_k.variant(setup=True, tags="library")
def flashinfer(x, k):
    from flashinfer.topk import top_k
    return lambda: top_k(x, k, sorted=True)[0]
