"""The launch of variants of both attention kernels, with their common inputs and check."""

from __future__ import annotations

from pathlib import Path

from attention.implementations import dtype_of
from attention.inputs import Inputs, expected, make_inputs, other_inputs
from attention.launch import Launch
from attention.parameters import Params
from attention.problem import flops, non_matmul_flops
from attention.problem import least_bytes as bytes  # noqa: A004 - the contract's
from attention_families.space import HOPPER, MMA_SYNC, family_variant
from flash_attention import workload as mma_workload
from flash_attention_hopper import workload as hopper_workload

__all__ = [
    "bytes",
    "expected",
    "flops",
    "make_inputs",
    "non_matmul_flops",
    "other_inputs",
    "prepare",
]

_PREPARE = {MMA_SYNC: mma_workload.prepare, HOPPER: hopper_workload.prepare}


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> Launch:
    """Launch of one variant, made by its kernel's workload."""
    if variant.get("implementation") == HOPPER:
        return hopper_workload.prepare_fastest(dtype_of(variant, problem), inputs, library)
    family, params = family_variant(variant, problem)
    return _PREPARE[family](params, problem, inputs, library)
