"""Absolute errors that rounding explains in right results, which `check.compare` allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from profiler.kernels.references import Reference
from profiler.runner.checks.check import (
    Allowed,
    Tensors,
    as_tensors,
    count_wrong,
    largest_magnitude,
    worst_error,
)

_SLACK, _HALF_SLACK = 16.0, 2.0
"""How many times as wrong as the baseline a right result may be: other orders of adding differ by
as much in float32. A result in half precision was rounded once, at its end; twice as much is what
rounding the other way makes."""
_MOST_ROUNDINGS = 8.0
"""Of the largest element, that the worst error of a baseline may be taken for."""
_HALF_STEP = torch.finfo(torch.float16).eps
_NUDGES = 16
"""Results on nudged inputs: in fewer some elements hardly move, by chance. In eight draws of
half that size, one of 16 million quantized numbers did not that was rounded to another one."""
_NUDGE_SLACK = 32.0
"""How many times as far as the right result moves an element may be off. Sums of 16384 float32 of
both signs, added one by one, are off by up to 14 times that, by a tree by less than once; in TF32
by hundreds."""
_FEW = 256
"""Elements of a result in which a baseline that rounds on its way may be right by chance, as a loss
in float32 is that was computed from scores in bfloat16."""
_DRAWS = 8
"""Other inputs by which it is then told how wrong the baseline is."""
_MOST_MOVED = 1e-3
"""Share of the sum of a result that moves at most where single elements may be off by as much as
they move: those that are rounded, compared or counted. Of whole numbers all would be."""


Nearby = Callable[[int], Tensors]
"""Right results on inputs that are nudged by a seed."""


def rounding_of(own: torch.Tensor, expected: torch.Tensor, largest_step: float = 0.0) -> float:
    """Absolute error that rounding explains in a result of the type of `own`; 0 for none.

    `own` is the baseline's result and `expected` that in float64. Another right result may be off
    by some times as much, and never by more than its type explains, or the type on its way whose
    numbers are furthest apart (`largest_step`).
    """
    if own.shape != expected.shape or not (own.is_floating_point() or own.is_complex()):
        return 0.0
    step = max(torch.finfo(own.dtype).eps, largest_step)
    error = min(worst_error(own, expected), _most_explained(step, expected))
    return (_HALF_SLACK if step >= _HALF_STEP else _SLACK) * error


def rounding_in(reference: Reference) -> Rounding:
    """What rounding explains in results of the variants whose reference this is."""
    expected = as_tensors(reference.result, "the reference")
    own = () if reference.in_own_types is None else as_tensors(reference.in_own_types, "the result")
    amounts = _missed(own, expected, reference.largest_step) if own else []
    return Rounding(reference, expected, amounts)


def _missed(own: Tensors, expected: Tensors, largest_step: float) -> list[float]:
    """`rounding_of` by output; 0 for those in which the baseline is right anyway."""
    return [
        rounding_of(*pair, largest_step) if count_wrong(*pair, 1.0) else 0.0
        for pair in zip(own, expected, strict=True)
    ]


def fixed(amounts: Sequence[float]) -> Allowed:
    """Function that allows each output the same error at all elements."""
    return lambda number, _dtype: amounts[number] if number < len(amounts) else 0.0


class Rounding:
    """Function that gives the error allowed in the results of a problem.

    It is found by element, when a result of a type with no room for rounding first misses the
    default tolerance: by how far the right result moves where its inputs are nudged.
    """

    def __init__(self, reference: Reference, expected: Tensors, own: Sequence[float]) -> None:
        self._reference, self._expected, self._own = reference, expected, own
        self._is_drawn = False
        """Whether `_own` is that of other inputs, too."""
        self._explained: Tensors | None = None

    def __call__(self, number: int, dtype: torch.dtype) -> float | torch.Tensor:
        """Absolute error of an output of a type: one for all elements, or one for each."""
        if not self._is_drawn and self._expected[number].numel() <= _FEW:
            self._own, self._is_drawn = _drawn(self._reference, self._own), True
        own = fixed(self._own)(number, dtype)
        real = dtype.to_real()
        if real.is_floating_point and real != torch.float32:
            return own
        if self._explained is None:
            self._explained = _explained(
                self._expected,
                lambda seed: as_tensors(self._reference.nearby(seed), "the reference"),
            )
        return self._explained[number].clamp(min=own) if self._explained else own

    def largest(self) -> Allowed:
        """Function that allows each output what its most allowed element was allowed so far."""
        explained = self._explained or ()
        of_elements = [float(errors.max()) if errors.numel() else 0.0 for errors in explained]
        own = [self._own[n] if n < len(self._own) else 0.0 for n in range(len(self._expected))]
        return fixed(list(map(max, own, of_elements)) if of_elements else own)


def _drawn(reference: Reference, own: Sequence[float]) -> Sequence[float]:
    """Largest of what rounding explains by output (`own`) and of that on other inputs.

    Of outputs of few elements alone: of many, some tell how wrong the baseline is. `own` where
    memory is short of them, or the user's code takes no inputs but the given ones.
    """
    if reference.both_nearby is None:
        return own
    most = list(own)
    try:
        for seed in range(_DRAWS):
            results, right = (
                as_tensors(result, "the reference") for result in reference.both_nearby(seed)
            )
            amounts = _missed(results, right, reference.largest_step)
            for number, (amount, output) in enumerate(zip(amounts, right, strict=True)):
                if output.numel() <= _FEW:
                    most[number] = max(most[number], amount)
    except Exception:  # whatever it is, it is not the fault of whose result is compared
        return own
    return most


def _explained(expected: Tensors, nearby: Nearby) -> Tensors:
    """Errors by element that rounding of inputs explains.

    None where memory is short of them, or the user's code takes no inputs but the given ones.
    """
    wide = tuple(map(_wide, expected))
    moved = [torch.zeros_like(right, dtype=torch.float64) for right in wide]
    try:
        for seed in range(_NUDGES):
            for most, right, other in zip(moved, wide, nearby(seed), strict=True):
                torch.maximum(most, (_wide(other) - right).abs(), out=most)
    except Exception:  # whatever it is, it is not the fault of whose result is compared
        return ()
    return tuple(map(_allowed, moved, wide, expected))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _allowed(moved: torch.Tensor, wide: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Errors allowed for how far elements moved; infinite and missing ones are allowed none."""
    moved = moved.nan_to_num(0.0, 0.0)
    allowed = torch.zeros_like(moved)
    if expected.is_floating_point() or expected.is_complex():
        most = _SLACK * _most_explained(torch.finfo(torch.float32).eps, expected)
        allowed = (_NUDGE_SLACK * moved).clamp_(max=most)
    if moved.sum() <= _MOST_MOVED * wide.abs().nan_to_num(0.0, 0.0).sum():
        allowed = torch.maximum(allowed, moved)
    return allowed


def _most_explained(step: float, expected: torch.Tensor) -> float:
    return _MOST_ROUNDINGS * step * largest_magnitude(expected)
