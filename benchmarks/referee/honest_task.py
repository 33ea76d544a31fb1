"""What the honest kernels of `honest/kernels.py` are asked for."""

import torch
from honest.kernels import OPERATIONS


def inputs(op=[*OPERATIONS], dtype=["float32", "float64", "bfloat16"], rows=33, columns=200):
    made = (torch.randn(rows, columns) for _ in range(2))
    return tuple(matrix.to(getattr(torch, dtype)) for matrix in made)


def baseline(x, y, op):
    return OPERATIONS[op](x, y)
