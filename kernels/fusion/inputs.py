"""Inputs of each operator: values that keep its result well conditioned, and memory layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fusion.operators import KERNEL_SIZE, Params, Sizes
from fusion.space import dtype_of, layout_of, sizes

SOFTMAX_SCALE = 3.0
"""Standard deviation of a softmax's inputs: the largest stands far above the mean, so that a
missing maximum or rescaling shows in the result."""

PADDING = 64
"""Elements between the rows of the padded layout: the pitch stays a multiple of 16 bytes."""

Expected = tuple[tuple[torch.Tensor, ...], tuple[float, float]]
"""Right results, and the absolute and relative bound of the error."""


@dataclass(frozen=True)
class Inputs:
    """Tensors of one problem, in the order of the operator's arguments.

    `split` are those that a part of the result needs only a part of, along their dim 0; `shared`
    are needed by every part.
    """

    split: tuple[torch.Tensor, ...]
    shared: tuple[torch.Tensor, ...] = ()
    results: dict[str, Expected] = field(default_factory=dict)
    """Right results that are small enough to be kept for the next variant."""

    @property
    def arguments(self) -> tuple[torch.Tensor, ...]:
        """All tensors."""
        return (*self.split, *self.shared)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.split[0].device


class Values:
    """Random tensors of one problem; the same for the same seed and kind of device."""

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        self.dtype = dtype
        self.device = device
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Normal values around 0 with a standard deviation."""
        return self._empty(shape).normal_(0.0, scale, generator=self._generator)

    def positive(self, *shape: int) -> torch.Tensor:
        """Uniform values in [0.5, 1.5): their sums lose nothing to cancellation."""
        return self._empty(shape).uniform_(0.5, 1.5, generator=self._generator)

    def laid_out(self, layout: str, rows: int, columns: int) -> torch.Tensor:
        """Normal values in a matrix with a memory layout of `LAYOUTS`."""
        if layout == "transposed":
            return self.normal(columns, rows).t()
        if layout == "strided":
            return self.normal(rows, 2 * columns)[:, ::2]
        if layout == "padded":
            return self.normal(rows, columns + PADDING)[:, :columns]
        return self.normal(rows, columns)

    def _empty(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)


def make(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Inputs of a problem."""
    values = Values(getattr(torch, dtype_of(problem)), device, seed)
    if problem["operator"] == "bias_dropout_add":
        return _bias_dropout_add(values, sizes(problem), layout_of(problem))
    return _MAKERS[str(problem["operator"])](values, sizes(problem))


def _normal_matrix(values: Values, size: Sizes) -> Inputs:
    return Inputs((values.normal(size["dim0"], size["dim1"]),))


def _positive_matrix(values: Values, size: Sizes) -> Inputs:
    return Inputs((values.positive(size["dim0"], size["dim1"]),))


def _scores(values: Values, size: Sizes) -> Inputs:
    return Inputs((values.normal(size["dim0"], size["dim1"], scale=SOFTMAX_SCALE),))


def _rows_of_sum_one(values: Values, size: Sizes) -> Inputs:
    """Rows with sums of about 1, which three multiplications by their sums hardly change."""
    return Inputs((values.positive(size["dim0"], size["dim1"]).div_(size["dim1"]),))


def _softmax_backward(values: Values, size: Sizes) -> Inputs:
    gradient, scores = (values.normal(size["dim0"], size["dim1"]) for _ in range(2))
    return Inputs((gradient, torch.softmax(scores, dim=1)))


def _norm_vectors(values: Values, size: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    return values.positive(size["dim1"]), values.normal(size["dim1"])


def _layer_norm(values: Values, size: Sizes) -> Inputs:
    return Inputs((values.normal(size["dim0"], size["dim1"]),), _norm_vectors(values, size))


def _fused_norm(values: Values, size: Sizes) -> Inputs:
    x, residual = (values.normal(size["dim0"], size["dim1"]) for _ in range(2))
    return Inputs((x, residual), _norm_vectors(values, size))


def _bias_dropout_add(values: Values, size: Sizes, layout: str) -> Inputs:
    shape = size["dim0"], size["dim1"]
    first, second = ("contiguous", "transposed") if layout == "mixed" else (layout, layout)
    matrices = values.laid_out(first, *shape), values.laid_out(second, *shape)
    return Inputs(matrices, (values.normal(size["dim1"]),))


def _bias_gelu(values: Values, size: Sizes) -> Inputs:
    return Inputs((values.normal(size["dim0"], size["dim1"]),), (values.normal(size["dim1"]),))


def _product(values: Values, size: Sizes) -> Inputs:
    """Factors of a product, the second scaled so that the product is normal again."""
    x = values.normal(size["dim0"], size["inner"])
    weight = values.normal(size["inner"], size["dim1"], scale=size["inner"] ** -0.5)
    return Inputs((x,), (weight,))


def _product_and_addend(values: Values, size: Sizes) -> Inputs:
    product = _product(values, size)
    return Inputs((*product.split, values.normal(size["dim0"], size["dim1"])), product.shared)


def _two_products(values: Values, size: Sizes) -> Inputs:
    product = _product(values, size)
    second = values.normal(size["dim1"], size["inner"], scale=size["dim1"] ** -0.5)
    return Inputs(product.split, (*product.shared, second))


def _images(values: Values, size: Sizes) -> Inputs:
    channels = size["channels"]
    scale = (channels * KERNEL_SIZE**2) ** -0.5
    filters = values.normal(channels, channels, KERNEL_SIZE, KERNEL_SIZE, scale=scale)
    return Inputs((_batch_of_images(values, size),), (filters,))


def _images_and_addend(values: Values, size: Sizes) -> Inputs:
    images = _images(values, size)
    return Inputs((*images.split, _batch_of_images(values, size)), images.shared)


def _images_and_statistics(values: Values, size: Sizes) -> Inputs:
    images = _images(values, size)
    channels = size["channels"]
    mean, bias = values.normal(channels), values.normal(channels)
    variance, weight = values.positive(channels), values.positive(channels)
    return Inputs(images.split, (*images.shared, mean, variance, weight, bias))


def _batch_of_images(values: Values, size: Sizes) -> torch.Tensor:
    return values.normal(size["batch"], size["channels"], size["dim0"], size["dim1"])


def _attention(values: Values, size: Sizes) -> Inputs:
    shape = size["batch"], size["seq_len"], size["heads"], size["head_dim"]
    query, key, value = (values.normal(*shape) for _ in range(3))
    square = (size["seq_len"], size["seq_len"])
    mask = torch.full(square, -torch.inf, dtype=values.dtype, device=values.device).triu_(1)
    return Inputs((query, key, value), (mask,))


_MAKERS: Mapping[str, Callable[[Values, Sizes], Inputs]] = {
    "pointwise_chain": _normal_matrix,
    "softmax": _scores,
    "double_softmax": _scores,
    "softmax_backward": _softmax_backward,
    "layer_norm": _layer_norm,
    "norm_chain": _rows_of_sum_one,
    "reduction_pointwise": _positive_matrix,
    "reduction_reduction": _positive_matrix,
    "matmul_add": _product_and_addend,
    "matmul_relu": _product,
    "matmul_add_relu": _product_and_addend,
    "matmul_matmul": _two_products,
    "conv_add": _images_and_addend,
    "conv_relu": _images,
    "conv_batch_norm": _images_and_statistics,
    "attention": _attention,
    "bias_gelu": _bias_gelu,
    "fused_norm": _fused_norm,
}
