"""The operators with their sizes, implementations, operations and memory traffic.

Names and shapes only; what they compute stands in `eager.py`. No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Params = Mapping[str, str | int | float | bool | None]
Sizes = Mapping[str, int]

EAGER = "eager"
COMPILE = "compile"
TRITON = "triton"
FLASH = "flash"
EFFICIENT = "efficient"
CUDNN = "cudnn"
NAIVE = "naive"
FUNCTIONAL = "functional"
MODULE = "module"

SDPA_BACKENDS = (FLASH, EFFICIENT, CUDNN)
SOFTMAX_FORMS = (NAIVE, FUNCTIONAL, MODULE)
IMPLEMENTATIONS = (EAGER, COMPILE, TRITON, *SDPA_BACKENDS, *SOFTMAX_FORMS)

LAYOUTS = ("contiguous", "transposed", "mixed", "strided", "padded")
"""Memory layouts of the two matrices of bias_dropout_add; see `inputs.py`."""

ITEM_BYTES: Mapping[str, int] = {"float16": 2, "bfloat16": 2, "float32": 4}
_SINGLE = ("float32",)
_HALF_FIRST = ("float16", "bfloat16", "float32")
_SINGLE_FIRST = ("float32", "float16", "bfloat16")

KERNEL_SIZE = 3
"""Height and width of a convolution's filter."""


@dataclass(frozen=True)
class Operator:
    """One operator; `flops` and `elements` take all sizes, defaults filled in."""

    group: str
    implementations: tuple[str, ...]
    sizes: Mapping[str, int | None]
    """Default by size; None where the size must be given."""
    flops: Callable[[Sizes], float]
    """Floating-point operations; of an operator with matrix products or a convolution theirs alone,
    as the field counts them. A transcendental function counts as one."""
    elements: Callable[[Sizes], int]
    """Elements of all inputs and outputs: each is moved once at least."""
    non_matmul_flops: Callable[[Sizes], float] | None = None
    """Operations beside the products; None for an operator with only one of both."""
    dtypes: tuple[str, ...] = _SINGLE
    """Types of the elements; the first is the default."""
    layouts: tuple[str, ...] = LAYOUTS[:1]


_MATRIX: Mapping[str, int | None] = {"dim0": None, "dim1": None}
_PRODUCT: Mapping[str, int | None] = {**_MATRIX, "inner": 512}
_IMAGES: Mapping[str, int | None] = {**_MATRIX, "batch": 1, "channels": 32}
_ATTENTION: Mapping[str, int | None] = {
    "batch": None,
    "seq_len": None,
    "heads": None,
    "head_dim": None,
}
_SOFTMAX_FLOPS = 5
"""Operations for each element: compare, subtract, exponential, add, multiply."""
_FUSED = (EAGER, COMPILE)
_WRITTEN = (EAGER, COMPILE, TRITON)


def _matrices(  # noqa: PLR0913 - the table below gives them by name
    group: str,
    implementations: tuple[str, ...],
    flops: int,
    matrices: int,
    *,
    rows: int = 0,
    columns: int = 0,
    dtypes: tuple[str, ...] = _SINGLE,
    layouts: tuple[str, ...] = LAYOUTS[:1],
) -> Operator:
    """An operator over dim0 x dim1 with its operations per element and moved elements.

    That is matrices, vectors with one element per column (`columns`), and with one per row
    (`rows`).
    """

    def elements(size: Sizes) -> int:
        cells = size["dim0"] * size["dim1"]
        return matrices * cells + rows * size["dim0"] + columns * size["dim1"]

    return Operator(
        group=group,
        implementations=implementations,
        sizes=_MATRIX,
        flops=lambda size: float(flops * size["dim0"] * size["dim1"]),
        elements=elements,
        dtypes=dtypes,
        layouts=layouts,
    )


def _product(after: int, addends: int) -> Operator:
    """(dim0 x inner) @ (inner x dim1), then `after` operations per element of the result."""
    return Operator(
        group="matmul",
        implementations=_FUSED,
        sizes=_PRODUCT,
        flops=lambda size: float(2 * size["inner"] * size["dim0"] * size["dim1"]),
        non_matmul_flops=lambda size: float(after * size["dim0"] * size["dim1"]),
        elements=lambda size: (
            size["inner"] * (size["dim0"] + size["dim1"])
            + (1 + addends) * size["dim0"] * size["dim1"]
        ),
    )


def _two_products() -> Operator:
    """(dim0 x inner) @ (inner x dim1) @ (dim1 x inner)."""
    return Operator(
        group="matmul",
        implementations=_FUSED,
        sizes=_PRODUCT,
        flops=lambda size: float(4 * size["inner"] * size["dim0"] * size["dim1"]),
        elements=lambda size: 2 * size["inner"] * (size["dim0"] + size["dim1"]),
    )


def _convolution(after: int, addends: int, vectors: int = 0) -> Operator:
    """3 x 3 filters over images of dim0 x dim1, with as many channels out as in."""

    def images(size: Sizes) -> int:
        return size["batch"] * size["channels"] * size["dim0"] * size["dim1"]

    def elements(size: Sizes) -> int:
        filters = size["channels"] ** 2 * KERNEL_SIZE**2
        return (2 + addends) * images(size) + filters + vectors * size["channels"]

    def flops(size: Sizes) -> float:
        return float(2 * size["channels"] * KERNEL_SIZE**2 * images(size))

    return Operator(
        group="convolution",
        implementations=_FUSED,
        sizes=_IMAGES,
        flops=flops,
        elements=elements,
        non_matmul_flops=lambda size: float(after * images(size)),
    )


def _attention_flops(size: Sizes) -> float:
    """Two products under a causal mask, as the field counts them: half of 4 b h s² d."""
    return 2.0 * size["batch"] * size["heads"] * size["seq_len"] ** 2 * size["head_dim"]


def _attention_softmax_flops(size: Sizes) -> float:
    """Operations of the softmax over unmasked pairs: about half of all pairs."""
    pairs = size["seq_len"] * (size["seq_len"] + 1) // 2
    return float(size["batch"] * size["heads"] * pairs * _SOFTMAX_FLOPS)


def _attention_elements(size: Sizes) -> int:
    return 4 * size["batch"] * size["seq_len"] * size["heads"] * size["head_dim"]


OPERATORS: Mapping[str, Operator] = {
    "pointwise_chain": _matrices("pointwise", _WRITTEN, 4, 2),
    "softmax": _matrices("reduce", (*_WRITTEN, *SOFTMAX_FORMS), _SOFTMAX_FLOPS, 2),
    "double_softmax": _matrices("reduce", _FUSED, 10, 2),
    "softmax_backward": _matrices("reduce", _FUSED, 4, 3),
    "layer_norm": _matrices("reduce", _WRITTEN, 8, 2, columns=2),
    "norm_chain": _matrices("reduce", _FUSED, 6, 2),
    "reduction_pointwise": _matrices("horizontal", _FUSED, 2, 2, rows=1),
    "reduction_reduction": _matrices("horizontal", _FUSED, 2, 1, rows=2),
    "matmul_add": _product(after=1, addends=1),
    "matmul_relu": _product(after=1, addends=0),
    "matmul_add_relu": _product(after=2, addends=1),
    "matmul_matmul": _two_products(),
    "conv_add": _convolution(after=1, addends=1),
    "conv_relu": _convolution(after=1, addends=0),
    "conv_batch_norm": _convolution(after=2, addends=0, vectors=4),
    "attention": Operator(
        group="mixed",
        implementations=(EAGER, COMPILE, *SDPA_BACKENDS),
        sizes=_ATTENTION,
        flops=_attention_flops,
        elements=_attention_elements,
        non_matmul_flops=_attention_softmax_flops,
        dtypes=_HALF_FIRST,
    ),
    "bias_dropout_add": _matrices(
        "mixed", _WRITTEN, 2, 3, columns=1, dtypes=_SINGLE_FIRST, layouts=LAYOUTS
    ),
    "bias_gelu": _matrices("mixed", _WRITTEN, 10, 2, columns=1),
    "fused_norm": _matrices("mixed", _FUSED, 9, 3, columns=2),
}
"""Every operator by name."""
