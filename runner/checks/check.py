"""Poison the outputs, launch, and compare every element with the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from numbers import Number
from types import CoroutineType, GeneratorType
from typing import Any

import numpy
import torch

from profiler.runner.arrays import as_tensor, is_array, leaves
from profiler.runner.protocol import Tolerance
from profiler.runner.timing import Launch, restore

REGION_ELEMENTS = 1 << 22
"""Elements compared at a time: each float64 temporary is 32 MiB, for tensors of any size."""

MAX_REGION_ELEMENTS = 1 << 27
"""Elements compared at a time on a GPU with memory to spare. Under ncu every launch costs 0.1 to
1 ms, profiled or not (more as the session goes on): comparing 2^30 elements in small regions took
4.8 s a variant on an H200."""

_TEMPORARIES = 16
"""More than the float64 temporaries that are alive at once in a comparison."""

# What is allowed where neither the job nor the workload says: the documented defaults of
# torch.testing.assert_close; one rounding step for smaller floats; nothing for integers.
_DEFAULT_TOLERANCES = {
    torch.float16: Tolerance(1e-5, 1e-3),
    torch.bfloat16: Tolerance(1e-5, 1.6e-2),
    torch.float32: Tolerance(1e-5, 1.3e-6),
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.complex32: Tolerance(1e-5, 1e-3),
    torch.complex64: Tolerance(1e-5, 1.3e-6),
    torch.complex128: Tolerance(1e-7, 1e-7),
}

HALF_ROUNDINGS = 2.0
"""Of the largest element, that a result in half precision may be off by. Attention of plain
operations is off by up to 1.05, torch's own by 0.15 to 0.38 (12 shapes and seeds, bfloat16); one
that sees a token too many by 40."""
_FEWEST_SMALL = 8
"""Fewest elements that are small beside others by no chance. Of normal numbers the smallest is 64
times smaller than the second one in 64 times; as many as these are never so small."""
NEARLY = 100
"""Times the tolerance that the worst element of a nearly right result may be off."""
MOST_NEARLY_RIGHT = 0.01
"""Share of the elements of a nearly right result that may be wrong; one may be in any case."""

_MOST_WITH_EQUALS = 0.25
"""Share of the elements of a result that may be indices of values with equals."""

_FEWEST_COMMON = 64
"""Fewest elements of a result whose common value is no chance."""

_FEWEST_WITH_FACTOR, _MOST_WITH_FACTOR = 1 << 8, 1 << 12
"""Elements of a result whose common factor is looked for, and elements that show it."""
_MOST_OFF_FACTOR = 0.01
"""Difference of that factor from 1 in bfloat16 that rounding may explain; its step is 0.8 %. Of 215
right results (operations of `benchmarks/check`, on a CPU) none was off by 0.8 % in each quarter. By
element, 8 of 39 results were refused that were 1.02 times as large; by factor all are."""

_HALF, _NOT_FINITE = 1022, 2047
"""Bits of the exponent in float64 of numbers from 0.5 to 1, and of those that are not finite; 0 is
that of zeros."""
_OWN_KIND = 1e3
"""Times that elements are larger at least than small ones that have a bound of their own: that of
the large ones would allow them a hundredth of themselves, or more."""
_FLUSHED = torch.finfo(torch.float32).smallest_normal
"""Smaller numbers may become 0 in kernels that are compiled for speed."""
TF32_STEP = torch.finfo(torch.float16).eps
"""Step from 1 to the next number in TF32, which has the digits of float16."""
MOST_ROUNDINGS = 8.0
"""Most roundings of the largest element that explain the worst error of a right result."""
_FEWEST_ROUNDINGS = 1 / 64
"""Fewest roundings to TF32 of the largest element by which an error looks like one of TF32."""

HALF_TYPES = (torch.float16, torch.bfloat16)
_SURELY = 0.9999
"""Share of the tolerance that is met in float64 too where half-precision results meet it in
float32, which takes half the time and memory."""
_NOTHING = -1.0
"""Stands for an element that has no error, in a maximum over errors that are never negative."""

Tensors = tuple[torch.Tensor, ...]
Allowed = Callable[[int, torch.dtype, torch.Tensor], float | torch.Tensor]
"""Absolute error, of all elements or of each, that rounding explains in an output by its number
and type, and the right result (`runner/checks/rounding.py`)."""


@dataclass(frozen=True)
class Errors:
    """Largest errors over the elements that are finite on both sides; None without any.

    The relative error leaves out elements whose expected value is 0.
    """

    max_abs: float | None
    max_rel: float | None
    rounding: float | None = None
    """Largest absolute error that was allowed beyond the default tolerance; None: it sufficed."""
    zeros_match: bool = False
    """Whether an output of zeros would match, too: a given tolerance is larger than all of it."""


class WrongResultError(Exception):
    """A result is not the reference; `errors` is None where they could not be compared."""

    def __init__(self, message: str, errors: Errors | None = None) -> None:
        super().__init__(message)
        self.errors = errors


class OverrunError(WrongResultError):
    """A launch wrote behind its memory, perhaps into the inputs or the right result of others."""


def as_tensors(value: Any, subject: str) -> Tensors:
    """All arrays and numbers of a value as tensors (see `leaves`); TypeError for any other item."""
    arrays = (None,) if value is None else tuple(leaves(value))
    for array in arrays:
        if not (is_array(array) or isinstance(array, Number)):
            raise TypeError(
                f"{subject} must be an array, a number, or a tuple, list, mapping or dataclass of "
                f"such, not {type(array).__name__}{_hint(array)}"
            )
    return tuple(map(_dense_tensor, map(as_tensor, arrays)))


def order_of_keys(result: Any) -> str:
    """The order of a mapping's outputs, behind a semicolon, where it is not that of the mapping.

    A mapping beside a reference that is a tuple may be right, but for this order.
    """
    keys = list(map(str, result)) if isinstance(result, Mapping) else []
    if keys == sorted(keys):
        return ""
    names = ", ".join(sorted(keys))
    return f"; outputs of a mapping are compared in the order of their keys: {names}"


def _hint(value: Any) -> str:
    """Advice, behind a colon, on a result that is yet to be computed; empty for other results."""
    if isinstance(value, CoroutineType):
        return ": `async def` is not awaited; call asyncio.run in a plain function"
    return ": return its items as a tuple" if isinstance(value, GeneratorType) else ""


def _dense_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_nested:
        raise TypeError("a nested tensor is not compared: return its values()")
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


MOST_SORTED = 1 << 24
"""Elements of a wrong output that are sorted at most, to see whether only their order is wrong."""
_UNWRITTEN_TEXT = (
    "; nan is also what an element holds that was never written, or is read before it is written "
    "(beta * C)"
)
_UNWRITTEN = 0xA5
"""Byte behind what a launch writes, before it."""


def poisoned_result(launch: Launch, first_launch: Callable[[Launch], Any] | None = None) -> Any:
    """Result of a launch on poisoned outputs: its return value, or the outputs that it declares.

    `first_launch` makes the launch whose result this is, in place of a call.

    A launch that declares its `outputs` has them poisoned. Otherwise the first launch shows what is
    allocated, and the second one is likely to get the same memory again, poisoned in between.
    """
    restore(launch)
    declared = getattr(launch, "outputs", None)
    for memory in _memory_behind(launch).values():
        memory.fill_(_UNWRITTEN)
    if declared is None:
        allocations = _allocations_like(launch())
        poison([as_tensor(allocate()) for allocate in allocations])
    else:
        poison(as_tensors(declared, "`outputs`"))
    restore(launch)
    result = launch() if first_launch is None else first_launch(launch)
    return declared if result is None else result


def refuse_overrun(launch: Launch) -> None:
    """Raise OverrunError where a launch has written behind its memory (`poisoned_result`)."""
    for name, memory in _memory_behind(launch).items():
        if written := int((memory != _UNWRITTEN).sum()):
            raise OverrunError(
                f"it writes past the end of {name}: {written} of the {len(memory)} bytes behind it "
                "have changed"
            )


def _memory_behind(launch: Launch) -> Mapping[str, torch.Tensor]:
    """Bytes behind what a launch writes, by names, where it has some; no launch may write them."""
    memory: Mapping[str, torch.Tensor] = getattr(launch, "memory_behind", {})
    return memory


def _allocations_like(result: Any) -> list[Callable[[], Any]]:
    tensors = as_tensors(result, "the result of the launch")
    return list(map(_allocation_like, leaves(result), tensors))


def _allocation_like(array: Any, tensor: torch.Tensor) -> Callable[[], Any]:
    """Allocation that is likely to get the memory of an array of a result, once it is released.

    Each library has memory of its own: NumPy and CuPy do not get that of a tensor.
    """
    if hasattr(array, "__array_function__") and not isinstance(array, torch.Tensor | Number):
        return partial(numpy.empty_like, numpy.empty_like(array, shape=0), shape=array.shape)
    return partial(torch.empty, tensor.shape, dtype=tensor.dtype, device=tensor.device)


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fill with values no kernel leaves: NaN, a large pattern in integers, True in booleans."""
    for tensor in tensors:
        if tensor.dtype == torch.bool:
            tensor.fill_(True)
        elif tensor.is_floating_point() or tensor.is_complex():
            tensor.fill_(math.nan)
        else:
            tensor.fill_(torch.iinfo(tensor.dtype).max // 10 * 7)


def tolerance_for(
    dtype: torch.dtype, *layers: Mapping[str, Tolerance], largest: float = 1.0
) -> Tolerance:
    """The bound for a dtype: the first layer that names it or has a `default` decides.

    Without one that of a result with this `largest` element.
    """
    return _named_tolerance(dtype, layers) or default_tolerance(dtype, largest)


def _named_tolerance(
    dtype: torch.dtype, layers: Sequence[Mapping[str, Tolerance]]
) -> Tolerance | None:
    name = str(dtype).removeprefix("torch.")
    bounds = (layer.get(name, layer.get("default")) for layer in layers)
    return next((bound for bound in bounds if bound is not None), None)


def default_tolerance(dtype: torch.dtype, largest: float = 1.0) -> Tolerance:
    """The bound for a dtype where nobody gives one, in a result with this largest element.

    Where that is below 1, the absolute part is a share of it: gradients of a mean over a million
    elements are all below 1e-5. It allows one step of the smallest numbers in any case.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return Tolerance(0.0, 0.0)
    of_type = torch.finfo(dtype)
    step = max(of_type.eps * of_type.smallest_normal, _FLUSHED)
    default = _DEFAULT_TOLERANCES.get(dtype, Tolerance(step, of_type.eps))
    return replace(default, absolute=max(step, default.absolute * min(1.0, largest or 1.0)))


def worst_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest absolute error among elements that are finite on both sides; 0 without any."""
    return _Tally(default_tolerance(got.dtype)).count(got, expected).max_abs or 0.0


def half_rounding(dtype: torch.dtype, largest: float) -> float:
    """Absolute error that results in half precision may have in any case; 0 for other types.

    `largest`: magnitude in the right result.
    """
    return HALF_ROUNDINGS * torch.finfo(dtype).eps * largest if dtype in HALF_TYPES else 0.0


def largest_magnitude(tensor: torch.Tensor) -> float:
    """Largest magnitude among finite elements; 0 without any."""
    magnitude = 0.0
    for region in regions(tuple(tensor.shape), region_elements(tensor.device)):
        part = _widen(tensor[region]).abs()
        if part.numel():
            largest = part.max().item()
            if not math.isfinite(largest):
                largest = part.where(part.isfinite(), 0.0).max().item()
            magnitude = max(magnitude, largest)
    return magnitude


def tf32_roundings(error: float, expected: torch.Tensor) -> float:
    """An absolute error in roundings of the largest element to TF32; 0 without elements but 0."""
    return error / (TF32_STEP * (largest_magnitude(expected) or math.inf))


def magnitude_gaps(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Magnitudes between small and large elements, where all large ones are `factor` times larger.

    Ascending, in float64. Zeros and elements that are not finite do not count, nor do a few small
    ones: a single one may be near 0 by chance.
    """
    counts = torch.zeros(_NOT_FINITE + 1, dtype=torch.int64, device=tensor.device)
    for region in regions(tuple(tensor.shape), region_elements(tensor.device)):
        exponents = (_widen(tensor[region]).abs().view(torch.int64) >> 52).flatten()
        counts += torch.bincount(exponents, minlength=len(counts))
    numbers = counts.tolist()
    powers = [power for power in range(1, _NOT_FINITE) if numbers[power]]
    least, total, gaps = math.log2(factor), 0, []
    for below, above in pairwise(powers):
        total += numbers[below]
        if above - 1 - below >= least and total >= _FEWEST_SMALL:
            gaps.append(2.0 ** ((below + above - 1) / 2 - _HALF))
    return torch.tensor(gaps, dtype=torch.float64, device=tensor.device)


def parts_of(magnitudes: torch.Tensor, gaps: torch.Tensor) -> torch.Tensor:
    """Number of the gaps that each magnitude is above."""
    return torch.bucketize(magnitudes.contiguous(), gaps)


def largest_by_magnitude(
    gaps: torch.Tensor, magnitudes: torch.Tensor, errors: torch.Tensor
) -> torch.Tensor:
    """Largest finite error below, between and above the gaps in the magnitudes of elements."""
    part = parts_of(magnitudes, gaps).flatten()
    largest = errors.new_zeros(len(gaps) + 1)
    return largest.scatter_reduce(0, part, errors.nan_to_num(0.0, 0.0).flatten(), "amax")


def compare(
    got: Tensors,
    expected: Tensors,
    *layers: Mapping[str, Tolerance],
    own_reference: bool = False,
    rounding: Allowed | None = None,
) -> Errors:
    """Largest errors of outputs that match their references; WrongResultError where one does not.

    `rounding`: absolute error that an output may have where no layer names its type. It is called
    only where elements miss the default tolerance.
    `own_reference`: the reference is the same function in higher precision, so that only the
    tolerance can be wrong.

    An element matches where |got - expected| <= absolute + relative * |expected|, in float64. NaN
    matches only NaN, and an infinity only itself.
    """
    if len(got) != len(expected):
        outputs = f"{len(got)} output{'' if len(got) == 1 else 's'}"
        are_numbers = len(got) > 1 and all(not output.dim() for output in got)
        hint = ": each number of a list is one, return an array" if are_numbers else ""
        raise WrongResultError(f"{outputs}, but the reference has {len(expected)}{hint}")
    for number, (output, reference) in enumerate(zip(got, expected, strict=True)):
        _require_comparable(number, output, reference)
    tallies = [
        _counted_tally(output, reference, layers, partial(rounding, number) if rounding else None)
        for number, (output, reference) in enumerate(zip(got, expected, strict=True))
    ]
    errors = Errors(
        _largest(tally.max_abs for tally in tallies),
        _largest(tally.max_rel for tally in tallies),
        _largest(tally.rounding for tally in tallies),
        any(
            _zeros_match(reference, _named_tolerance(output.dtype, layers))
            for output, reference in zip(got, expected, strict=True)
        ),
    )
    complaints = [
        tally.complaint(number, got[number], expected[number], own_reference=own_reference)
        for number, tally in enumerate(tallies)
        if tally.wrong
    ]
    if not complaints:
        complaints = [
            f"output {number}: all of it is {factor:.4g} times the right result, which rounding to "
            "bfloat16 does not explain: if that is meant, give a tolerance"
            for number, (output, reference) in enumerate(zip(got, expected, strict=True))
            if _named_tolerance(output.dtype, layers) is None
            and (factor := _factor_beyond_rounding(output, reference)) is not None
        ]
    if complaints:
        wrong = [pair for pair in zip(got, tallies, strict=True) if pair[1].wrong]
        are_whole = bool(wrong) and all(is_whole(output) for output, _ in wrong)
        if are_whole and (len(wrong) < len(got) or all(_are_few(*pair) for pair in wrong)):
            others = "outputs" if len(wrong) < len(got) else "elements"
            complaints.append(
                f"the other {others} are right: if several whole numbers are, as indices of equal "
                "values, write a check"
            )
        if own_reference:
            complaints.append("this is the baseline beside its own result in float64")
        raise WrongResultError("; ".join(complaints), errors)
    return errors


def _are_few(output: torch.Tensor, tally: _Tally) -> bool:
    """Whether as few whole numbers are wrong as values have equals, and not by rounding."""
    return tally.wrong <= _MOST_WITH_EQUALS * output.numel() and tally.needed.absolute > 1


def _factor_beyond_rounding(got: torch.Tensor, expected: torch.Tensor) -> float | None:
    """Factor between a result in bfloat16 and the right one; None where rounding may explain it.

    By least squares, and in each quarter of a sample, so that no few large elements make it.
    """
    if got.dtype != torch.bfloat16 or got.numel() < _FEWEST_WITH_FACTOR:
        return None
    stride = got.numel() // _MOST_WITH_FACTOR | 1  # odd: not the same column of every row
    samples = (tensor.flatten()[::stride].cpu().double().chunk(4) for tensor in (got, expected))
    factors = [float(part @ right / (right @ right)) for part, right in zip(*samples, strict=True)]
    is_larger = all(factor > 1 + _MOST_OFF_FACTOR for factor in factors)
    is_smaller = all(factor < 1 - _MOST_OFF_FACTOR for factor in factors)
    return sum(factors) / len(factors) if is_larger or is_smaller else None


def common_value(outputs: Tensors) -> float | None:
    """Value of all elements of a result; None where they differ, or are few.

    Where a result has one, elements that were read or written at a wrong place are right.
    """
    large = [output for output in outputs if output.numel() >= _FEWEST_COMMON]
    values = {_value_of_all(output) for output in large}
    return values.pop() if len(values) == 1 else None


def _value_of_all(output: torch.Tensor) -> float | None:
    """Value of all elements of an output; None where they differ, or are complex or infinite."""
    if output.is_complex():
        return None
    first = _widen(output[(0,) * output.dim()])
    row = output[(0,) * (output.dim() - 1)][:_FEWEST_COMMON]  # tells most results apart at once
    parts = chain([row], map(output.__getitem__, regions(tuple(output.shape))))
    is_common = all(bool((_widen(part) == first).all()) for part in parts)
    return float(first) if is_common and math.isfinite(first) else None


def _zeros_match(expected: torch.Tensor, tolerance: Tolerance | None) -> bool:
    """Whether zeros are as right as an output that is not 0, by a given tolerance."""
    if tolerance is None or not (tolerance.absolute or tolerance.relative):
        return False
    largest = largest_magnitude(expected)
    is_within = 0 < largest <= tolerance.absolute + tolerance.relative * largest
    return is_within and bool(torch.isfinite(expected).all())


def count_wrong(
    got: torch.Tensor,
    expected: torch.Tensor,
    slack: float,
    *layers: Mapping[str, Tolerance],
    rounding: Callable[[torch.dtype, torch.Tensor], float | torch.Tensor] | None = None,
    largest: float | None = None,
) -> int:
    """Number of elements that are off by more than `slack` times the tolerance of their dtype.

    `rounding`: as `compare` has it, of this output. `largest`: magnitude in the right result, where
    `expected` is a part of it.
    """
    return _counted_tally(got, expected, layers, rounding, slack=slack, largest=largest).wrong


def _counted_tally(  # noqa: PLR0913 - what is compared, and by which bounds
    got: torch.Tensor,
    expected: torch.Tensor,
    layers: Sequence[Mapping[str, Tolerance]],
    rounding: Callable[[torch.dtype, torch.Tensor], float | torch.Tensor] | None,
    *,
    slack: float = 1.0,
    largest: float | None = None,
) -> _Tally:
    """Tally of the wrong elements of an output, by `slack` times its tolerance.

    Where no layer names its type and elements miss the default, by the error of rounding.
    """
    is_named = _named_tolerance(got.dtype, layers) is not None
    if largest is None:
        largest = 1.0 if is_named or is_whole(got) else largest_magnitude(expected)
    bound = tolerance_for(got.dtype, *layers, largest=largest)
    own_bounds = None if is_named or is_whole(got) else _bounds_of_kinds(got.dtype, expected)
    of_elements = None if own_bounds is None else slack * own_bounds
    tally = _Tally(_scaled_tolerance(slack, bound), of_elements).count(got, expected)
    if not tally.wrong or is_named:
        return tally
    if got.dtype == torch.bfloat16 and own_bounds is None:
        # Most results need no more; what bfloat16 explains beyond is found by 16 more references.
        as_float16 = max(bound.absolute, half_rounding(torch.float16, largest))
        near = _Tally(_scaled_tolerance(slack, replace(bound, absolute=as_float16)))
        if not near.count(got, expected).wrong:
            return near
    explained = rounding(got.dtype, expected) if rounding is not None else 0.0
    if isinstance(explained, torch.Tensor):
        least_of = bound.absolute if own_bounds is None else own_bounds.to(explained)
        of_elements = explained.clamp(min=least_of).mul_(slack)
        widened = _Tally(_scaled_tolerance(slack, bound), of_elements)
        if got.dtype not in HALF_TYPES:
            widened.rounding = float(of_elements.max())
        return widened.count(got, expected)
    in_any_case = half_rounding(got.dtype, largest) if own_bounds is None else 0.0
    least = max(explained, in_any_case)
    if least <= bound.absolute:
        return tally
    widened = _Tally(_scaled_tolerance(slack, replace(bound, absolute=least)))
    widened.rounding = explained or None
    return widened.count(got, expected)


def _bounds_of_kinds(dtype: torch.dtype, expected: torch.Tensor) -> torch.Tensor | None:
    """Default absolute bound of each element by its own kind; None where all are of one kind."""
    gaps = magnitude_gaps(expected, _OWN_KIND)
    if not len(gaps):
        return None
    magnitudes = _widen(expected).abs()
    largest = largest_by_magnitude(gaps, magnitudes, magnitudes).tolist()
    bounds = [
        max(default_tolerance(dtype, size).absolute, half_rounding(dtype, size)) for size in largest
    ]
    return torch.tensor(bounds, dtype=torch.float64, device=gaps.device)[parts_of(magnitudes, gaps)]


def _scaled_tolerance(slack: float, bound: Tolerance) -> Tolerance:
    return Tolerance(slack * bound.absolute, slack * bound.relative)


def _require_comparable(number: int, got: torch.Tensor, expected: torch.Tensor) -> None:
    if got.shape != expected.shape:
        raise WrongResultError(
            f"output {number}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
        )
    if family(got.dtype) != family(expected.dtype):
        raise WrongResultError(
            f"output {number}: dtype {got.dtype}, but the reference is {expected.dtype}"
        )


def family(dtype: torch.dtype) -> str:
    """Kind of number: the reference may be wider than the output, but not of another kind."""
    if dtype.is_complex:
        return "complex"
    if dtype.is_floating_point:
        return "floating"
    return "bool" if dtype == torch.bool else "integer"


class _Tally:
    """Counts the wrong elements of one output, region by region, and keeps the worst."""

    def __init__(self, tolerance: Tolerance, of_elements: torch.Tensor | None = None) -> None:
        """`of_elements`: absolute bound by element, in place of one bound for all elements."""
        self.tolerance, self._of_elements = tolerance, of_elements
        self.rounding: float | None = None
        """Largest absolute bound where it is what rounding explains."""
        self.wrong = 0
        self.worst = -math.inf
        self.worst_at: tuple[int, ...] = ()
        self.max_abs: float | None = None
        self.max_rel: float | None = None
        self.needed = Tolerance(0.0, 0.0)
        """Least absolute bound that would do with the relative one as it is, and the reverse;
        infinite where none would."""

    def count(self, got: torch.Tensor, expected: torch.Tensor) -> _Tally:
        for region in regions(tuple(got.shape), region_elements(got.device)):
            result, reference = got[region], expected[region].to(got.device)
            bound = self._absolute(region, got.device)
            if got.dtype in HALF_TYPES and self._all_match(
                result.float(), reference.float(), bound, _SURELY
            ):
                continue
            result, reference = _widen(result), _widen(reference)
            if not self._all_match(result, reference, bound):
                self._count_region(region, result, reference, bound)
        return self

    def _absolute(self, region: tuple[slice, ...], device: torch.device) -> float | torch.Tensor:
        """Absolute bound of the elements of a region."""
        if self._of_elements is None:
            return self.tolerance.absolute
        return self._of_elements[region].to(device)

    def _all_match(
        self,
        got: torch.Tensor,
        expected: torch.Tensor,
        bound: float | torch.Tensor,
        share: float = 1.0,
    ) -> bool:
        """Whether all elements of a region are finite and match; then its errors are counted.

        By a `share` of the tolerance. It takes a third of the launches of counting wrong elements,
        for results that are right nearly always: an element that is not finite makes a maximum
        that is no number, or too large.
        """
        if not got.is_floating_point():
            return False
        difference = (got - expected).abs_()
        magnitude = expected.abs()
        excess = difference.sub(magnitude, alpha=share * self.tolerance.relative)
        excess = excess.sub_(bound, alpha=share).amax()
        relative = (difference / magnitude).where(magnitude > 0, _NOTHING).amax()
        maxima = torch.stack((excess, difference.amax(), relative)).tolist()
        if not maxima[0] <= 0:
            return False
        self._widen_errors(*maxima[1:])
        return True

    def _count_region(
        self,
        region: tuple[slice, ...],
        got: torch.Tensor,
        expected: torch.Tensor,
        absolute_bound: float | torch.Tensor,
    ) -> None:
        difference = (got - expected).abs().to(torch.float64)
        magnitude = expected.abs().to(torch.float64)
        is_finite = torch.isfinite(got) & torch.isfinite(expected)
        bound = absolute_bound + self.tolerance.relative * magnitude
        is_equal = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
        is_wrong = ~(is_equal | (is_finite & (difference <= bound)))
        absolute = difference.where(is_finite, _NOTHING).max()
        relative = (difference / magnitude).where(is_finite & (magnitude > 0), _NOTHING).max()
        # Stacked, because each value fetched from the device by itself would be one more wait.
        wrong_count = is_wrong.sum().to(torch.float64)
        max_abs, max_rel, count = torch.stack((absolute, relative, wrong_count)).tolist()
        self._widen_errors(max_abs, max_rel)
        if count:
            self.wrong += int(count)
            self._keep_worst(
                region, difference.nan_to_num(math.inf, math.inf).where(is_wrong, -math.inf)
            )
            self._widen_needed_tolerance(
                difference.where(is_finite, math.inf)[is_wrong], magnitude[is_wrong]
            )

    def _widen_errors(self, max_abs: float, max_rel: float) -> None:
        self.max_abs = _largest((self.max_abs, _known_maximum(max_abs)))
        self.max_rel = _largest((self.max_rel, _known_maximum(max_rel)))

    def _widen_needed_tolerance(self, difference: torch.Tensor, magnitude: torch.Tensor) -> None:
        """Widen the tolerance that would pass by the wrong elements of a region."""
        absolute = (difference - self.tolerance.relative * magnitude).max()
        relative = ((difference - self.tolerance.absolute) / magnitude).max()
        self.needed = Tolerance(
            max(self.needed.absolute, float(absolute)), max(self.needed.relative, float(relative))
        )

    def _keep_worst(self, region: tuple[slice, ...], difference: torch.Tensor) -> None:
        flat = difference.argmax()
        worst = float(difference.max())
        if worst > self.worst:
            self.worst = worst
            local = torch.unravel_index(flat, difference.shape)
            self.worst_at = tuple(
                part.start + int(index) for part, index in zip(region, local, strict=True)
            )

    def complaint(
        self, number: int, got: torch.Tensor, expected: torch.Tensor, *, own_reference: bool
    ) -> str:
        """Sentence on what is wrong with an output."""
        value, expected_value = got[self.worst_at].item(), expected[self.worst_at].item()
        is_unwritten = value != value and expected_value == expected_value  # noqa: PLR0124 - NaN
        value_text, expected_text = distinct_texts(value, expected_value)
        absolute = (
            self.tolerance.absolute
            if self._of_elements is None
            else self._of_elements[self.worst_at].item()
        )
        bound = f"{absolute:g} + {self.tolerance.relative:g} * |expected|"
        if is_whole(got) and absolute < 1 and not self.tolerance.relative:
            bound = "none"
        dtype = str(got.dtype).removeprefix("torch.")  # by whose tolerance, and not the baseline's
        return (
            f"output {number}: {self.wrong} of {got.numel()} elements are wrong; worst at "
            f"{list(self.worst_at)}: got {value_text}, expected {expected_text}"
            f"{self._worst_error_text()} (allowed in {dtype}: {bound}"
            f"{self._passing_tolerance_text(got, expected, always=own_reference)})"
            f"{self._narrow_types_text(got, expected)}{self._order_text(got, expected)}"
            + (_UNWRITTEN_TEXT if is_unwritten else "")
        )

    def _order_text(self, got: torch.Tensor, expected: torch.Tensor) -> str:
        """Sentence where rows hold the right values in another order, as of a top-k; else empty."""
        if not got.dim() or got.is_complex() or got.numel() > MOST_SORTED:
            return ""
        in_order = [_widen(tensor).sort(dim=-1).values for tensor in (got, expected)]
        if _Tally(self.tolerance).count(*in_order).wrong:
            return ""
        return "; its values are right, in another order: where any will do, sort both results"

    def _worst_error_text(self) -> str:
        return f", off by {self.worst:.3g}" if math.isfinite(self.worst) else ""

    def _narrow_types_text(self, got: torch.Tensor, expected: torch.Tensor) -> str:
        """Sentence on TF32 and 16-bit types, where a float32 result is off by as much; else empty.

        A mistake may be as large: the sentence tells the author of a kernel what else to look at.
        """
        roundings = tf32_roundings(self.worst, expected)
        are_many = self.wrong > MOST_NEARLY_RIGHT * got.numel()
        is_of_tf32 = _FEWEST_ROUNDINGS <= roundings <= MOST_ROUNDINGS
        if got.dtype != torch.float32 or not (are_many and is_of_tf32):
            return ""
        return (
            "; errors of this size come from TF32, in which Triton's tl.dot multiplies by default, "
            "or from 16-bit types: if they are meant, allow them by a tolerance"
        )

    def _passing_tolerance_text(
        self, got: torch.Tensor, expected: torch.Tensor, *, always: bool
    ) -> str:
        """`; tolerance that would pass: …`, as the experiment file writes it; empty for none.

        None of a result that is not nearly right, unless `always`: its kernel is wrong, not the
        tolerance. None that allows half of the largest element, by which little could be wrong.
        """
        few = self.wrong <= max(1, MOST_NEARLY_RIGHT * got.numel())
        if not (few or always) or got.dtype == torch.bool:
            return ""
        absolute, relative = self.tolerance.absolute, self.tolerance.relative
        passing: list[Tolerance] = []
        one_off = is_whole(got) and self.needed.absolute <= 1  # rounded to the other whole number
        if one_off or _may_pass(self.needed.absolute, absolute, always=always):
            passing.append(Tolerance(rounded_up(self.needed.absolute), relative))
        if _may_pass(self.needed.relative, relative, always=always):
            passing.append(Tolerance(absolute, rounded_up(self.needed.relative)))
        largest = largest_magnitude(expected)
        forms = [
            _yaml(bound)
            for bound in passing
            if one_off or not bound.absolute + bound.relative * largest > largest / 2 > 0
        ]
        return f"; tolerance that would pass: {' or '.join(forms)}" if forms else ""


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether the elements of a tensor are whole numbers or booleans."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def _may_pass(needed: float, allowed: float, *, always: bool) -> bool:
    """Whether a bound that would pass is offered beside the one that there is."""
    return math.isfinite(needed) and (always or needed <= NEARLY * allowed)


def region_elements(device: torch.device) -> int:
    """Number of elements to compare at a time on a device, by its free memory."""
    if device.type != "cuda":
        return REGION_ELEMENTS
    free, _ = torch.cuda.mem_get_info(device)
    fitting = free // (_TEMPORARIES * torch.float64.itemsize)
    return min(max(REGION_ELEMENTS, fitting), MAX_REGION_ELEMENTS)


def regions(shape: tuple[int, ...], limit: int = REGION_ELEMENTS) -> Iterator[tuple[slice, ...]]:
    """Cut a shape into index regions of at most `limit` elements, first dimensions first."""
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    if inner > limit:
        for row in range(shape[0]):
            for inner_region in regions(shape[1:], limit):
                yield (slice(row, row + 1), *inner_region)
        return
    rows = max(1, limit // max(1, inner))
    for start in range(0, shape[0] if inner else 0, rows):
        stop = min(start + rows, shape[0])
        yield (slice(start, stop), *(slice(0, size) for size in shape[1:]))


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in its family's widest type; integers stay exact, which float64 would not keep."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)


def _known_maximum(maximum: float) -> float | None:
    return None if maximum == _NOTHING else maximum


def _largest(values: Any) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _yaml(bound: Tolerance) -> str:
    return f"{{absolute: {bound.absolute:g}, relative: {bound.relative:g}}}"


def rounded_up(bound: float) -> float:
    """The least number of two digits that is no smaller: short to write, and it still passes."""
    if bound <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return float(f"{math.ceil(bound / unit - 1e-9) * unit:.2g}")


def distinct_texts(value: complex | bool, expected_value: complex | bool) -> tuple[str, str]:
    """Two numbers, with as many digits as it takes to tell them apart."""
    pairs = (
        (_number_text(value, digits), _number_text(expected_value, digits)) for digits in (6, 9, 17)
    )
    return next(
        (pair for pair in pairs if pair[0] != pair[1]),
        (_number_text(value), _number_text(expected_value)),
    )


def _number_text(value: complex | bool, digits: int = 6) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"
