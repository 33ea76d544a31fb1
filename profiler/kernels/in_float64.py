"""Right results: what computes them is called on inputs in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

_STEP = torch.finfo(torch.float32).eps


@dataclass(frozen=True, eq=False)
class Widened:
    """Result of a baseline, or of an expression, on inputs in float64."""

    result: Any
    own: Any
    """What it gives in its own types; None where nobody asked."""
    nearby: Callable[[int], Any]
    """Results on inputs in float64 that are nudged by a seed."""


def nudge(tensors: Iterable[torch.Tensor], seed: int) -> None:
    """Move elements of tensors in float64 by up to a rounding step of float32, in place."""
    for tensor in tensors:
        if tensor.dtype == torch.float64:
            generator = torch.Generator(tensor.device).manual_seed(seed)
            steps = torch.empty_like(tensor, requires_grad=False)
            steps.uniform_(1.0 - _STEP, 1.0 + _STEP, generator=generator)
            tensor.detach().mul_(steps)
