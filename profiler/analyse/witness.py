"""Checks of plausibility: numbers that cannot come from the work that a problem needs.

Right work cannot cross any of these bounds; where a number does, the work was not measured, or not
done. The bounds are the least bytes that must have passed the interface of device memory, the peak
rates of the hardware, the most operations that the executed instructions can have made, and what a
cell that is ahead of the baseline leaves to copies that no kernel makes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.samples import DURATION
from profiler.analyse.why.kernel_profiles import Launches
from profiler.collect.ncu import KIND
from profiler.collect.registry import has_counters, primary_timer
from profiler.metrics.catalogue import TENSOR_TYPES
from profiler.metrics.queries import ncu_name
from profiler.model import FLUSHED_PER_LAUNCH, CellStatus, Environment, SessionKind

MARGIN = 0.05
"""Share by which every bound is wider, for errors of counters and clocks."""

SMALLEST = 2.0**20
"""Bytes below which traffic is not judged: other traffic of the launch is as large."""

READ_SHARE = 0.7
"""Share of the inputs that must have been read where caches were flushed before: right kernels read
1.000 of them on an H200. What a workload states may hold more than inputs and results: the moments
of an optimiser are written as well, and its reads are 3/4 of the rest."""

OPERATIONS_SHARE = 0.25
"""Share of the stated operations that must be possible. Right algorithms need fewer than the
definition: Winograd's convolutions of 3 by 3 need 1/4 of the products with tiles of 4 by 4 (Lavin
and Gray, arXiv 1509.09308)."""

OPERATIONS_PER_INSTRUCTION = 256
"""The most that a warp does in one instruction outside of the tensor cores: 32 threads with a dot
product of four bytes, which is 8 operations."""

TENSOR_OPERATIONS_PER_CYCLE: Mapping[str, float] = {"8.0": 8192.0, "9.0": 16384.0}
"""Operations of one SM, narrowest common type, sparse inputs: int8 of an A100 (1,248 TOP/s at
1.41 GHz on 108 SMs), fp8 of an H100 (3,958 TFLOP/s at 1.83 GHz on 132), by NVIDIA's data sheets.
Architectures that are not named here are not judged by their operations."""

NCU = KIND.name
_TIMED = (SessionKind.TIMING.value, SessionKind.FINAL.value)
_COUNTERS = (
    *("kernels", "cycles", "instructions", "tensor_pipe_pct"),
    *("dram_read_bytes", "dram_write_bytes", "l2_bytes"),
)
_EACH_KERNEL = "all"
"""Value of `cache_control` with which each kernel under ncu begins with empty caches.

Where they are emptied before the launch alone, copies in it may fill them again, which are no
kernels and are not counted: addmm copies its addend to the result, and finds that in L2."""


_RESULT_SHARE = 0.5
"""Share of a result that has passed L2 at the least where kernels wrote it: all of it does."""

_COPIES = "cudaMemcpyAsync, cudaMemsetAsync"
_WHOLE_LAUNCHES = "`--timer` times whole launches"


@dataclass(frozen=True)
class _CellMedians:
    """Medians of one cell with its status; NaN where nothing was measured."""

    status: CellStatus
    durations_ns: Mapping[str, float]
    """Median duration by collector."""
    kernels: float
    cycles: float
    instructions: float
    tensor_pipe_pct: float
    dram_read_bytes: float
    dram_write_bytes: float
    l2_bytes: float
    tensor_operations: float
    """Counted exactly, by an explain session."""
    counted_by: frozenset[str]
    """Collectors that counted."""


def implausible_cells(
    samples: pd.DataFrame,
    statuses: Mapping[str, CellStatus],
    profiles: Mapping[str, Launches],
    baselines: Mapping[str, str],
    environment: Environment,
) -> dict[str, str]:
    """Why the numbers of a cell cannot be right, by cell id; plausible cells are left out.

    `baselines`: the cell of the baseline at the same problem, by cell id. Quantities that were not
    counted, or that a workload does not state, are not checked.
    """
    medians_by_cell = _medians_by_cell(samples, statuses, profiles, environment.compute_capability)
    reasons: dict[str, str] = {}
    for cell, medians in medians_by_cell.items():
        baseline = medians_by_cell.get(baselines.get(cell, ""))
        objections = itertools.chain(
            _violated_bounds(medians, environment),
            () if baseline is None else _untimed_copies(medians, baseline, environment),
        )
        reason = next(objections, None)
        if reason is not None:
            reasons[cell] = reason
    return reasons


def _violated_bounds(medians: _CellMedians, environment: Environment) -> Iterator[str]:
    stated = medians.status.facts
    if stated.bytes is not None and environment.l2_bytes is not None:
        yield from _traffic_above_ceiling(stated.bytes, medians, environment)
        yield from _traffic_below_least(stated.bytes, medians, environment)
    if stated.bytes is not None and stated.result_bytes is not None:
        yield from _unread_inputs(stated.bytes - stated.result_bytes, medians, environment)
    if stated.flops is not None:
        yield from _operations_above_ceiling(stated.flops, medians, environment)
        yield from _operations_below_least(stated.flops, medians, environment)


def _compulsory_bytes(
    stated: float, medians: _CellMedians, environment: Environment, collectors: Set[str]
) -> float:
    """Bytes that must have passed the interface of device memory.

    Results may stay in L2, and be written back after the launch: at most its size, for each kernel
    where the tool flushes it between them. Inputs may lie in L2 before.
    """
    kernels = medians.kernels if medians.kernels >= 1 else 1.0
    written = float(environment.l2_bytes or 0) * kernels
    return stated - written - _in_cache(environment, medians, collectors)


def _in_cache(environment: Environment, medians: _CellMedians, collectors: Set[str]) -> float:
    """Bytes of the inputs that may lie in L2 when the first kernel that reads them begins."""
    each_kernel = collectors <= {NCU} and environment.cache_control == _EACH_KERNEL
    no_copies = medians.status.untimed.copies == 0 and all(map(has_counters, collectors))
    is_empty = each_kernel or (no_copies and _flushed(environment))
    return 0.0 if is_empty else float(environment.l2_bytes or 0)


def _flushed(environment: Environment) -> bool:
    return environment.cache_control in {_EACH_KERNEL, FLUSHED_PER_LAUNCH}


def _traffic_above_ceiling(
    stated: float, medians: _CellMedians, environment: Environment
) -> Iterator[str]:
    peak = environment.peak_dram_bytes_per_s
    for collector, duration_ns in medians.durations_ns.items():
        needed = _compulsory_bytes(stated, medians, environment, {collector})
        rate = needed / duration_ns * 1e9
        if peak is not None and needed >= SMALLEST and rate > peak * (1 + MARGIN):
            yield (
                f"the {_megabytes(needed)} that must come from or go to device memory in "
                f"{duration_ns / 1e3:.4g} µs are {rate / 1e12:.3g} TB/s; this GPU reaches at most "
                f"{peak / 1e12:.3g} TB/s"
            )


def _traffic_below_least(
    stated: float, medians: _CellMedians, environment: Environment
) -> Iterator[str]:
    moved = medians.dram_read_bytes + medians.dram_write_bytes
    needed = _compulsory_bytes(stated, medians, environment, medians.counted_by)
    if needed >= SMALLEST and moved < needed * (1 - MARGIN):
        yield (
            f"{_megabytes(moved)} went to or came from device memory; by `bytes` the problem needs "
            f"at least {_megabytes(needed)}"
        )


def _unread_inputs(inputs: float, medians: _CellMedians, environment: Environment) -> Iterator[str]:
    needed = inputs - _in_cache(environment, medians, medians.counted_by)
    if (
        _flushed(environment)
        and needed >= SMALLEST
        and medians.dram_read_bytes < needed * READ_SHARE
    ):
        beyond = "" if needed == inputs else f", of which {_megabytes(needed)} do not fit in L2"
        yield (
            f"{_megabytes(medians.dram_read_bytes)} were read from device memory, with caches "
            f"flushed; by `bytes` the inputs are {_megabytes(inputs)}{beyond}"
        )


def _operations_above_ceiling(
    stated: float, medians: _CellMedians, environment: Environment
) -> Iterator[str]:
    ceiling = (environment.max_sm_clock_mhz or math.nan) * 1e6 * _tensor_peak(environment)
    for duration_ns in medians.durations_ns.values():
        rate = stated / duration_ns * 1e9
        if rate > ceiling * (1 + MARGIN):
            yield (
                f"{stated:.4g} operations in {duration_ns / 1e3:.4g} µs are {rate / 1e12:.4g} "
                f"TFLOP/s; this GPU reaches at most {ceiling / 1e12:.4g} TFLOP/s in any type"
            )


def _operations_below_least(
    stated: float, medians: _CellMedians, environment: Environment
) -> Iterator[str]:
    busy_cycles = medians.tensor_pipe_pct / 100 * medians.cycles
    tensor = medians.tensor_operations
    if math.isnan(tensor):
        tensor = busy_cycles * _tensor_peak(environment)
    possible = tensor + OPERATIONS_PER_INSTRUCTION * medians.instructions
    if possible < stated * OPERATIONS_SHARE:
        yield (
            f"its instructions can have made at most {possible:.3g} operations; by `flops` the "
            f"problem needs {stated:.3g}"
        )


def _untimed_copies(
    cell: _CellMedians, baseline: _CellMedians, environment: Environment
) -> Iterator[str]:
    """Objections to a cell that is ahead of the baseline by copies that are no kernels.

    Copies are known under CUPTI. Elsewhere kernels are objected to whose traffic is too little to
    have written the result.
    """
    timer = primary_timer(cell.durations_ns)
    if timer is None or not has_counters(timer):
        return
    kernels_ns = cell.durations_ns[timer]
    if not kernels_ns < baseline.durations_ns.get(timer, math.nan):
        return
    if cell.status.untimed.copies is None:
        yield from _unwritten_result(cell.status.facts.written_bytes or 0.0, cell.l2_bytes)
        return
    copied_bytes = cell.status.untimed.copied_bytes or 0.0
    more = copied_bytes - (baseline.status.untimed.copied_bytes or 0.0)
    least_ns = more / (environment.peak_dram_bytes_per_s or math.inf) * 1e9
    if least_ns > MARGIN * kernels_ns:
        yield (
            f"each launch copies or fills {_megabytes(copied_bytes)} by no kernel "
            f"({_COPIES}), {_megabytes(more)} more than the baseline's: at least "
            f"{least_ns / 1e3:.3g} µs, which the {kernels_ns / 1e3:.4g} µs of its kernels do not "
            f"hold; {_WHOLE_LAUNCHES}"
        )


def _unwritten_result(written: float, l2_bytes: float) -> Iterator[str]:
    if written >= SMALLEST and l2_bytes < _RESULT_SHARE * written:
        yield (
            f"its kernels moved {_megabytes(l2_bytes)} through L2, and the launch writes "
            f"{_megabytes(written)}: what is no kernel writes it ({_COPIES}), in time that no "
            f"duration of kernels holds; {_WHOLE_LAUNCHES}"
        )


def _tensor_peak(environment: Environment) -> float:
    """Most operations in a cycle of all SMs; NaN where that is not known."""
    per_sm = TENSOR_OPERATIONS_PER_CYCLE.get(environment.compute_capability or "", math.nan)
    return per_sm * (environment.sm_count or math.nan)


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.4g} MB"


def _medians_by_cell(
    samples: pd.DataFrame,
    statuses: Mapping[str, CellStatus],
    profiles: Mapping[str, Launches],
    capability: str | None,
) -> Mapping[str, _CellMedians]:
    """Medians of each cell that has a status, by cell id."""
    counted = samples[samples["collector"].map(has_counters).astype(bool)]
    counters = counted.reindex(columns=["cell", *_COUNTERS]).groupby("cell").median()
    timed = samples[samples["kind"].isin(_TIMED)].reindex(columns=["cell", "collector", DURATION])
    durations: dict[str, dict[str, float]] = {}
    duration_medians = timed.groupby(["cell", "collector"], as_index=False)[DURATION].median()
    for cell, collector, value in duration_medians.itertuples(index=False):
        if value > 0:
            durations.setdefault(str(cell), {})[str(collector)] = float(value)
    values: dict[str, dict[str, float]] = {
        str(cell): {name: float(row[name]) for name in _COUNTERS}
        for cell, row in counters.to_dict("index").items()
    }
    missing = dict.fromkeys(_COUNTERS, math.nan)
    collectors = counted.groupby("cell")["collector"].agg(frozenset).to_dict()
    return {
        cell: _CellMedians(
            statuses[cell],
            durations_ns=durations.get(cell, {}),
            tensor_operations=_tensor_operations(profiles.get(cell), capability),
            counted_by=collectors.get(cell, frozenset()),
            **values.get(cell, missing),
        )
        for cell in {**values, **durations}
        if cell in statuses
    }


def _tensor_operations(launches: Launches | None, capability: str | None) -> float:
    """Operations of tensor cores in all types; NaN unless every type was counted."""
    if not launches:
        return math.nan
    counters = [ncu_name(f"tensor_{kind}_ops", capability) for kind in TENSOR_TYPES]
    return sum(
        math.nan if counter is None else kernel.value(counter)
        for kernel in launches
        for counter in counters
    )
