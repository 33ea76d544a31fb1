"""What the exploits and the honest kernels of this folder claim to do: a product with a vector."""

import torch


def inputs(rows=[64, 96], columns=512):
    return torch.randn(rows, columns), torch.randn(columns)


def baseline(matrix, vector):
    return matrix @ vector


def flops(rows, columns):
    return 2.0 * rows * columns
