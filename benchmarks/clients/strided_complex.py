"""Complex numbers in transposed and strided views."""

import torch

import profiler

product = profiler.Experiment("strided-complex", problems={"n": [8, 64]})


@product.inputs
def inputs(n):
    whole = torch.randn(2 * n, n, dtype=torch.complex64)
    return whole[::2].T, torch.randn(n, 1).expand(n, n)


@product.variant(baseline=True)
def plain(a, weights):
    return a @ a.conj().T * weights


@product.variant
def by_einsum(a, weights):
    return torch.einsum("ik,jk->ij", a, a.conj()) * weights


@product.variant
def forgets_to_conjugate(a, weights):
    return a @ a.T * weights
