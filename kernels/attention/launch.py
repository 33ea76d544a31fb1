"""Launches of attention by torch or a built library, and guards of both."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from attention.implementations import dtype_of
from attention.inputs import TORCH_DTYPES, Attention, Inputs
from attention.parameters import Params
from attention.problem import is_causal
from attention.sdpa import SdpaLaunch
from profiler.kernels.library import KernelLibrary

Launch = Callable[[], torch.Tensor]

BACKENDS: Mapping[str, SDPBackend] = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
}

ALIGNMENT = 16
"""Bytes that an address must be a multiple of: cp.async copies so many (PTX ISA), and TMA wants it
of a tensor (CUDA driver API, tensor maps)."""


def torch_launch(variant: Params, problem: Params, inputs: Inputs) -> Launch:
    """Launch of torch's attention."""
    tensors = inputs.attention(dtype_of(variant, problem))
    backend = BACKENDS[str(variant["implementation"])]
    return SdpaLaunch(
        tensors.query, tensors.key, tensors.value, backend=backend, causal=is_causal(problem)
    )


def built_library(device: torch.device, library: Path | None) -> Path:
    """Library of a compiled kernel; raises RuntimeError where it is missing or cannot run."""
    if device.type != "cuda":
        raise RuntimeError(f"the kernel needs a CUDA device and cannot run on {device.type}")
    if library is None:
        raise RuntimeError("the kernel needs its built library, and got none")
    return library


def wrong_capability(device: tuple[int, int], required: tuple[int, int]) -> ValueError:
    """Error of a device that does not run a kernel, by both compute capabilities."""
    has, needs = (".".join(map(str, version)) for version in (device, required))
    return ValueError(f"the kernel needs compute capability {needs}, the device has {has}")


def guard_tensors(
    attention: Attention, *, dtype: str, d_head: int, kv_heads_first: bool = False
) -> None:
    """Raise ValueError where a kernel for this type and head dimension cannot take the tensors.

    All are (batch, seq_len, heads, d_head), K and V with `kv_heads_first` (batch, heads, seq_len,
    d_head), contiguous, of one type, on one device, at addresses that are multiples of 16 bytes.
    """
    query = attention.query
    if query.dim() != 4:
        raise ValueError(f"q must be (batch, seq_len, heads, d_head), not {tuple(query.shape)}")
    if query.shape[3] != d_head:
        raise ValueError(f"the kernel is for d_head = {d_head}, q has {query.shape[3]}")
    batch, seq_len, heads, _ = query.shape
    kv_shape = (batch, heads, seq_len, d_head) if kv_heads_first else tuple(query.shape)
    _guard_tensor("q", query, query, tuple(query.shape), dtype)
    _guard_tensor("k", attention.key, query, kv_shape, dtype)
    _guard_tensor("v", attention.value, query, kv_shape, dtype)
    _guard_tensor("the output", attention.output, query, tuple(query.shape), dtype)


def _guard_tensor(
    name: str, tensor: torch.Tensor, query: torch.Tensor, shape: tuple[int, ...], dtype: str
) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name} is {tuple(tensor.shape)}, but q is {tuple(query.shape)}")
    if tensor.dtype != TORCH_DTYPES[dtype]:
        raise ValueError(f"the kernel is for {TORCH_DTYPES[dtype]}, {name} is {tensor.dtype}")
    if tensor.device != query.device:
        raise ValueError(f"{name} is on {tensor.device}, but q is on {query.device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous")
    if tensor.data_ptr() % ALIGNMENT:
        raise ValueError(f"{name} is not aligned to {ALIGNMENT} bytes, as the kernel's copies need")


class LibraryLaunch:
    """The function `<prefix>_launch` of a built library, on torch's current stream.

    It gets the addresses of Q, K, V and O, the batch, length and number of heads, what the family
    adds, and the stream.
    """

    def __init__(self, library: Path, prefix: str, attention: Attention, *options: int) -> None:
        self._attention = attention
        self.outputs = (attention.output,)
        numbers = (*attention.query.shape[:3], *options)
        types = (*[ctypes.c_void_p] * 4, *[ctypes.c_int] * len(numbers), ctypes.c_void_p)
        self._launch = KernelLibrary(library, prefix).function("launch", *types)
        tensors = (attention.query, attention.key, attention.value, attention.output)
        self._arguments = (*(tensor.data_ptr() for tensor in tensors), *numbers)

    def __call__(self) -> torch.Tensor:
        """Start the kernel; returns the attention's output."""
        stream = torch.cuda.current_stream(self._attention.output.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self._attention.output
