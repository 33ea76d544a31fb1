"""Attention forward in float16 and bfloat16: inputs, expected results, and the launch of variants.

Q, K, V and O are contiguous (batch, seq_len, heads, head_dim); there is no mask and no dropout, the
lengths are equal, and scores are scaled by 1 / sqrt(head_dim).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from profiler.kernels.flash_attention.config import Config
from profiler.kernels.flash_attention.space import (
    Sizes,
    attention_flops,
    config_of,
    dtype_of,
    least_bytes,
    sizes,
)
from profiler.kernels.library import KernelLibrary
from profiler.kernels.parameters import Params
from profiler.kernels.sdpa import SdpaLaunch

Launch = Callable[[], torch.Tensor]

BACKENDS: Mapping[str, SDPBackend] = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
}

MIN_CAPABILITY = (8, 0)
"""mma.sync m16n8k16 with bf16 and cp.async: PTX ISA, target notes of both."""

ERROR_FACTOR = 2.0
"""How far a kernel may be from plain 16-bit attention, in errors of that against float32: the rule
of the FlashAttention tests."""

_DTYPES = {"FP16": torch.float16, "BF16": torch.bfloat16}
_SCORE_ELEMENTS = 1 << 29
"""Scores that the expected result has in memory at once: 2 GiB as float32."""


@dataclass(frozen=True)
class Attention:
    """Tensors of one attention in one type; every variant of that type writes to this output."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output: torch.Tensor


class Inputs:
    """Tensors of one problem in each type, made when a variant of that type first asks for them."""

    def __init__(
        self, size: Sizes, device: torch.device, seed: int, *, causal: bool = False
    ) -> None:
        self.size = size
        self.device = device
        self._seed = seed
        self._causal = causal
        self._attentions: dict[str, Attention] = {}
        self._expected: dict[str, tuple[torch.Tensor, float]] = {}

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Types that were asked for so far."""
        return tuple(self._attentions)

    def attention(self, dtype: str) -> Attention:
        """Attention in `FP16` or `BF16`: the same normal values, rounded to the type."""
        if dtype not in self._attentions:
            self._attentions[dtype] = self._make(_DTYPES[dtype])
        return self._attentions[dtype]

    def expected(self, dtype: str) -> tuple[torch.Tensor, float]:
        """Plain attention in a type, and how far a right result may be from it."""
        if dtype not in self._expected:
            made = self.attention(dtype)
            self._expected[dtype] = expected_attention(
                made.query, made.key, made.value, causal=self._causal
            )
        return self._expected[dtype]

    def _make(self, dtype: torch.dtype) -> Attention:
        generator = torch.Generator(device=self.device).manual_seed(self._seed)
        size = self.size
        shape = (size.batch, size.seq_len, size.heads, size.head_dim)
        query, key, value = (
            torch.randn(shape, generator=generator, device=self.device).to(dtype) for _ in range(3)
        )
        return Attention(query, key, value, torch.empty_like(query))


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of a device: its compute capability, and shared memory of a block in bytes."""

    capability: tuple[int, int]
    shared_bytes: int


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Inputs of a problem; the same for the same seed and kind of device."""
    return Inputs(sizes(problem), device, seed)


def other_inputs(problem: Params, inputs: Inputs, seed: int) -> Inputs:
    """Inputs of another seed in each type that was asked for so far."""
    others = Inputs(sizes(problem), inputs.device, seed)
    for dtype in inputs.dtypes:
        others.attention(dtype)
    return others


def expected(
    variant: Params, problem: Params, inputs: Inputs
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Result of a variant's type, and the absolute and relative bound of its error."""
    result, bound = inputs.expected(dtype_of(variant, problem))
    return result, (bound, 0.0)


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Make the launch of one variant.

    Raises ValueError with the guard's reason where our kernel cannot do this, and RuntimeError
    where there is no CUDA device or no library.
    """
    attention = inputs.attention(dtype_of(variant, problem))
    if "implementation" in variant:
        backend = BACKENDS[str(variant["implementation"])]
        return SdpaLaunch(attention.query, attention.key, attention.value, backend=backend)
    config = config_of(variant)
    if inputs.device.type != "cuda":
        raise RuntimeError(f"our kernels need a CUDA device and cannot run on {inputs.device.type}")
    if library is None:
        raise RuntimeError("our kernels need their built library, and got none")
    guard_tensors(config, attention.query, attention.key, attention.value, attention.output)
    guard_device(config, device_limits(inputs.device))
    return _LibraryLaunch(library, attention)


def flops(problem: Params) -> float:
    """Operations of the attention itself: the two products and the softmax."""
    return attention_flops(sizes(problem))


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory: Q, K and V read once, O written once."""
    return least_bytes(sizes(problem))


def expected_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool = False
) -> tuple[torch.Tensor, float]:
    """Plain attention in the inputs' type, and the largest error that a kernel may have.

    That is twice the largest error of the plain attention itself against float32. Works on some
    heads at a time, because all scores of a long problem do not fit into memory.
    """
    batch, length, heads, head_dim = query.shape
    operands = [
        tensor.transpose(1, 2).reshape(batch * heads, length, head_dim)
        for tensor in (query, key, value)
    ]
    result = torch.empty_like(operands[0])
    error = 0.0
    step = max(1, _SCORE_ELEMENTS // length**2)
    for start in range(0, batch * heads, step):
        part = [operand[start : start + step] for operand in operands]
        result[start : start + step] = _plain_attention(*part, causal=causal)
        precise = _plain_attention(*(operand.float() for operand in part), causal=causal)
        error = max(error, float((result[start : start + step] - precise).abs().max()))
    return result.view(batch, heads, length, head_dim).transpose(1, 2), ERROR_FACTOR * error


def _plain_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool
) -> torch.Tensor:
    """Attention of (heads, seq_len, head_dim) by its definition, in the type of the inputs."""
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores.masked_fill_(later, -torch.inf)
    return torch.softmax(scores, dim=-1) @ value


def device_limits(device: torch.device) -> DeviceLimits:
    """Limits of a CUDA device."""
    properties: Any = torch.cuda.get_device_properties(device)  # the stubs lack a field
    return DeviceLimits(
        (properties.major, properties.minor), properties.shared_memory_per_block_optin
    )


def guard_device(config: Config, limits: DeviceLimits) -> None:
    """Raise ValueError where a device cannot run a configuration."""
    if limits.capability < MIN_CAPABILITY:
        versions = (limits.capability, MIN_CAPABILITY)
        have, need = (".".join(map(str, version)) for version in versions)
        raise ValueError(f"the kernel needs compute capability {need}, the device has {have}")
    if config.shared_bytes > limits.shared_bytes:
        raise ValueError(
            f"the tiles need {config.shared_bytes} bytes of shared memory; a block of this device "
            f"may have {limits.shared_bytes}"
        )


def guard_tensors(
    config: Config,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
) -> None:
    """Raise ValueError where a configuration cannot work on these tensors."""
    for name, tensor in (("k", key), ("v", value), ("the output", output)):
        if tensor.shape != query.shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, but q is {tuple(query.shape)}")
    for name, tensor in (("q", query), ("k", key), ("v", value), ("the output", output)):
        if tensor.dtype != _DTYPES[config.dtype]:
            raise ValueError(f"the kernel is for {_DTYPES[config.dtype]}, {name} is {tensor.dtype}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, but q is on {query.device}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous")
    _guard_sizes(config, tuple(query.shape))


def _guard_sizes(config: Config, shape: tuple[int, ...]) -> None:
    if len(shape) != 4:
        raise ValueError(f"q must be (batch, seq_len, heads, d_head), not {shape}")
    if shape[3] != config.d_head:
        raise ValueError(f"the kernel is for d_head = {config.d_head}, q has {shape[3]}")
    for name, rows in (("B_r", config.B_r), ("B_c", config.B_c)):
        if shape[1] % rows:
            raise ValueError(f"a length of {shape[1]} is no multiple of {name} = {rows}")


class _LibraryLaunch:
    """The launch function of one built library, on torch's current stream."""

    def __init__(self, library: Path, attention: Attention) -> None:
        self._attention = attention
        self.outputs = (attention.output,)
        types = (*[ctypes.c_void_p] * 4, *[ctypes.c_int] * 3, ctypes.c_void_p)
        self._launch = KernelLibrary(library, "flash_attention").function("launch", *types)
        tensors = (attention.query, attention.key, attention.value, attention.output)
        self._arguments = (
            *(tensor.data_ptr() for tensor in tensors),
            *attention.query.shape[:3],
        )

    def __call__(self) -> torch.Tensor:
        stream = torch.cuda.current_stream(self._attention.output.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self._attention.output
