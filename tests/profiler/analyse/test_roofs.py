"""Roofs of a kernel, by counters of real launches, and the account of two under one roof."""

import math

import pytest

from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.why.roofs import (
    BUSY_UNITS,
    BYTES,
    OPERATIONS,
    Roof,
    busy_unit,
    combined_roofs,
    roof_account,
    roofs,
)

# FlashAttention-2 and a kernel of `experiments/progression.yaml` (H200, ncu 2025.3.1): batch 16,
# 16 heads, length 4096, head dimension 128, fp16.
FLOPS = 4 * 16 * 16 * 4096**2 * 128
PEAKS = {
    "sm__ops_path_tensor_src_fp16.sum.peak_sustained": 1081344.0,
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 16896.0,
    "dram__bytes.sum.peak_sustained": 1504.0,
}
FLASH = PEAKS | {
    "sm__ops_path_tensor_src_fp16.sum": 2199023255552.0,
    "gpu__time_duration.sum": 6046912.0,
    "sm__cycles_elapsed.avg.per_second": 1797934691.9,
    "dram__cycles_elapsed.avg.per_second": 3199482975.77,
    "dram__bytes.sum": 1146803968.0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 276824064.0,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 8598323200.0,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 13421772800.0,
}
STEP = PEAKS | {
    "sm__ops_path_tensor_src_fp16.sum": 2199023255552.0,
    "gpu__time_duration.sum": 7624800.0,
    "sm__cycles_elapsed.avg.per_second": 1793235828.54,
    "dram__cycles_elapsed.avg.per_second": 3199482390.79,
    "dram__bytes.sum": 1156307200.0,
}


def roofs_of(values, capability="9.0"):
    return {roof.name: roof for roof in roofs(KernelProfile("kernel", values), capability)}


@pytest.mark.parametrize("values", [FLASH, STEP])
def test_counted_operations_are_those_that_attention_needs(values):
    tensor = roofs_of(values)["tensor_fp16"]
    assert tensor.amount == pytest.approx(FLOPS, rel=1e-3)
    assert tensor.unit == OPERATIONS


def test_the_roof_of_tensor_cores_is_that_of_dense_inputs():
    """4,096 operations per SM and cycle on an H200, 132 SMs; ncu's peak is of sparse inputs."""
    tensor = roofs_of(FLASH)["tensor_fp16"]
    assert tensor.ceiling == pytest.approx(4096 * 132 * 1797934691.9)
    assert tensor.share == pytest.approx(FLOPS / 6046912e-9 / tensor.ceiling)


def test_at_the_highest_clock_a_roof_of_the_sms_is_higher_and_that_of_memory_is_not_known():
    found = roofs(KernelProfile("kernel", FLASH), "9.0", highest_clock_ghz=1.98)
    by_name = {roof.name: roof for roof in found}
    tensor = by_name["tensor_fp16"]
    assert tensor.nominal == pytest.approx(4096 * 132 * 1.98e9)
    assert tensor.nominal_share == pytest.approx(tensor.share * 1.797934691 / 1.98)
    assert math.isnan(by_name["dram"].nominal_share)


def test_the_roof_of_device_memory_is_that_of_the_data_sheet():
    memory = roofs_of(FLASH)["dram"]
    assert memory.ceiling == pytest.approx(4.8e12, rel=0.01)
    assert (memory.amount, memory.unit) == (1146803968.0, BYTES)


def test_a_multiply_add_counts_twice():
    arithmetic = roofs_of(FLASH)["fp32"]
    assert arithmetic.amount == 2 * 276824064 + 8598323200 + 13421772800
    assert arithmetic.ceiling == pytest.approx(2 * 128 * 132 * 1797934691.9)


def test_the_nearest_roof_comes_first():
    shares = [roof.share for roof in roofs(KernelProfile("kernel", FLASH), "9.0")]
    assert shares == sorted(shares, reverse=True)
    assert next(iter(roofs_of(FLASH))) == "tensor_fp16"


def test_what_was_not_counted_has_no_roof():
    assert set(roofs_of(STEP)) == {"tensor_fp16", "dram"}
    assert roofs_of({}) == {}
    without_clock = {name: value for name, value in STEP.items() if "per_second" not in name}
    assert roofs_of(without_clock) == {}


def test_tensor_cores_that_do_nothing_are_no_roof():
    idle = FLASH | {"sm__ops_path_tensor_src_fp16.sum": 0.0}
    assert "tensor_fp16" not in roofs_of(idle)


# ---- two kernels under one roof ------------------------------------------------------------------


def memory_roof(amount, duration_ns, ceiling=4800000000000.0):
    return [Roof("dram", amount, BYTES, amount / duration_ns * 1e9, ceiling)]


def test_parts_under_a_roof_add_up_to_the_difference():
    first, second = memory_roof(1.2e9, 276e3), memory_roof(1.3e9, 329e3, 4.7e12)
    account = roof_account(first, second, (276e3, 329e3))
    parts = account.amount_ns + account.share_ns + account.ceiling_ns
    assert parts == pytest.approx(276e3 - 329e3, rel=1e-9)
    assert account.amount_ns < 0, "the first moves less"
    assert account.share_ns < 0, "at a higher share of the roof"
    assert account.ceiling_ns < 0, "which is higher"


def test_roofs_of_several_kernels_are_those_of_their_sums():
    compute = Roof("tensor_bf16", 4e11, OPERATIONS, 4e11 / 300e3 * 1e9, 8e14)
    short, long = memory_roof(1.2e9, 300e3, 4.8e12), memory_roof(0.9e9, 600e3, 4.2e12)
    tensor, dram = combined_roofs([([compute, *short], 300e3), (long, 600e3)])
    assert (tensor.name, dram.name) == ("tensor_bf16", "dram"), "nearest first"
    assert dram.amount == pytest.approx(2.1e9)
    assert dram.rate == pytest.approx(2.1e9 / 900e3 * 1e9)
    assert dram.ceiling == pytest.approx((4.8e12 * 300 + 4.2e12 * 600) / 900), "over time"
    assert tensor.rate == pytest.approx(4e11 / 900e3 * 1e9), "over the time of both"


def test_several_kernels_have_no_roof_where_the_bytes_of_one_were_not_counted():
    compute = Roof("fp32", 4e11, OPERATIONS, 4e11 / 300e3 * 1e9, 8e14)
    assert combined_roofs([(memory_roof(1.2e9, 300e3), 300e3), ([compute], 600e3)]) == ()
    assert combined_roofs([]) == ()


def test_kernels_that_are_not_near_the_same_roof_have_no_such_account():
    near, far = memory_roof(1.2e9, 276e3), memory_roof(1.2e9, 600e3)
    other = [Roof("l2", 1.2e9, BYTES, 1.2e9 / 276e3 * 1e9, 4.8e12)]
    assert roof_account(near, far, (276e3, 600e3)) is None
    assert roof_account(near, other, (276e3, 276e3)) is None
    assert roof_account(near, [], (276e3, 276e3)) is None


# ---- the busiest unit ----------------------------------------------------------------------------

PEAK = "avg.pct_of_peak_sustained_elapsed"
COMPUTE, MEMORY = f"sm__throughput.{PEAK}", f"gpu__compute_memory_throughput.{PEAK}"
RAW = {
    "compute": COMPUTE,
    "memory": MEMORY,
    "l2": f"lts__throughput.{PEAK}",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}


@pytest.mark.parametrize(
    ("counted", "name", "share"),
    [
        # torch's copy of a transposed matrix, 37 % of the bandwidth of L2 (H200).
        ({"compute": 19.71, "memory": 97.10, "l2": 97.10, "l1": 61.92}, "l2_units", 0.971),
        # 32-way bank conflicts.
        ({"compute": 3.19, "memory": 99.90, "l2": 0.29, "l1": 99.96}, "l1_units", 0.999),
        # Divergent warps.
        ({"compute": 97.82, "memory": 0.19, "issue": 98.17}, "issue_slots", 0.9782),
        # Conversions to double precision.
        ({"compute": 91.56, "memory": 0.02, "issue": 18.1}, "sm_pipes", 0.9156),
        ({"memory": 85.0}, "memory_units", 0.85),
        # FlashAttention with mma.sync: nothing is close to its peak.
        ({"compute": 65.15, "memory": 55.96, "l1": 56.77, "issue": 31.11}, None, None),
        ({}, None, None),
    ],
)
def test_the_busiest_unit_is_named_where_it_is_close_to_its_peak(counted, name, share):
    unit = busy_unit(KernelProfile("kernel", {RAW[key]: value for key, value in counted.items()}))
    assert (unit or (None, None)) == (name, pytest.approx(share))
    assert name is None or name in BUSY_UNITS
