"""Plain kernels that approach the roofs of the hardware, launched in ranges for a tool to see.

The traffic of a kernel that copies a large array, and the arithmetic of torch's matrix product of
each type. `copy_` between two tensors of a type is no kernel but a memcpy, which ncu does not see;
`neg` reads and writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from profiler.runner.device import Device
from profiler.runner.timing import Launch, on_cuda
from profiler.runner.visits import ranges

if TYPE_CHECKING:
    from profiler.runner.cupti.range_profiler import RangeProfiler

LAUNCHES = 2
"""In ranges, after one without: what a library chooses and allocates is over by then. The better of
them counts; each is replayed for every pass of an explain session (0.4 s on an H200)."""
_COPY_BYTES = 2**30
"""Read, and written once more: an L2 cache has 50 MB (H100)."""
_MEMORY_SHARE = 1 / 8
"""Share of the free memory for each of a few arrays: ncu saves the arrays that a kernel writes."""
_TENSOR_ROWS = 8192
_FMA_ROWS = 4096
"""2.7 ms on an H200 for ordinary arithmetic, eight times as much for 8192, in each of ncu's
passes."""
_SMALL_ROWS = 64
"""Where the device is the processor: there is nothing to measure, and no time to be lost."""

_PRODUCTS: Mapping[str, tuple[torch.dtype, str]] = {
    "tensor_bf16": (torch.bfloat16, "ieee"),
    "tensor_fp16": (torch.float16, "ieee"),
    "tensor_tf32": (torch.float32, "tf32"),
    "tensor_fp64": (torch.float64, "ieee"),
    "fp32": (torch.float32, "ieee"),
}
"""By roof: type of the matrices, and torch's precision for 32-bit ones."""


def launch_for_roof(
    roof: str, device: Device, *, flush: bool, range_profiler: RangeProfiler | None = None
) -> dict[str, Any]:
    """Journal fields of a kernel that approaches a roof (of `protocol.PRACTICAL_ROOFS`), launched.

    `flush`: whether the caches are emptied before each range. `range_profiler`: counts the
    kernels in this process, where no tool does from outside.

    Raises what torch raises, where memory does not suffice for example, and CountersError.
    """
    with _prepared_launch(roof, device) as launch:
        launch()
        device.wait()
        if range_profiler is not None:
            return {"launches": LAUNCHES, "kernels": range_profiler.kernels_of(launch, LAUNCHES)}
        for number in range(LAUNCHES):
            if flush:
                device.empty_caches()
            with ranges.roof_range(roof, number):
                launch()
                device.wait()
    return {"launches": LAUNCHES}


@contextmanager
def _prepared_launch(roof: str, device: Device) -> Iterator[Launch]:
    """The launch; torch's precision of products is restored when the body ends."""
    if roof == "dram":
        yield _copy(device)
        return
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        yield _product(roof, device)
    finally:
        matmul.fp32_precision = before


def _copy(device: Device) -> Callable[[], object]:
    size = _COPY_BYTES if on_cuda(device) else _SMALL_ROWS
    if on_cuda(device):
        free, _ = torch.cuda.mem_get_info()
        size = min(size, int(free * _MEMORY_SHARE))
    source = torch.ones(size // 4, device=device.torch_device)
    target = torch.empty_like(source)
    return lambda: torch.neg(source, out=target)


def _product(roof: str, device: Device) -> Callable[[], object]:
    dtype, precision = _PRODUCTS[roof]
    rows = _FMA_ROWS if roof in ("fp32", "tensor_fp64") else _TENSOR_ROWS
    rows = rows if on_cuda(device) else _SMALL_ROWS
    torch.backends.cuda.matmul.fp32_precision = precision
    # Not zeros, which take less power, and so let the clock rise above its value in real work.
    generator = torch.Generator(device.torch_device).manual_seed(0)
    left_matrix, right_matrix = (
        torch.randn(rows, rows, device=device.torch_device, generator=generator).to(dtype)
        for _ in range(2)
    )
    target = torch.empty_like(left_matrix)
    return lambda: torch.mm(left_matrix, right_matrix, out=target)
