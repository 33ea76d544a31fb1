"""Statistics of the elements of a tensor, without the elements; and elements drawn by them.

Integers are indices, lengths and offsets more often than numbers: their range, order and how
unequally often each occurs are kept, because the times of kernels depend on them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch

from profiler.runner.arrays import extent

EXACT_COUNTS = 64
"""Most frequent integers whose counts are kept one by one; the rest in groups that double."""
_SAMPLED = 1 << 12
"""Elements of floating-point tensors that are looked at, evenly apart."""
_ADJACENT = 16
"""Number of adjacent sampled elements: each place takes a line of a cache."""
_MOST_COPIED = 1 << 25
"""Integers that are copied, to be counted after the step."""
_LARGEST_SHUFFLED = 1 << 24
"""Distinct integers are drawn from a shuffled range where that has no more values."""

_INDICES = ("int32", "int64")

Distribution = dict[str, Any]


def describe(tensor: torch.Tensor) -> Distribution:
    """JSON-ready statistics of the elements; empty for a tensor without any."""
    (statistics,) = look_at([tensor])[0]()
    return statistics


def look_at(tensors: Sequence[torch.Tensor]) -> tuple[Callable[[], list[Distribution]], int]:
    """Function that describes tensors as they are now, and the number of bytes that it holds.

    So the statistics can be made after the step that is captured, and nothing waits for a GPU.
    """
    if not tensors:  # as in most calls of a family
        return list, 0
    looks: list[Callable[[], Distribution]] = [dict] * len(tensors)
    samples: dict[Any, dict[int, torch.Tensor]] = defaultdict(dict)
    held_bytes = 0
    with torch.no_grad():
        for place, tensor in enumerate(tensors):
            count = tensor.numel()
            if not count:
                continue
            if tensor.is_floating_point() or tensor.is_complex():
                sample = _sampled_elements(tensor, count)
                samples[tensor.dtype, tensor.device, sample.ndim][place] = sample
                held_bytes += sample.nbytes
            elif tensor.dtype == torch.bool:
                looks[place] = partial(_boolean_statistics, tensor.count_nonzero(), count)
            elif count <= _MOST_COPIED:
                copied = tensor.clone()
                looks[place] = partial(_integer_statistics, copied)
                held_bytes += copied.nbytes
            else:
                looks[place] = _integer_statistics(tensor).copy
        copies = [_copied_samples(dtype, parts) for (dtype, _, _), parts in samples.items()]

    def statistics_of_all() -> list[Distribution]:
        for place, sample in chain.from_iterable(copy() for copy in copies):
            looks[place] = partial(_float_statistics, sample)
        return [look() for look in looks]

    return statistics_of_all, held_bytes


def _copied_samples(
    dtype: torch.dtype, samples: Mapping[int, torch.Tensor]
) -> Callable[[], Iterable[tuple[int, torch.Tensor]]]:
    """Function that returns copies of samples of one type with their places; copied at once."""
    parts = list(samples.values())
    if dtype.itemsize == 1:  # not every device joins 8-bit floats
        parts = [sample.view(torch.uint8) for sample in parts]
    places, sizes, copied = list(samples), [part.shape[0] for part in parts], torch.cat(parts)

    def copies() -> Iterable[tuple[int, torch.Tensor]]:
        parts = torch.split(copied.cpu().view(dtype), sizes)
        return zip(places, (part.reshape(-1) for part in parts), strict=True)

    return copies


def _boolean_statistics(count: torch.Tensor, total: int) -> Distribution:
    return {"true": _rounded(count.item() / total)}


def _sampled_elements(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Evenly spaced elements, in the order of indices or, a few at each place, of memory."""
    step = max(1, count // _SAMPLED)
    if not tensor.is_contiguous() and extent(tensor.shape, tensor.stride()) != count:
        return tensor.reshape(-1)[::step]
    if step == 1:
        return tensor.as_strided((count,), (1,))
    between = step * _ADJACENT  # to reshape a transposed weight would copy it
    return tensor.as_strided((count // between, _ADJACENT), (between, 1))


def _float_statistics(values: torch.Tensor) -> Distribution:
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj()).reshape(-1)
    values = values.double()
    zeros = 1 - int(values.count_nonzero()) / len(values)
    unlike = {"nan": 0.0, "inf": 0.0, "minus_inf": 0.0}
    mean, std = _moments(values)
    if not math.isfinite(mean):
        is_unlike = {"nan": values.isnan(), "inf": values == math.inf}
        is_unlike["minus_inf"] = values == -math.inf
        unlike = {name: int(mask.sum()) / len(values) for name, mask in is_unlike.items()}
        finite = values[values.isfinite()]
        values = finite if finite.numel() else values.new_zeros(1)
        mean, std = _moments(values)
    least, most = torch.aminmax(values)
    statistics = {"min": least.item(), "max": most.item(), "mean": mean, "std": std, "zeros": zeros}
    return {name: _rounded(value) for name, value in {**statistics, **unlike}.items()}


def _moments(values: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation; torch.std_mean takes three times as long for so few."""
    mean = values.mean()
    deviation = torch.linalg.vector_norm(values - mean).item() / math.sqrt(len(values))
    return mean.item(), deviation


def _rounded(value: float) -> float:
    """A value with three digits: enough to draw by, too few to disclose a weight of a model."""
    return float(f"{value:.3g}")


def _integer_statistics(tensor: torch.Tensor) -> Distribution:
    values = tensor.reshape(-1).long()
    least, most = (int(end) for end in torch.aminmax(values))
    counts = _counts(values, least, most)
    steps = values.diff(prepend=values.new_zeros(1))
    statistics: Distribution = {
        "min": least,
        "max": most,
        "ascending": bool((steps[1:] >= 0).all()),
        "descending": bool((steps[1:] <= 0).all()),
        "distinct": len(counts),
        "counts": _grouped_counts(sorted(counts.tolist(), reverse=True)),
    }
    unmarked = values[values != statistics["min"]]
    if (
        statistics["min"] < 0 and len(unmarked) and unmarked.min() >= 0
    ):  # a mark of ignored elements
        statistics["from"] = int(unmarked.min())
    is_ends = (
        statistics["ascending"] and statistics["min"] >= 0 and len(counts) > len(values) // 2 > 0
    )
    if is_ends:  # where parts end, not indices
        parts = steps[statistics["min"] == 0 :]
        groups = _grouped_counts(sorted(parts.tolist(), reverse=True))
        statistics["steps"] = [[size, _rounded(number)] for size, number in groups]
    return statistics


def _counts(values: torch.Tensor, least: int, most: int) -> torch.Tensor:
    """Counts of the integers that occur; sorting millions of them takes seconds on a CPU."""
    if most - least < 4 * len(values):
        counts = torch.bincount(values - least)
        counts = counts[counts > 0]
    else:
        counts = torch.unique(values, return_counts=True)[1]
    return counts


def is_skewed(tensor: Mapping[str, Any]) -> bool:
    """Whether a captured tensor has indices of which a few are more frequent than by chance.

    Or ends of parts of which some are longer. Integers of a byte or two are seldom indices.
    """
    like = tensor["values"]
    if "distinct" not in like or tensor["dtype"] not in _INDICES:
        return False
    groups = like.get("steps", like["counts"])
    total = sum(size * number for size, number in groups)
    parts = sum(size for size, _ in groups)
    if "steps" not in like:
        parts = min(total, like["max"] - like["min"] + 1)
    mean = total / parts
    return bool(groups[0][1] > 2 * mean + 6 * math.sqrt(mean))


def uniform_distribution(like: Mapping[str, Any], count: int) -> Distribution:
    """Distribution of so many integers of the same range and order, all equally frequent."""
    if "steps" in like:
        parts = count - (like["min"] == 0)
        return {**like, "steps": [[parts, like["max"] / parts]]}
    distinct = min(count, like["max"] - like["min"] + 1)
    return {**like, "distinct": distinct, "counts": [[distinct, count / distinct]]}


def _grouped_counts(counts: list[int]) -> list[list[float]]:
    """Pairs of a number of values and their mean count, the most frequent values first."""
    groups: list[list[float]] = []
    begin = 0
    while begin < len(counts):
        size = 1 if begin < EXACT_COUNTS else begin
        part = counts[begin : begin + size]
        groups.append([len(part), sum(part) / len(part)])
        begin += size
    return groups


def draw(
    like: Mapping[str, Any], count: int, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """So many elements of a distribution, on the device of the generator."""
    if not like or not count:
        return torch.zeros(count, dtype=dtype, device=generator.device)
    if "true" in like:
        place = torch.arange(count, device=generator.device)
        return _shuffled_values(place < round(like["true"] * count), generator)
    if "distinct" in like:
        return _drawn_integers(like, count, generator).to(dtype)
    if dtype.is_complex:
        parts = _drawn_floats(like, 2 * count, torch.float64, generator)
        return torch.view_as_complex(parts.reshape(-1, 2)).to(dtype)
    return _drawn_floats(like, count, dtype, generator)


def _drawn_floats(
    like: Mapping[str, Any], count: int, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    values = torch.empty(count, dtype=wide, device=generator.device)
    values.normal_(like["mean"], like["std"], generator=generator)
    values.clamp_(like["min"], like["max"])
    special = {"zeros": 0.0, "nan": math.nan, "inf": math.inf, "minus_inf": -math.inf}
    if any(like[name] for name in special):
        place = torch.empty_like(values).uniform_(generator=generator)
        begin = 0.0
        for name, value in special.items():
            end = begin + like[name]
            values[(place >= begin) & (place < end)] = value
            begin = end
    return values.to(dtype)


def _drawn_integers(
    like: Mapping[str, Any], count: int, generator: torch.Generator
) -> torch.Tensor:
    """Integers of the captured range and frequencies, at random places."""
    if "steps" in like:
        steps = _shuffled_values(_expanded_groups(like["steps"]).to(generator.device), generator)
        ends = torch.cat([steps.new_zeros(count - len(steps)), steps.cumsum(0)])
        scaled: torch.Tensor = (ends * (like["max"] / ends[-1])).round().long()
        return scaled
    ends = _expanded_groups(like["counts"]).cumsum(0)
    ends = (ends * (count / ends[-1])).round().long()
    repeats = ends.diff(prepend=ends.new_zeros(1)).to(generator.device)
    begin = like.get("from", like["min"] + 1)
    distinct = _distinct_integers(like["min"], begin, like["max"], len(repeats), generator)
    values = distinct.repeat_interleave(repeats)
    if like["ascending"] or like.get("descending"):
        return values.sort(descending=not like["ascending"]).values
    return _shuffled_values(values, generator)


def _expanded_groups(groups: list[list[float]]) -> torch.Tensor:
    """Numbers of groups, each as often as its group has values."""
    sizes, numbers = torch.tensor(groups, dtype=torch.float64).unbind(1)
    return numbers.repeat_interleave(sizes.long())


def _distinct_integers(
    least: int, begin: int, most: int, count: int, generator: torch.Generator
) -> torch.Tensor:
    """Different integers in random order: both ends of a range, and inner ones from `begin` on."""
    device = generator.device
    inner = max(0, most - begin)
    if inner <= _LARGEST_SHUFFLED:
        between = torch.randperm(inner, device=device, generator=generator)[: max(0, count - 2)]
    else:  # a few may be equal: of so many values they hardly are
        between = torch.randint(inner, (max(0, count - 2),), device=device, generator=generator)
    ends = torch.tensor([least, most][:count], device=device)
    return _shuffled_values(torch.cat([ends, between + begin]), generator)


def _shuffled_values(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values[torch.randperm(len(values), device=values.device, generator=generator)]
