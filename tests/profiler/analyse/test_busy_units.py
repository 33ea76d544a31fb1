"""The unit that is close to its peak where no roof of bytes or operations is near."""

import pytest

from profiler.analyse.why.busy_units import BUSY_UNITS, busy_unit
from profiler.analyse.why.kernel_profiles import KernelProfile

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
    assert (unit and unit.name, unit and unit.share) == (name, pytest.approx(share))
    assert name is None or name in BUSY_UNITS
