"""Launches of an external command sorted into the samples of its parts.

Parts by order are told apart by the number of the launch, parts by ranges by the NVTX ranges around
it. Launches that do not fit give no sample at all: shifted by one, they would be another part's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analyse.metric_values import Codes
from profiler.model import OrderedParts, Params, Parts, RangeParts, Scalar
from profiler.outside_text import matches
from profiler.parse.nvtx_cells import NvtxRange, RangeKind

RANGE = "range"
"""Parameter of a part by ranges whose names are not written as `size=128`."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^=,]+)")
_NO_SAMPLE = -1


@dataclass(frozen=True)
class PartSamples:
    """Part of each launch of one visit that is a sample of a part."""

    codes: Codes
    """Number of the sample of each launch, from 0 in the order of the launches; -1: none."""
    params: tuple[Params, ...] = ()
    """Parameters of the part of each sample."""
    fault: str = ""
    """Why the launches do not fit the parts; there are no samples then."""


def launch_window(parts: OrderedParts, *, counted: bool) -> tuple[int, int]:
    """Numbers of matching launches to let pass and to profile: from the first sample to the last.

    `counted`: to the end of the last part and one part more, so that a command that launches
    more than its parts say is noticed.
    """
    total = parts.launches * len(parts.values)
    if counted:
        return parts.skip, total - parts.skip + parts.launches
    return parts.skip, total - parts.launches + parts.take


def part_samples(launches: pd.DataFrame, parts: Parts, *, counted: bool) -> PartSamples:
    """Samples of the parts of one visit, from the launches that were profiled in their order."""
    if isinstance(parts, OrderedParts):
        return _samples_by_order(launches, parts, counted=counted)
    return _samples_by_ranges(launches, parts)


def _without_samples(launches: pd.DataFrame, fault: str) -> PartSamples:
    return PartSamples(np.full(len(launches), _NO_SAMPLE, dtype=np.intp), fault=fault)


# ---- by order ------------------------------------------------------------------------------------


def _samples_by_order(launches: pd.DataFrame, parts: OrderedParts, *, counted: bool) -> PartSamples:
    fault = _launch_count_fault(launches, parts, counted=counted)
    if fault:
        return _without_samples(launches, fault)
    number = np.arange(len(launches), dtype=np.intp) + parts.skip
    place = number % parts.launches - parts.skip
    is_sample = (place >= 0) & (place < parts.take)
    codes = np.where(is_sample, np.cumsum(is_sample) - 1, _NO_SAMPLE).astype(np.intp)
    values = [parts.values[part] for part in number[is_sample] // parts.launches]
    return PartSamples(codes, tuple({parts.axis: value} for value in values))


def _launch_count_fault(launches: pd.DataFrame, parts: OrderedParts, *, counted: bool) -> str:
    """Fault of a number of launches that is not that of the parts; empty where both agree."""
    processes = launches["process_id"].nunique()
    if processes > 1:
        return (
            f"its launches are of {processes} processes, which have no order among them: tell "
            "parts apart by NVTX ranges (parts: nvtx)"
        )
    names = len(parts.values)
    total = parts.launches * names
    expected_launches = f"{total} matching launches ({names} parts of {parts.launches})"
    _, profiled = launch_window(parts, counted=counted)
    expected = total - parts.skip if counted else profiled
    if len(launches) == expected:
        return ""
    if not counted:
        return (
            f"it should make {expected_launches}; of {expected} to profile it made {len(launches)}"
        )
    bound = "at least " if len(launches) >= profiled else ""
    return f"it should make {expected_launches}; it made {bound}{len(launches) + parts.skip}"


# ---- by ranges -----------------------------------------------------------------------------------


def _samples_by_ranges(launches: pd.DataFrame, parts: RangeParts) -> PartSamples:
    paths = [_path(ranges, parts.pattern) for ranges in launches["nvtx"]]
    codes, path_of_range = _numbered_ranges(launches, paths, parts.kernels)
    fault = _range_size_fault(codes, path_of_range, parts) or _range_count_fault(
        path_of_range, parts
    )
    if fault:
        return _without_samples(launches, fault)
    sample_of_range: list[int] = []
    params: list[Params] = []
    ranges_of_path: Counter[tuple[str, ...]] = Counter()
    kernels = launches["kernel"].astype(object).groupby(codes).agg(tuple)
    first_kernels: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, path in enumerate(path_of_range):
        place = ranges_of_path[path] - parts.skip
        ranges_of_path[path] += 1
        is_sample = place >= 0 and (parts.take is None or place < parts.take)
        sample_of_range.append(len(params) if is_sample else _NO_SAMPLE)
        if is_sample:
            params.append(path_params(path))
            if parts.kernels and kernels[number] != first_kernels.setdefault(path, kernels[number]):
                fault = f"the launches in {'/'.join(path)} are of other kernels each time"
                return _without_samples(launches, f"{fault}: kernels is not {parts.kernels}")
    samples = np.array([*sample_of_range, _NO_SAMPLE], dtype=np.intp)  # -1 stands for the last
    return PartSamples(samples[codes], tuple(params))


def _path(ranges: Iterable[NvtxRange] | None, pattern: str) -> tuple[str, ...]:
    """Names of the push/pop ranges around a launch that count, outermost first."""
    domain, _, expression = pattern.rpartition("@")
    return tuple(
        item.name
        for item in ranges or ()
        if item.kind is RangeKind.PUSH_POP
        and item.domain == domain
        and matches(expression, item.name)
    )


def _numbered_ranges(
    launches: pd.DataFrame, paths: Sequence[tuple[str, ...]], kernels: int | None
) -> tuple[Codes, list[tuple[str, ...]]]:
    """Number of the range of each launch, -1 where it is in none, and the path of each range."""
    codes = np.full(len(paths), _NO_SAMPLE, dtype=np.intp)
    path_of_range: list[tuple[str, ...]] = []
    before, inside = None, 0
    for row, (path, process) in enumerate(zip(paths, launches["process_id"], strict=True)):
        if path:
            if (path, process) != before or inside == kernels:
                path_of_range.append(path)
                inside = 0
            inside += 1
            codes[row] = len(path_of_range) - 1
        before = (path, process)
    return codes, path_of_range


def _range_size_fault(
    codes: Codes, path_of_range: Sequence[tuple[str, ...]], parts: RangeParts
) -> str:
    """Why ranges do not have `parts.kernels` launches each; empty where they do."""
    if parts.kernels is None:
        return ""
    counts = np.bincount(codes[codes >= 0], minlength=len(path_of_range))
    wrong = np.flatnonzero(counts != parts.kernels)
    if not len(wrong):
        return ""
    name = "/".join(path_of_range[wrong[0]])
    return f"the range {name} has {counts[wrong[0]]} launches at its end, not {parts.kernels}"


def _range_count_fault(path_of_range: Sequence[tuple[str, ...]], parts: RangeParts) -> str:
    """Why a name has fewer ranges than `skip` and `take` need; empty where all have enough."""
    least_ranges = parts.skip + (parts.take or 1)
    for path, count in Counter(path_of_range).items():
        if count < least_ranges:
            return (
                f"skip and take need {least_ranges} ranges of each name; {'/'.join(path)} was "
                f"there {count} times"
            )
    return "" if path_of_range else f"no launch is in a range that matches {parts.pattern}"


def path_params(path: Sequence[str]) -> Params:
    """Parameters of a part by the names of its ranges: `size=128` gives a number.

    Other names make the parameter `range`, joined by `/`.
    """
    params: dict[str, Scalar] = {}
    plain_names: list[str] = []
    for name in path:
        assignments = [_ASSIGNMENT.fullmatch(word.strip()) for word in name.split(",")]
        keys = [match[1] for match in assignments if match is not None]
        if len(keys) < len(assignments) or params.keys() & {*keys} or len({*keys}) < len(keys):
            plain_names.append(name)
        else:
            params |= {match[1]: _number(match[2]) for match in assignments if match is not None}
    return {RANGE: "/".join(plain_names), **params} if plain_names else params


def _number(text: str) -> Scalar:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if np.isfinite(value) else text
    return text
