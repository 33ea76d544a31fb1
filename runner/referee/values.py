"""Arguments between two processes that do not trust each other: JSON, and tensors by number.

Nothing is ever unpickled: that would run what the other side likes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from profiler.runner.arrays import as_tensor, is_array

_PLAIN = (bool, int, float, str, type(None))


def as_message(value: Any, number_of: Callable[[torch.Tensor], int]) -> Any:
    """A value as JSON has it, each tensor by its number.

    Raises TypeError for what is no tensor, number or text, in tuples, lists and mappings.
    """
    if is_array(value):
        if not isinstance(value, torch.Tensor) or value.requires_grad:
            raise TypeError("the referee passes tensors of torch without gradients")
        return {"tensor": number_of(as_tensor(value))}
    if isinstance(value, _PLAIN):
        return {"plain": value}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [as_message(item, number_of) for item in value]}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the referee passes mappings whose keys are texts")
        return {"mapping": {key: as_message(item, number_of) for key, item in value.items()}}
    name = type(value).__name__
    hint = ": pass its fields" if dataclasses.is_dataclass(value) else ""
    raise TypeError(f"the referee passes tensors, numbers and texts, and no {name}{hint}")


def of_message(message: Mapping[str, Any], tensors: Callable[[int], torch.Tensor]) -> Any:
    """The value of a message."""
    ((kind, content),) = message.items()
    if kind == "tensor":
        return tensors(content)
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    if kind == "mapping":
        return {key: of_message(item, tensors) for key, item in content.items()}
    if kind in ("list", "tuple"):
        items = [of_message(item, tensors) for item in content]
        return items if kind == "list" else tuple(items)
    return content
