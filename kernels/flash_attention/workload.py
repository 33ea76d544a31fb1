"""Attention forward with mma.sync: the launch of variants.

Inputs, and the rule of the check, are those of all attention kernels: `kernels/attention`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attention.inputs import Inputs, expected, make_inputs, other_inputs
from attention.launch import (
    Launch,
    LibraryLaunch,
    built_library,
    guard_tensors,
    torch_launch,
    wrong_capability,
)
from attention.parameters import Params
from attention.problem import flops, non_matmul_flops
from attention.problem import least_bytes as bytes  # noqa: A004 - the contract's
from flash_attention.config import Config
from flash_attention.space import config_of

__all__ = [
    "bytes",
    "expected",
    "flops",
    "make_inputs",
    "non_matmul_flops",
    "other_inputs",
    "prepare",
]

MIN_CAPABILITY = (8, 0)
"""mma.sync m16n8k16 with bf16 and cp.async: PTX ISA, target notes of both."""


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of a device: its compute capability, and shared memory of a block in bytes."""

    capability: tuple[int, int]
    shared_bytes: int


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of one variant.

    Raises ValueError with the guard's reason where the kernel cannot do this, and RuntimeError
    where there is no CUDA device or no library.
    """
    if "implementation" in variant:
        return torch_launch(variant, problem, inputs)
    config = config_of(variant)
    path = built_library(inputs.device, library)
    attention = inputs.attention(config.dtype)
    guard_tensors(attention, dtype=config.dtype, d_head=config.d_head)
    guard_length(config, inputs.size.seq_len)
    guard_device(config, device_limits(inputs.device))
    return LibraryLaunch(path, "flash_attention", attention)


def device_limits(device: torch.device) -> DeviceLimits:
    """Limits of a CUDA device."""
    properties: Any = torch.cuda.get_device_properties(device)  # the stubs lack a field
    return DeviceLimits(
        (properties.major, properties.minor), properties.shared_memory_per_block_optin
    )


def guard_device(config: Config, limits: DeviceLimits) -> None:
    """Raise ValueError where a device cannot run a configuration."""
    if limits.capability < MIN_CAPABILITY:
        raise wrong_capability(limits.capability, MIN_CAPABILITY)
    if config.shared_bytes > limits.shared_bytes:
        raise ValueError(
            f"the tiles need {config.shared_bytes} bytes of shared memory; a block of this device "
            f"may have {limits.shared_bytes}"
        )


def guard_length(config: Config, seq_len: int) -> None:
    """Raise ValueError where tiles of a configuration do not divide a length."""
    reason = config.length_refusal(seq_len)
    if reason is not None:
        raise ValueError(reason)
