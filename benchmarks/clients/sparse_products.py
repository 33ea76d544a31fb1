"""Products of sparse matrices: layouts among the inputs, a dense result."""

import torch

import profiler

products = profiler.Experiment(
    "sparse-products",
    problems={"n": [1024], "density": [0.002]},
    tolerance={"float32": {"relative": 1e-4, "absolute": 1e-4}},
)


@products.inputs
def inputs(n, density):
    dense = torch.rand(n, n) * (torch.rand(n, n) < density)
    crow, column, values = (part(dense.to_sparse_csr()) for part in PARTS)
    return {"crow": crow, "column": column, "values": values, "right": torch.rand(n, 64)}


PARTS = (torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values)


def left(crow, column, values, n):
    return torch.sparse_csr_tensor(crow, column, values, (n, n))


@products.variant(baseline=True)
def csr(crow, column, values, right, n):
    return left(crow, column, values, n) @ right


@products.variant
def coo(crow, column, values, right, n):
    return left(crow, column, values, n).to_sparse_coo() @ right


@products.variant(setup=True)
def dense(crow, column, values, right, n):
    """Nearly all of its products are with zeros."""
    matrix = left(crow, column, values, n).to_dense()
    return lambda: matrix @ right


@products.variant
def without_last_row(crow, column, values, right, n):
    result = left(crow, column, values, n) @ right
    return torch.cat([result[:-1], torch.zeros_like(result[-1:])])
