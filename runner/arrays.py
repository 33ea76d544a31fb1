"""Arrays of other libraries as tensors on the same memory: DLPack, `__cuda_array_interface__`."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

DLPACK = "__dlpack__"
CUDA_ARRAY = "__cuda_array_interface__"


def is_array(value: Any) -> bool:
    """Whether a value is a tensor, or an array that a tensor can share its memory with."""
    return isinstance(value, torch.Tensor) or hasattr(value, DLPACK) or hasattr(value, CUDA_ARRAY)


def as_tensor(value: Any) -> torch.Tensor:
    """A tensor on the memory of an array; TypeError for what is none."""
    if isinstance(value, torch.Tensor):
        return value
    if hasattr(value, DLPACK):
        return from_dlpack(value)
    if hasattr(value, CUDA_ARRAY):
        return torch.as_tensor(value, device="cuda")
    raise TypeError(f"not an array: {type(value).__name__}")
