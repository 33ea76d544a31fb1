"""Attention forward on Hopper: inputs, expected results, and the launch of variants.

Q, K, V and O are contiguous (batch, seq_len, heads, head_dim) in float16 or bfloat16, K and V of
variants with `kv_heads_first` (batch, heads, seq_len, head_dim); there is no mask or a causal one,
and no dropout, the lengths are equal and may be any, and scores are scaled by 1 / sqrt(head_dim).
Inputs, and the rule of the check, are those of `profiler.kernels.flash_attention`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from profiler.kernels.flash_attention import workload as mma_workload
from profiler.kernels.flash_attention.space import Sizes, least_bytes
from profiler.kernels.flash_attention.workload import BACKENDS, Attention
from profiler.kernels.flash_attention_hopper.config import Config
from profiler.kernels.flash_attention_hopper.space import (
    MMA_SYNC,
    config_of,
    dtype_of,
    flops,
    is_causal,
    mma_params,
    sizes,
)
from profiler.kernels.library import KernelLibrary
from profiler.kernels.parameters import Params
from profiler.kernels.sdpa import SdpaLaunch

__all__ = ["bytes", "expected", "flops", "make_inputs", "other_inputs", "prepare"]

Launch = Callable[[], torch.Tensor]

CAPABILITY = (9, 0)
"""Machine code for sm_90a runs on compute capability 9.0 alone: CUDA C++ programming guide."""

_DTYPES = {"FP16": torch.float16, "BF16": torch.bfloat16}
_ALIGNMENT = 16
"""Bytes that TMA wants a tensor's address to be a multiple of: CUDA driver API, tensor maps."""


class Inputs(mma_workload.Inputs):
    """Tensors of one problem in each type and layout, made when a variant first asks for them."""

    def __init__(self, size: Sizes, device: torch.device, seed: int, *, causal: bool) -> None:
        super().__init__(size, device, seed, causal=causal)
        self._heads_first: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def heads_first_dtypes(self) -> tuple[str, ...]:
        """Types of which K and V were asked for with heads first."""
        return tuple(self._heads_first)

    def heads_first(self, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of `attention` as (batch, heads, seq_len, head_dim)."""
        if dtype not in self._heads_first:
            made = self.attention(dtype)
            self._heads_first[dtype] = (
                made.key.transpose(1, 2).contiguous(),
                made.value.transpose(1, 2).contiguous(),
            )
        return self._heads_first[dtype]


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Inputs of a problem; the same for the same seed and kind of device."""
    return Inputs(sizes(problem), device, seed, causal=is_causal(problem))


def other_inputs(problem: Params, inputs: Inputs, seed: int) -> Inputs:
    """Inputs of another seed in each type and layout that was asked for so far."""
    others = make_inputs(problem, inputs.device, seed)
    for dtype in inputs.dtypes:
        others.attention(dtype)
    for dtype in inputs.heads_first_dtypes:
        others.heads_first(dtype)
    return others


def expected(
    variant: Params, problem: Params, inputs: Inputs
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Plain attention in a variant's type, and the absolute and relative bound of its error."""
    result, bound = inputs.expected(dtype_of(variant, problem))
    return result, (bound, 0.0)


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory: Q, K and V read once, O written once."""
    return least_bytes(sizes(problem))


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of one variant.

    Raises ValueError with the guard's reason where the kernel cannot do this, and RuntimeError
    where there is no CUDA device or no library.
    """
    implementation = variant.get("implementation")
    if implementation == MMA_SYNC:
        return mma_workload.prepare(mma_params(variant), problem, inputs, library)
    if implementation is not None:
        made = inputs.attention(dtype_of(variant, problem))
        backend = BACKENDS[str(implementation)]
        causal = is_causal(problem)
        return SdpaLaunch(made.query, made.key, made.value, backend=backend, causal=causal)
    config = config_of(variant)
    attention = inputs.attention(config.dtype)
    if inputs.device.type != "cuda":
        raise RuntimeError(f"the kernel needs a CUDA device and cannot run on {inputs.device.type}")
    if library is None:
        raise RuntimeError("the kernel needs its built library, and got none")
    if config.kv_heads_first:
        key, value = inputs.heads_first(config.dtype)
        attention = replace(attention, key=key, value=value)
    guard_tensors(config, attention.query, attention.key, attention.value, attention.output)
    guard_device(torch.cuda.get_device_capability(inputs.device))
    return _LibraryLaunch(library, attention, config.kv_heads_first)


def guard_device(capability: tuple[int, int]) -> None:
    """Raise ValueError where a device of this compute capability cannot run the kernel."""
    if capability != CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, CAPABILITY))
        raise ValueError(f"the kernel needs compute capability {need}, the device has {have}")


def guard_tensors(
    config: Config,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
) -> None:
    """Raise ValueError where a configuration cannot work on these tensors.

    All are (batch, seq_len, heads, d_head), K and V with `kv_heads_first` (batch, heads, seq_len,
    d_head), contiguous, of one type, on one device, at addresses that are multiples of 16 bytes.
    """
    if query.dim() != 4:
        raise ValueError(f"q must be (batch, seq_len, heads, d_head), not {tuple(query.shape)}")
    if query.shape[3] != config.d_head:
        raise ValueError(f"the kernel is for d_head = {config.d_head}, q has {query.shape[3]}")
    batch, seq_len, heads, d_head = query.shape
    kv_shape = (batch, heads, seq_len, d_head) if config.kv_heads_first else tuple(query.shape)
    shapes = {"k": kv_shape, "v": kv_shape}
    for name, tensor in (("q", query), ("k", key), ("v", value), ("the output", output)):
        if tensor.shape != shapes.get(name, query.shape):
            raise ValueError(f"{name} is {tuple(tensor.shape)}, but q is {tuple(query.shape)}")
        if tensor.dtype != _DTYPES[config.dtype]:
            raise ValueError(f"the kernel is for {_DTYPES[config.dtype]}, {name} is {tensor.dtype}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, but q is on {query.device}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous")
        if tensor.data_ptr() % _ALIGNMENT:
            raise ValueError(f"{name} is not aligned to {_ALIGNMENT} bytes, as TMA needs it")


class _LibraryLaunch:
    """The launch function of one built library, on torch's current stream."""

    def __init__(self, library: Path, attention: Attention, kv_heads_first: bool) -> None:
        self._attention = attention
        self.outputs = (attention.output,)
        types = (*[ctypes.c_void_p] * 4, *[ctypes.c_int] * 4, ctypes.c_void_p)
        self._launch = KernelLibrary(library, "flash_attention_hopper").function("launch", *types)
        tensors = (attention.query, attention.key, attention.value, attention.output)
        self._arguments = (
            *(tensor.data_ptr() for tensor in tensors),
            *attention.query.shape[:3],
            int(kv_heads_first),
        )

    def __call__(self) -> torch.Tensor:
        stream = torch.cuda.current_stream(self._attention.output.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self._attention.output
