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
as much in float32. A result in half precision was rounded once, at its end: rounding it the other
way doubles the error."""
_MOST_ROUNDINGS = 8.0
"""Most roundings of the largest element that explain the worst error of a baseline."""
_HALF_STEP = torch.finfo(torch.float16).eps
_NUDGES = 16
"""Results on nudged inputs: in fewer some elements hardly move, by chance. In eight draws of
half that size, one of 16 million quantized numbers did not that was rounded to another one."""
_NUDGE_SLACK = 32.0
"""How many times as far as the right result moves an element may be off. Sums of 16384 float32 of
both signs, added one by one, are off by up to 14 times as much, added by a tree by less than once;
in TF32 by hundreds."""
_FEW = 256
"""Elements of a result in which a baseline that rounds on its way may be right by chance, as a loss
in float32 is that was computed from scores in bfloat16."""
_DRAWS = 8
"""Number of other inputs on which the error of the baseline is then found."""
_MOST_MOVED = 1e-3
"""Share of the sum of a result that moves at most where single elements may be off by as much as
they move: elements that are rounded, compared or counted. Of whole numbers all would be."""


Nearby = Callable[[int], Tensors]
"""Right results on inputs that are nudged by a seed."""


def rounding_of(
    own_result: torch.Tensor, expected: torch.Tensor, largest_step: float = 0.0
) -> float:
    """Absolute error that rounding explains in a result of the type of `own_result`; 0 for none.

    `own_result` is the baseline's result and `expected` its result in float64. Another right result
    may be off by some times as much, and never by more than its type explains, or the coarsest
    type in between (`largest_step`).
    """
    if own_result.shape != expected.shape or not (
        own_result.is_floating_point() or own_result.is_complex()
    ):
        return 0.0
    step = max(torch.finfo(own_result.dtype).eps, largest_step)
    error = min(worst_error(own_result, expected), _most_explained(step, expected))
    return (_HALF_SLACK if step >= _HALF_STEP else _SLACK) * error


def rounding_in(reference: Reference) -> Rounding:
    """Rounding that is allowed in results of the variants with this reference."""
    expected = as_tensors(reference.result, "the reference")
    own_results = (
        () if reference.in_own_types is None else as_tensors(reference.in_own_types, "the result")
    )
    amounts = (
        _amounts_by_output(own_results, expected, reference.largest_step) if own_results else []
    )
    return Rounding(reference, expected, amounts)


def _amounts_by_output(own_results: Tensors, expected: Tensors, largest_step: float) -> list[float]:
    """`rounding_of` by output; 0 for an output in which the baseline is right anyway."""
    return [
        rounding_of(*pair, largest_step) if count_wrong(*pair, 1.0) else 0.0
        for pair in zip(own_results, expected, strict=True)
    ]


def fixed_errors(amounts: Sequence[float]) -> Allowed:
    """Function that allows each output the same error at all elements."""
    return lambda number, _dtype: amounts[number] if number < len(amounts) else 0.0


class Rounding:
    """Function that gives the error allowed in the results of a problem.

    It is found by element, when a result of a type with no room for rounding first misses the
    default tolerance: by how far the right result moves where its inputs are nudged.
    """

    def __init__(self, reference: Reference, expected: Tensors, amounts: Sequence[float]) -> None:
        self._reference, self._expected, self._amounts = reference, expected, amounts
        self._is_drawn = False
        """Whether `_amounts` includes other inputs."""
        self._explained_errors: Tensors | None = None

    def __call__(self, number: int, dtype: torch.dtype) -> float | torch.Tensor:
        """Absolute error of an output of a type: one for all elements, or a tensor by element."""
        if not self._is_drawn and self._expected[number].numel() <= _FEW:
            self._amounts, self._is_drawn = _largest_drawn(self._reference, self._amounts), True
        amount = fixed_errors(self._amounts)(number, dtype)
        real = dtype.to_real()
        if real.is_floating_point and real != torch.float32:
            return amount
        if self._explained_errors is None:
            self._explained_errors = _explained_errors(
                self._expected,
                lambda seed: as_tensors(self._reference.nearby(seed), "the reference"),
            )
        return (
            self._explained_errors[number].clamp(min=amount) if self._explained_errors else amount
        )

    def largest_errors(self) -> Allowed:
        """Function that allows each output the largest error that an element was allowed so far."""
        explained = self._explained_errors or ()
        of_elements = [float(errors.max()) if errors.numel() else 0.0 for errors in explained]
        amounts = [
            self._amounts[n] if n < len(self._amounts) else 0.0 for n in range(len(self._expected))
        ]
        return fixed_errors(list(map(max, amounts, of_elements)) if of_elements else amounts)


def _largest_drawn(reference: Reference, amounts: Sequence[float]) -> Sequence[float]:
    """Largest error that rounding explains by output, on the inputs (`amounts`) and on others.

    Only for outputs of few elements: of many, some show how wrong the baseline is. `amounts` where
    memory does not suffice, or the user's code takes no inputs but the given ones.
    """
    if reference.both_nearby is None:
        return amounts
    largest_amounts = list(amounts)
    try:
        for seed in range(_DRAWS):
            results, right_results = (
                as_tensors(result, "the reference") for result in reference.both_nearby(seed)
            )
            drawn_amounts = _amounts_by_output(results, right_results, reference.largest_step)
            for number, (amount, output) in enumerate(
                zip(drawn_amounts, right_results, strict=True)
            ):
                if output.numel() <= _FEW:
                    largest_amounts[number] = max(largest_amounts[number], amount)
    except Exception:  # of any kind: not the fault of the variant whose result is compared
        return amounts
    return largest_amounts


def _explained_errors(expected: Tensors, nearby: Nearby) -> Tensors:
    """Errors by element that rounding of inputs explains.

    Empty where memory does not suffice, or the user's code takes no inputs but the given ones.
    """
    wide = tuple(map(_wide_tensor, expected))
    distances = [torch.zeros_like(right_result, dtype=torch.float64) for right_result in wide]
    try:
        for seed in range(_NUDGES):
            for most, right_result, nearby_result in zip(
                distances, wide, nearby(seed), strict=True
            ):
                torch.maximum(most, (_wide_tensor(nearby_result) - right_result).abs(), out=most)
    except Exception:  # of any kind: not the fault of the variant whose result is compared
        return ()
    return tuple(map(_allowed_errors, distances, wide, expected))


def _wide_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _allowed_errors(
    distances: torch.Tensor, wide: torch.Tensor, expected: torch.Tensor
) -> torch.Tensor:
    """Errors allowed for the distances of elements; 0 for infinite and missing elements."""
    distances = distances.nan_to_num(0.0, 0.0)
    allowed = torch.zeros_like(distances)
    if expected.is_floating_point() or expected.is_complex():
        most = _SLACK * _most_explained(torch.finfo(torch.float32).eps, expected)
        allowed = (_NUDGE_SLACK * distances).clamp_(max=most)
    if distances.sum() <= _MOST_MOVED * wide.abs().nan_to_num(0.0, 0.0).sum():
        allowed = torch.maximum(allowed, distances)
    return allowed


def _most_explained(step: float, expected: torch.Tensor) -> float:
    return _MOST_ROUNDINGS * step * largest_magnitude(expected)
