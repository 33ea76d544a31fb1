"""Waits for warpgroup matrix instructions are found among those at barriers, on real recordings."""

from pathlib import Path

import pandas as pd
import pytest
from recorded import report_of_recording

from profiler.analyse.why.causes import causes
from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.why.products import share_of_barrier_waits, with_products_named
from profiler.findings.why.hot_lines import hot_lines

ROOT = Path(__file__).parents[3]


def longest_kernels(run):
    """Longest kernel of each explained cell of a recording, by cell."""
    profiles = report_of_recording(ROOT / run).details.profiles
    return {
        cell: max(profile.kernels, key=lambda kernel: kernel.value("gpu__time_duration.sum"))
        for cell, profile in profiles.items()
    }


@pytest.fixture(scope="module")
def attention():
    return longest_kernels("experiments/recordings/hopper.zip")


@pytest.fixture(scope="module")
def cudnn(attention):
    return next(kernel for cell, kernel in attention.items() if cell.startswith("sdpa_cudnn"))


def test_cudnns_attention_waits_for_its_products_and_hardly_for_other_warps(cudnn):
    assert share_of_barrier_waits(cudnn.instructions) == pytest.approx(345_848 / 365_734)
    stalls = cudnn.stalls()
    assert stalls["gmma"] / cudnn.latency == pytest.approx(0.257, abs=0.005)
    assert stalls["barrier"] / cudnn.latency == pytest.approx(0.014, abs=0.005)
    assert sum(stalls.values()) == pytest.approx(cudnn.latency)
    found = {cause.name for cause in causes(cudnn)}
    assert "tensor_core_waits" in found
    assert "barrier_waits" not in found


def test_without_the_source_page_the_counters_stay_as_they_are(cudnn):
    stalls = KernelProfile(cudnn.name, cudnn.values).stalls()
    assert stalls["barrier"] / sum(stalls.values()) == pytest.approx(0.262, abs=0.002)


def test_the_instruction_that_waits_for_products_says_so(cudnn):
    lines = hot_lines(cudnn.instructions_by_wait, 2)
    assert all(line.text.startswith("WARPGROUP.DEPBAR") for line in lines)
    assert [line.reason for line in lines] == ["gmma", "gmma"]


def test_samples_that_no_column_has_are_those_of_products(attention):
    for kernel in attention.values():
        instructions = kernel.instructions
        named = with_products_named(instructions)
        if not instructions["opcode"].str.contains("GMMA").any():
            assert named is instructions
            continue
        assert named["stall_unnamed"].sum() == 0
        columns = ["stall_unnamed", "stall_gmma", "stall_barrier"]
        pd.testing.assert_series_equal(
            named[columns].sum(axis=1), instructions[columns].sum(axis=1), check_names=False
        )


def test_kernels_that_wait_for_other_warps_still_do():
    kernels = longest_kernels("benchmarks/why/recording.zip")
    planted = next(kernel for cell, kernel in kernels.items() if cell == "planted..barrier_waits")
    assert share_of_barrier_waits(planted.instructions) == 0
    assert planted.stalls()["barrier"] / planted.latency == pytest.approx(0.83, abs=0.01)


def test_a_kernel_that_issued_nothing_has_no_stalls_by_instruction():
    counters = {"smsp__inst_issued.sum": 0.0, "smsp__warps_launched.sum": 4.0}
    assert KernelProfile("kernel", counters).stalls() == {}
