"""Right results, and what tells which errors rounding explains in others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

_STEP = torch.finfo(torch.float32).eps


@dataclass(frozen=True, eq=False)
class Reference:
    """Right result of a problem: best of what computes it on inputs in float64."""

    result: Any
    own: Any
    """What that gives on inputs in their own types; None where nobody asked."""
    nearby: Callable[[int], Any]
    """Right results on inputs that are nudged by a seed."""


def nudge(tensors: Iterable[torch.Tensor], seed: int) -> None:
    """Move elements by up to a rounding step of float32 in place, where their type holds that."""
    for tensor in tensors:
        if tensor.dtype in (torch.float32, torch.float64):
            generator = torch.Generator(tensor.device).manual_seed(seed)
            steps = torch.empty_like(tensor, requires_grad=False)
            steps.uniform_(1.0 - _STEP, 1.0 + _STEP, generator=generator)
            tensor.detach().mul_(steps)
