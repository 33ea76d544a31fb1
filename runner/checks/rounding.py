"""Absolute errors that rounding explains in right results, which `check.compare` allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType

import torch

from profiler.kernels.references import ALL_SIGNS, NUDGE, Reference
from profiler.runner.checks.check import (
    HALF_ROUNDINGS,
    HALF_TYPES,
    MOST_ROUNDINGS,
    Allowed,
    Tensors,
    as_tensors,
    count_wrong,
    default_tolerance,
    half_rounding,
    is_whole,
    largest_by_magnitude,
    largest_magnitude,
    magnitude_gaps,
    parts_of,
    worst_error,
)

_SLACK, _HALF_SLACK = 16.0, 2.0
"""How many times as wrong as the baseline a right result may be: other orders of adding differ by
as much in float32. A result in half precision was rounded once, at its end: rounding it the other
way doubles the error."""
_HALF_STEP = torch.finfo(torch.float16).eps
_NUDGES = 16
"""Results on nudged inputs: in fewer some elements hardly move, by chance. In eight draws of
half that size, one of 16 million quantized numbers did not that was rounded to another one."""
_NUDGE_SLACK = 32.0
"""How many times as far as the right result moves an element may be off. Sums of 16384 float32 of
both signs, added one by one, are off by up to 14 times as much, added by a tree by less than once;
in TF32 by hundreds."""
_HALF_NUDGE_SLACK = 8.0
"""How many times as far as the right result moves an element in bfloat16, or a small one in
float16, may be off, where inputs are nudged by a rounding step of its type."""
_FEW = 256
"""Elements of a result in which a baseline that rounds on its way may be right by chance, as a loss
in float32 is that was computed from scores in bfloat16."""
_DRAWS = 8
"""Number of other inputs on which the error of the baseline is then found."""
_MOST_MOVED = 1e-3
"""Share of the sum of a result that moves at most where single elements may be off by as much as
they move: elements that are rounded, compared or counted. Of whole numbers all would be."""
_MOST_WHOLE_MOVED = 1 / 8
"""Share of the elements of a result in whole numbers that move at most where the same holds, if the
baseline is off itself. Of numbers in bfloat16 that are quantized with a scale of 0.05, one in
fifteen lies halfway between two."""
_ROUNDING_ALONE = 0.01
"""Share of the sum of a result that moves at least where all its terms cancel, as in the gradient
of a bias before a normalisation: its elements have no size of their own to compare errors with.
Those gradients move by 0.2 and more, other results of training steps by less than 1e-5."""

Nearby = Callable[[int], Tensors]
"""Right results on inputs that are nudged by a seed."""
ByMagnitude = tuple[torch.Tensor, torch.Tensor]
"""Magnitudes that part small from large elements, ascending, and the error below, between and above
them."""


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
    return _slack(step) * min(worst_error(own_result, expected), _most_explained(step, expected))


def _slack(step: float) -> float:
    """Number of times as wrong as a baseline of such a rounding step that a right result may be."""
    return _HALF_SLACK if step >= _HALF_STEP else _SLACK


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


def fixed_errors(
    amounts: Sequence[float],
    by_magnitude: Mapping[tuple[int, torch.dtype], ByMagnitude | None] = MappingProxyType({}),
) -> Allowed:
    """Function that allows each output the same error at all elements, or at all of a magnitude."""

    def allowed(
        number: int, dtype: torch.dtype, right_result: torch.Tensor
    ) -> float | torch.Tensor:
        if errors := by_magnitude.get((number, dtype.to_real())):
            return _errors_of(right_result, errors)
        return amounts[number] if number < len(amounts) else 0.0

    return allowed


def _errors_of(right_result: torch.Tensor, by_magnitude: ByMagnitude) -> torch.Tensor:
    """The error of each element by its magnitude."""
    gaps, errors = (part.to(right_result.device) for part in by_magnitude)
    return errors[parts_of(_wide_tensor(right_result).abs(), gaps)]


class Rounding:
    """Function that gives the error allowed in the results of a problem.

    It is found by element, when a result of a type with no room for rounding first misses the
    default tolerance: by how far the right result moves where its inputs are nudged. Where
    roundings of the largest elements would explain any error of the others, as those of a mask's
    constant do in scores, elements are judged by those of their own magnitude.
    """

    def __init__(self, reference: Reference, expected: Tensors, amounts: Sequence[float]) -> None:
        self._reference, self._expected, self._amounts = reference, expected, amounts
        self._is_drawn = False
        """Whether `_amounts` includes other inputs."""
        self._explained_errors: Tensors | None = None
        self._by_magnitude: dict[tuple[int, torch.dtype], ByMagnitude | None] = {}
        """By output and type; None where one error holds for all elements."""

    def __call__(
        self, number: int, dtype: torch.dtype, right_result: torch.Tensor
    ) -> float | torch.Tensor:
        """Absolute error of an output of a type: one for all elements, or a tensor by element."""
        if not self._is_drawn and self._expected[number].numel() <= _FEW:
            self._amounts, self._is_drawn = _largest_drawn(self._reference, self._amounts), True
        real = dtype.to_real()
        by_magnitude = self._errors_by_magnitude(number, real)
        errors: float | torch.Tensor = self._amount(number)
        if by_magnitude is not None:
            errors = _errors_of(right_result, by_magnitude)
        if real == torch.bfloat16 and self._reference.in_own_types is not None:
            with suppress(torch.OutOfMemoryError):  # not the fault of the variant either
                return self._errors_in_bfloat16(number, errors)
        if real.is_floating_point and real != torch.float32:
            return errors
        if self._explained_errors is None:
            self._explained_errors = tuple(
                _allowed_errors(*pair, own_is_off=self._own_is_off(output))
                for output, pair in enumerate(zip(self._distances, self._expected, strict=False))
            )
        if not self._explained_errors:
            return errors
        explained = self._explained_errors[number]
        return explained.clamp(
            min=errors.to(explained) if isinstance(errors, torch.Tensor) else errors
        )

    def _errors_in_bfloat16(
        self, number: int, errors: float | torch.Tensor
    ) -> float | torch.Tensor:
        """Absolute error of each element: what nudges explain, and the baseline's own beyond that.

        Two roundings of the largest element would allow half of a softmax to be 0. At most as much
        (or `errors`, where that is more), at least the part of it that two of float16 are.
        `errors` where nothing moves: of whole numbers, or where memory does not suffice.
        """
        if not self._distances or not self._distances[number].any():
            return errors
        wide = _wide_tensor(self._expected[number])
        step = torch.finfo(torch.bfloat16).eps
        most = torch.as_tensor(errors, dtype=torch.float64, device=wide.device)
        if not isinstance(errors, torch.Tensor):
            most = most.clamp(min=half_rounding(torch.bfloat16, largest_magnitude(wide)))
        distances = self._distances[number].nan_to_num(0.0, 0.0)
        explained = _HALF_NUDGE_SLACK * step / NUDGE * distances
        for own_error in self._own_errors(number, wide):
            of_type = default_tolerance(torch.bfloat16).relative * wide.abs()
            beyond = (own_error - of_type - explained).nan_to_num(0.0, 0.0).clamp(min=0.0)
            explained = explained + _HALF_SLACK * beyond.max()
        return explained.minimum(most).maximum(_HALF_STEP / step * most)

    def _amount(self, number: int) -> float:
        return self._amounts[number] if number < len(self._amounts) else 0.0

    @cached_property
    def _distances(self) -> Tensors:
        """Largest moves of elements of the right results where inputs are nudged."""
        return _distances(
            self._expected, lambda seed: as_tensors(self._reference.nearby(seed), "the reference")
        )

    def _errors_by_magnitude(self, number: int, dtype: torch.dtype) -> ByMagnitude | None:
        key = number, dtype
        if key not in self._by_magnitude:
            self._by_magnitude[key] = self._found_by_magnitude(number, dtype)
        return self._by_magnitude[key]

    def _found_by_magnitude(self, number: int, dtype: torch.dtype) -> ByMagnitude | None:
        expected, amount = self._expected[number], self._amount(number)
        is_half = dtype in HALF_TYPES
        if expected.numel() <= _FEW or not (is_half or dtype == torch.float32):
            return None
        step = torch.finfo(dtype).eps
        coarsest = max(step, self._reference.largest_step)
        share = HALF_ROUNDINGS * step if is_half else _slack(coarsest) * MOST_ROUNDINGS * coarsest
        gaps = magnitude_gaps(expected, 1 / share)
        if not len(gaps):
            return None
        wide = _wide_tensor(expected)
        magnitudes = wide.abs()
        largest = gaps.new_zeros(len(gaps) + 1)
        for errors in self._errors_of_causes(number, wide, step, coarsest):
            largest = largest.maximum(largest_by_magnitude(gaps, magnitudes, errors))
        if is_half:
            largest = largest.maximum(share * largest_by_magnitude(gaps, magnitudes, magnitudes))
        return gaps, largest.clamp(
            max=max(amount, half_rounding(dtype, largest_magnitude(expected)))
        )

    def _errors_of_causes(
        self, number: int, wide: torch.Tensor, step: float, coarsest: float
    ) -> Iterator[torch.Tensor]:
        """Errors by element that those of the baseline explain; in half precision, nudges, too."""
        for own_error in self._own_errors(number, wide):
            yield _slack(coarsest) * own_error
        if step >= _HALF_STEP and self._distances:
            yield _HALF_NUDGE_SLACK * step / NUDGE * self._distances[number]

    def _own_errors(self, number: int, wide: torch.Tensor) -> Iterator[torch.Tensor]:
        """Absolute error of each element of the baseline's own result, where there is one."""
        if self._reference.in_own_types is not None:
            own_result = as_tensors(self._reference.in_own_types, "the result")[number]
            if own_result.shape == wide.shape:
                yield (_wide_tensor(own_result) - wide).abs()

    def _own_is_off(self, number: int) -> bool:
        """Whether an element of the baseline's own result differs from the right one."""
        wide = _wide_tensor(self._expected[number])
        return any(bool(own_error.any()) for own_error in self._own_errors(number, wide))

    def largest_errors(self) -> Allowed:
        """Function that allows each output the largest error that an element was allowed so far."""
        own_results = self._reference.in_own_types
        own_tensors = (
            self._expected if own_results is None else as_tensors(own_results, "the result")
        )
        for number, own_tensor in enumerate(own_tensors):
            self._errors_by_magnitude(number, own_tensor.dtype.to_real())
        by_magnitude = dict(self._by_magnitude)
        amounts = [self._amount(number) for number in range(len(self._expected))]
        for number, explained in enumerate(self._explained_errors or ()):
            amounts[number] = max(
                amounts[number], float(explained.max()) if explained.numel() else 0.0
            )
            key = number, torch.float32
            if gaps_and_errors := by_magnitude.get(key):
                gaps, errors = gaps_and_errors
                magnitudes = _wide_tensor(self._expected[number]).abs()
                largest = largest_by_magnitude(gaps, magnitudes, explained)
                by_magnitude[key] = gaps, errors.maximum(largest)
        return fixed_errors(amounts, by_magnitude)


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


def _distances(expected: Tensors, nearby: Nearby) -> Tensors:
    """Largest moves of elements where inputs are nudged; whole numbers by ALL_SIGNS, too.

    Empty where memory does not suffice, or the user's code takes no inputs but the given ones.
    """
    wide = tuple(map(_wide_tensor, expected))
    distances = tuple(torch.zeros_like(t, dtype=torch.float64) for t in wide)
    are_whole = [is_whole(tensor) for tensor in expected]
    seeds = (*range(_NUDGES), *(ALL_SIGNS if any(are_whole) else ()))
    try:
        for seed in seeds:
            for most, right_result, nearby_result, whole in zip(
                distances, wide, nearby(seed), are_whole, strict=True
            ):
                if whole or seed not in ALL_SIGNS:
                    distance = (_wide_tensor(nearby_result) - right_result).abs()
                    torch.maximum(most, distance, out=most)
    except Exception:  # of any kind: not the fault of the variant whose result is compared
        return ()
    return distances


def _wide_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _allowed_errors(
    distances: torch.Tensor, expected: torch.Tensor, *, own_is_off: bool
) -> torch.Tensor:
    """Errors allowed for the distances of elements; 0 for infinite and missing elements."""
    wide = _wide_tensor(expected)
    distances = distances.nan_to_num(0.0, 0.0)
    allowed = torch.zeros_like(distances)
    few_move = distances.sum() <= _MOST_MOVED * _sum_of_magnitudes(wide)
    if expected.is_floating_point() or expected.is_complex():
        most = _SLACK * _most_explained(torch.finfo(torch.float32).eps, expected)
        allowed = (_NUDGE_SLACK * distances).clamp_(max=most)
    elif own_is_off:
        few_move |= distances.count_nonzero() <= _MOST_WHOLE_MOVED * distances.numel()
    if few_move:
        allowed = torch.maximum(allowed, distances)
    if is_rounding_alone(distances, wide):
        allowed.clamp_(min=default_tolerance(torch.float32).absolute)
    return allowed


def is_rounding_alone(distances: torch.Tensor, wide: torch.Tensor) -> bool:
    """Whether a result moves with nudged inputs by so much that its elements have no size."""
    moved = distances.nan_to_num(0.0, 0.0).sum()
    return bool(moved >= _ROUNDING_ALONE * _sum_of_magnitudes(wide)) and bool(moved > 0)


def _sum_of_magnitudes(wide: torch.Tensor) -> torch.Tensor:
    """Sum of the magnitudes of the finite elements."""
    return wide.abs().nan_to_num(0.0, 0.0).sum()


def _most_explained(step: float, expected: torch.Tensor) -> float:
    return MOST_ROUNDINGS * step * largest_magnitude(expected)
