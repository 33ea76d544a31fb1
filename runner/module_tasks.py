"""A task of KernelBench as an experiment: a file with `Model`, `get_inputs` and `get_init_inputs`.

`Model` is the baseline; classes of its file, or of a candidate's, whose names begin with `ModelNew`
are the other variants. (https://github.com/ScalingIntelligence/KernelBench)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch


def launch_with_inputs(
    kind: Callable[..., Callable[..., Any]], init_inputs: Callable[[], Sequence[Any]], *inputs: Any
) -> Callable[[], Any]:
    """Function that calls a module on inputs; the module lies where they do, and has their type.

    All modules draw their weights after the same seed, on the CPU and in float32, so that those of
    one form have the same.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            module = kind(*init_inputs())
    finally:
        torch.set_default_dtype(default)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if isinstance(module, torch.nn.Module) and tensors:
        numbers = [tensor for tensor in tensors if tensor.is_floating_point()]
        module = module.to(numbers[0]) if numbers else module.to(tensors[0].device)
    return partial(module, *inputs)
