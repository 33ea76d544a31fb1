"""Twelve kernels of torch from 3 µs to some milliseconds, each on several sets of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Launch = Callable[[], object]
L2_SIZES = 3
MOST_SETS = 256
"""As of the collector. With 64, sets of 1 MiB were together hardly larger than L2 (60 MiB of an
H200): whether a launch found its inputs there was another thing in the loop than in the visits."""
LONGEST_S = 5.0
"""The default of `collect.sustained_s`."""


@dataclass(frozen=True)
class Kernel:
    """One kernel; `make` gives a launch on new inputs, with their bytes."""

    name: str
    make: Callable[[], tuple[Launch, int]]
    is_short: bool = False
    """Whether a loop of Python is too slow for it."""

    def launches(self) -> list[Launch]:
        """Launches on sets of inputs that are together larger than L2."""
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        first, set_bytes = self.make()
        count = min(MOST_SETS, max(1, -(-L2_SIZES * l2_bytes // set_bytes)))
        return [first, *(self.make()[0] for _ in range(count - 1))]


def _normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, device="cuda")


def _zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device="cuda")


def _integers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def _product(
    size: int, values: Callable[..., torch.Tensor], dtype: torch.dtype = torch.bfloat16
) -> Callable[[], tuple[Launch, int]]:
    def make() -> tuple[Launch, int]:
        a, b = values(size, size, dtype=dtype), values(size, size, dtype=dtype)
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out), 2 * a.nbytes

    return make


def _attention(batch: int, length: int, backend: SDPBackend) -> Callable[[], tuple[Launch, int]]:
    def make() -> tuple[Launch, int]:
        q, k, v = (_normal(batch, 16, length, 128) for _ in range(3))

        def launch() -> object:
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v)

        return launch, 3 * q.nbytes

    return make


def _rows(
    rows: int, columns: int, function: Callable[[torch.Tensor], object]
) -> Callable[[], tuple[Launch, int]]:
    def make() -> tuple[Launch, int]:
        x = _normal(rows, columns)
        return lambda: function(x), x.nbytes

    return make


def _copy() -> tuple[Launch, int]:
    x = _normal(1 << 14, 1 << 13)
    out = torch.empty_like(x)
    return lambda: out.copy_(x), x.nbytes


KERNELS = (
    Kernel("product 4096, normal", _product(4096, _normal)),
    Kernel("product 4096, zeros", _product(4096, _zeros)),
    Kernel("product 4096, integers", _product(4096, _integers)),
    Kernel("product 8192, normal", _product(8192, _normal)),
    Kernel("product 2048, fp32", _product(2048, _normal, torch.float32)),
    Kernel("attention 4096, flash", _attention(4, 4096, SDPBackend.FLASH_ATTENTION)),
    Kernel("attention 4096, cuDNN", _attention(4, 4096, SDPBackend.CUDNN_ATTENTION)),
    Kernel("softmax 8192 x 4096", _rows(8192, 4096, lambda x: torch.softmax(x, 1))),
    Kernel(
        "layer norm 16384 x 4096", _rows(16384, 4096, lambda x: functional.layer_norm(x, (4096,)))
    ),
    Kernel("copy 256 MB", _copy),
    Kernel("gelu 2048 x 2048", _rows(2048, 2048, functional.gelu), is_short=True),
    Kernel("softmax 512 x 1024", _rows(512, 1024, lambda x: torch.softmax(x, 1)), is_short=True),
)
