"""Whether a check could tell a wrong result from the right one: where it cannot, the cell says why.

A check that accepts whatever it gets lets every variant pass, and the fastest wrong one wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy
import torch

from profiler.runner.arguments import copy_of
from profiler.runner.arrays import as_tensor, leaves
from profiler.runner.checks.check import Tensors, region_elements, regions


def why_result_tells_little(expected: Tensors) -> str:
    """Why no mistake shows beside a right result: an output is NaN alone, or none has an element.

    Empty where a mistake may show.
    """
    if not any(tensor.numel() for tensor in expected):
        return "the right result has no elements"
    if any(tensor.numel() and _is_nan_alone(tensor) for tensor in expected):
        return "the right result is nan in all elements, as memory is that nobody wrote"
    return ""


def why_check_tells_little(own_check: Callable[[Any], object], result: Any, got: Tensors) -> str:
    """Why a user's check tells little, which accepts a result; empty where it may be a good one.

    Zeros come first: where a check uses results as indices, other values are none, and an error of
    a GPU would end the process.
    """
    if any(map(_holds_nan, got)):
        return "the check accepts a result with nan, as memory holds that nobody wrote"
    arrays = list(leaves(result))
    if not arrays or not all(map(_can_be_filled, arrays)):
        return ""
    if all(_accepts(own_check, result, filled_with=value) for value in (0.0, math.nan)):
        return "the check accepts zeros in place of the result, and nan as well"
    return ""


def _is_nan_alone(tensor: torch.Tensor) -> bool:
    return all(part.all() for part in _nan_by_region(tensor))


def _holds_nan(tensor: torch.Tensor) -> bool:
    return any(part.any() for part in _nan_by_region(tensor))


def _nan_by_region(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Where a tensor is NaN, region by region."""
    for region in regions(tuple(tensor.shape), region_elements(tensor.device)):
        part = tensor[region]
        yield (part.float() if part.itemsize == 1 else part).isnan()  # float8 has no test for it


def _can_be_filled(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return array.layout == torch.strided
    return isinstance(array, numpy.ndarray)


def _filled_like(value: float, array: Any) -> Any:
    """An array like another one of a value; ones where its type has no such value."""
    tensor = as_tensor(array)
    has_value = tensor.is_floating_point() or tensor.is_complex() or not math.isnan(value)
    filled = torch.full_like(tensor, value if has_value else 1)
    return filled if isinstance(array, torch.Tensor) else filled.numpy()


def _accepts(own_check: Callable[[Any], object], result: Any, *, filled_with: float) -> bool:
    """Whether a check accepts one value in place of all elements of a result."""
    try:
        own_check(copy_of(result, partial(_filled_like, filled_with)))
    except Exception:  # of any kind: what cannot be checked, or made, is not accepted
        return False
    return True
