"""Attention forward on Hopper: the launch of variants.

Inputs, and the rule of the check, are those of all attention kernels: `kernels/attention`.
Lengths may be any; K and V of variants with `kv_heads_first` are (batch, heads, seq_len, head_dim).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from flash_attention_hopper.config import Config
from flash_attention_hopper.space import config_of
from flash_attention_hopper.tuning import fastest, fastest_name

__all__ = [
    "bytes",
    "expected",
    "flops",
    "make_inputs",
    "non_matmul_flops",
    "other_inputs",
    "prepare",
]

CAPABILITY = (9, 0)
"""Machine code for sm_90a runs on compute capability 9.0 alone: CUDA C++ programming guide."""


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of one variant.

    Raises ValueError with the guard's reason where the kernel cannot do this, and RuntimeError
    where there is no CUDA device or no library.
    """
    if "implementation" in variant:
        return torch_launch(variant, problem, inputs)
    return _launch(config_of(variant), "flash_attention_hopper", inputs, library)


def prepare_fastest(dtype: str, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of the fastest kernel in a type at the inputs' length.

    `library` is that of `space.fastest_recipe`. Raises as `prepare` does.
    """
    config = fastest(dtype, inputs.size.seq_len)
    return _launch(config, f"flash_attention_hopper_{fastest_name(config)}", inputs, library)


def _launch(config: Config, prefix: str, inputs: Inputs, library: Path | None) -> Launch:
    path = built_library(inputs.device, library)
    attention = inputs.attention(config.dtype)
    heads_first = config.kv_heads_first
    if heads_first:
        key, value = inputs.heads_first(config.dtype)
        attention = replace(attention, key=key, value=value)
    guard_tensors(attention, dtype=config.dtype, d_head=config.d_head, kv_heads_first=heads_first)
    guard_device(torch.cuda.get_device_capability(inputs.device))
    return LibraryLaunch(path, prefix, attention, int(heads_first))


def guard_device(capability: tuple[int, int]) -> None:
    """Raise ValueError where a device of this compute capability cannot run the kernel."""
    if capability != CAPABILITY:
        raise wrong_capability(capability, CAPABILITY)
