"""Dropout: results that are random, judged by a check of one's own."""

import torch

import profiler

dropout = profiler.Experiment("random-masks", problems={"n": [200_000]})
KEPT = 0.75


@dropout.inputs
def inputs(n):
    return torch.rand(n) + 0.5


@dropout.check
def check(output, x):
    kept = output != 0
    share = kept.double().mean().item()
    if abs(share - KEPT) > 0.01:
        return f"{share:.3f} of the elements are kept in place of {KEPT}"
    if not torch.allclose(output[kept] * KEPT, x[kept]):
        return "what is kept is not scaled by 1 / 0.75"


@dropout.variant(baseline=True)
def by_torch(x):
    return torch.nn.functional.dropout(x, 1 - KEPT)


@dropout.variant
def by_a_mask(x):
    return x * (torch.rand_like(x) < KEPT) / KEPT


@dropout.variant
def forgets_to_scale(x):
    return x * (torch.rand_like(x) < KEPT)
