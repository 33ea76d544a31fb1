"""Images in uint8 and products in int8, whose results are integers."""

import torch

import profiler

quantised = profiler.Experiment("small-integers", problems={"n": [16, 64]})


@quantised.inputs
def inputs(n):
    image = torch.randint(0, 256, (n, n, 3), dtype=torch.uint8)
    weights = torch.randint(-128, 128, (n, n), dtype=torch.int8)
    return image, weights


@quantised.variant(baseline=True)
def wide(image, weights):
    gray = image.int().sum(2).div(3, rounding_mode="floor").to(torch.uint8)
    return gray, weights.int() @ weights.int().T


@quantised.variant
def by_floats(image, weights):
    gray = (image.double().sum(2) / 3).floor().to(torch.uint8)
    return gray, (weights.double() @ weights.double().T).int()


@quantised.variant
def overflows(image, weights):
    return (image[..., 0] + image[..., 1] + image[..., 2]) // 3, weights.int() @ weights.int().T
