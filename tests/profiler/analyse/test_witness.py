"""Counters as a witness: right work is left in peace at every bound, and what is not counted."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from cell_statuses import status_of, with_facts

from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.witness import implausible_cells
from profiler.metrics.catalogue import TENSOR_TYPES
from profiler.metrics.queries import ncu_name
from profiler.model import Environment

H200 = Environment(
    compute_capability="9.0",
    sm_count=132,
    l2_bytes=60_000_000,
    max_sm_clock_mhz=1980,
    peak_dram_bytes_per_s=4.8e12,
    cache_control="all",
)
MB = 1e6
COPY = {
    # A copy of 1 GB: half of it is read, the rest written, a part of which stays in L2.
    "duration_ns": 250e3,
    "kernels": 1,
    "cycles": 450e3,
    "instructions": 4e6,
    "tensor_pipe_pct": 0.0,
    "dram_read_bytes": 500 * MB,
    "dram_write_bytes": 460 * MB,
}
PRODUCT = {**COPY, "tensor_pipe_pct": 60.0}


def why(counters, environment=H200, collector="ncu", profile=None, **stated):
    """The objection to a cell with these counters, empty where there is none."""
    rows = [{"kind": "timing", "collector": collector, "cell": "a", **counters}] * 3
    status = status_of("a", **stated)
    profiles = {} if profile is None else {"a": profile}
    reasons = implausible_cells(pd.DataFrame(rows), {"a": status}, profiles, {}, environment)
    return reasons.get("a", "")


def test_right_work_at_its_bounds_has_no_objection():
    assert not why(COPY, bytes=1000 * MB, result_bytes=500 * MB, flops=1e9)
    assert not why(PRODUCT, flops=1e12)


def test_inputs_that_were_not_read_are_found_however_small_the_problem_is():
    small = {**COPY, "dram_read_bytes": 0.02 * MB, "dram_write_bytes": 0.0}
    stated = {"bytes": 8 * MB, "result_bytes": 4 * MB}
    assert why(small, **stated) == (
        "0.02 MB were read from device memory, with caches flushed; by `bytes` the inputs are 4 MB"
    )
    assert not why({**small, "dram_read_bytes": 3 * MB}, **stated)
    assert not why(small, replace(H200, cache_control="none"), **stated), "they lie in L2"
    assert not why(small, bytes=8 * MB), "nobody knows how much of it are inputs"
    assert not why(small, bytes=0.8 * MB, result_bytes=0.0), "other traffic is as large"


@pytest.mark.parametrize(
    ("cache_control", "collector"), [("launch", "ncu"), ("launch", "cupti"), ("all", "cupti")]
)
def test_a_copy_before_a_kernel_may_bring_its_inputs_into_l2(cache_control, collector):
    # As addmm of 512 x 1024 by cuBLAS: its addend of 2.1 MB is copied, which is no kernel.
    product = {**COPY, "dram_read_bytes": 3.173 * MB, "dram_write_bytes": 0.0}
    environment = replace(H200, cache_control=cache_control)
    assert not why(product, environment, collector, bytes=7.3 * MB, result_bytes=2.1 * MB)
    stated = {"bytes": 7.3 * MB, "result_bytes": 2.1 * MB}
    assert not why(product, environment, collector, **stated, copies=1.0, copied_bytes=2.1 * MB)
    assert why(product, environment, collector, **stated, copies=0.0, copied_bytes=0.0)
    assert why(product, environment, collector, bytes=121 * MB, result_bytes=MB) == (
        "3.173 MB were read from device memory, with caches flushed; "
        "by `bytes` the inputs are 120 MB, of which 60 MB do not fit in L2"
    )


def untimed_copies(samples, statuses, environment=H200):
    """Objections to a cell beside the baseline `plain`."""
    return implausible_cells(samples, statuses, {}, {"a": "plain"}, environment)


def beside_baseline(own, baseline, collector="cupti"):
    """Samples and statuses of a cell and its baseline: duration, L2 traffic, copied bytes."""
    rows, statuses = [], {}
    for cell, (duration_ns, l2_bytes, copied_bytes) in (("a", own), ("plain", baseline)):
        measured = {"collector": collector, "cell": cell, "duration_ns": duration_ns}
        rows += [
            {"kind": "timing", **measured},
            {"kind": "counters", **measured, "l2_bytes": l2_bytes},
        ]
        copies = None if copied_bytes is None else float(copied_bytes > 0)
        facts = {"copies": copies, "copied_bytes": copied_bytes, "written_bytes": 4.2 * MB}
        statuses[cell] = status_of(cell, **facts)
    return pd.DataFrame(rows), statuses


# Of 4.2 MB on an H200, by a kernel, and by cudaMemcpyAsync beside a kernel that does nothing.
BY_KERNEL, BY_COPY = (4.83e3, 13.2 * MB, 0.0), (1.47e3, 0.05 * MB, 4.2 * MB)


@pytest.mark.parametrize(
    ("own", "baseline", "objects"),
    [
        (BY_COPY, BY_KERNEL, True),
        (BY_KERNEL, BY_COPY, False),
        (BY_COPY, (4.83e3, 13.2 * MB, 4.2 * MB), False),
        ((4.9e3, 13.2 * MB, 4.2 * MB), BY_KERNEL, False),
        ((1.395e6, 90 * MB, 8.4 * MB), (1.65e6, 90 * MB, 0.0), False),
    ],
    ids=["instead of a kernel", "of the baseline", "of both", "not ahead", "of little time"],
)
def test_a_lead_by_copies_that_are_no_kernels_is_none(own, baseline, objects):
    reasons = untimed_copies(*beside_baseline(own, baseline))
    assert list(reasons) == ["a"] * objects
    if objects:
        assert reasons["a"] == (
            "each launch copies or fills 4.2 MB by no kernel (cudaMemcpyAsync, cudaMemsetAsync), "
            "4.2 MB more than the baseline's: at least 0.875 µs, which the 1.47 µs of its kernels "
            "do not hold; `--timer` times whole launches"
        )
    events = beside_baseline(own, baseline, "cuda_events")
    assert not untimed_copies(*events), "they hold the copies"
    no_rate = replace(H200, peak_dram_bytes_per_s=None)
    assert not untimed_copies(*beside_baseline(own, baseline), no_rate)


@pytest.mark.parametrize(
    ("own", "baseline", "objects"),
    [
        ((1.47e3, 0.05 * MB, None), (4.83e3, 13.2 * MB, None), True),
        ((4.2e3, 13.1 * MB, None), (4.83e3, 13.2 * MB, None), False),
        ((5e3, 0.05 * MB, None), (4.83e3, 13.2 * MB, None), False),
        ((1.47e3, math.nan, None), (4.83e3, 13.2 * MB, None), False),
        ((1.47e3, 0.05 * MB, 0.0), (4.83e3, 13.2 * MB, 0.0), False),
    ],
    ids=["not written", "written", "not ahead", "not counted", "no copies"],
)
def test_under_ncu_kernels_that_did_not_write_the_result_have_no_lead(own, baseline, objects):
    samples, statuses = beside_baseline(own, baseline, "ncu")
    reasons = untimed_copies(samples, statuses)
    assert list(reasons) == ["a"] * objects
    if objects:
        assert reasons["a"].startswith(
            "its kernels moved 0.05 MB through L2, and the launch writes 4.2 MB: what is no kernel"
        )
    in_place = {cell: with_facts(status, written_bytes=None) for cell, status in statuses.items()}
    assert not untimed_copies(samples, in_place)


def test_half_of_the_inputs_is_too_little():
    stated = {"bytes": 1000 * MB, "result_bytes": 10 * MB}
    half = {**COPY, "dram_read_bytes": 495 * MB, "dram_write_bytes": 480 * MB}
    assert "were read" in why(half, **stated)


def test_results_may_stay_in_l2_once_for_each_kernel_and_no_more():
    moved = {**COPY, "dram_read_bytes": 500 * MB, "dram_write_bytes": 395 * MB}
    assert "895 MB went to or came" in why(moved, bytes=1010 * MB)
    assert not why({**moved, "kernels": 2}, bytes=1010 * MB)
    assert not why(moved, replace(H200, cache_control="none"), bytes=1010 * MB)
    assert not why(moved, replace(H200, l2_bytes=None), bytes=1010 * MB)


@pytest.mark.parametrize("collector", ["ncu", "timer"])
def test_bytes_in_less_time_than_the_memory_needs(collector):
    quick = {"duration_ns": 100e3}
    reason = why(quick, collector=collector, bytes=1000 * MB)
    assert "this GPU reaches at most 4.8 TB/s" in reason
    assert not why({"duration_ns": 200e3}, collector=collector, bytes=1000 * MB)
    assert not why(quick, replace(H200, peak_dram_bytes_per_s=None), bytes=1000 * MB)
    assert not why(quick, collector=collector, bytes=115 * MB), "it may all lie in L2"


def test_operations_in_less_time_than_the_fastest_type_needs():
    # 16384 · 132 · 1.98 GHz: 4.28e15 operations a second.
    assert "TFLOP/s in any type" in why({"duration_ns": 100e3}, collector="timer", flops=5e11)
    assert not why({"duration_ns": 100e3}, collector="timer", flops=4e11)
    elsewhere = replace(H200, compute_capability="12.0")
    assert not why({"duration_ns": 100e3}, elsewhere, collector="timer", flops=5e11)


def test_instructions_that_cannot_have_made_the_operations():
    # 256 · 4e6 instructions are 1.0e9 operations at most.
    assert "at most 1.02e+09 operations; by `flops` the problem needs 5e+09" in why(COPY, flops=5e9)
    assert not why(COPY, flops=4e9), "Winograd needs a quarter"
    assert not why({**COPY, "tensor_pipe_pct": math.nan}, flops=5e9)
    assert not why({**COPY, "instructions": math.nan}, flops=5e9)


def profile_of(bf16, **changes):
    counters = [str(ncu_name(f"tensor_{kind}_ops", "9.0")) for kind in TENSOR_TYPES]
    values = {**dict.fromkeys(counters, 0.0), counters[0]: bf16, **changes}
    kernel = KernelProfile("product", {k: v for k, v in values.items() if not math.isnan(v)})
    return (kernel, kernel)


def test_counted_operations_are_closer_than_busy_cycles():
    assert not why(PRODUCT, flops=2e11)
    assert "problem needs 2e+11" in why(PRODUCT, flops=2e11, profile=profile_of(2e10))
    assert not why(PRODUCT, flops=2e11, profile=profile_of(1e11))
    assert not why(PRODUCT, flops=2e11, profile=profile_of(math.nan)), "not every type was counted"


def test_cells_that_state_nothing_and_rows_without_durations_are_not_judged():
    assert not why({**COPY, "instructions": 0.0})
    assert not why({"duration_ns": 0.0}, flops=1e20)
