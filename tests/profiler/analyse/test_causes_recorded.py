"""Causes of recorded kernels that an engineer knows the reason of."""

import pytest
from recorded import CAUSES, RECORDINGS, report_of_recording
from whole_runs import only_with_everything

from profiler.analyse.why.causes import causes
from profiler.analyse.why.kernel_profiles import UNITS

GRID = CAUSES / "fusion_grid.zip"
EXPLAINED = (
    *(CAUSES / f"{name}.zip" for name in ("fusion", "fusion_grid")),
    *(RECORDINGS / f"{name}.zip" for name in ("layouts", "waves")),
)
IF_EVERYTHING = tuple(
    pytest.param(RECORDINGS / f"{name}.zip", marks=only_with_everything)
    for name in ("hopper", "softmax", "fusion", "fusion_grid", "fusion_operators")
)
"""Their causes are in golden files, too."""


def kernels_of(recording):
    """First kernel of each explained cell, by cell."""
    report = report_of_recording(recording)
    return {cell: launches[0] for cell, launches in report.details.profiles.items()}


def first_causes(recording, cell):
    first_kernels = kernels_of(recording)
    cell_id = next(name for name in first_kernels if name.startswith(cell))
    return list(causes(first_kernels[cell_id]))


@pytest.mark.parametrize(
    "recording",
    [*EXPLAINED, *IF_EVERYTHING],
    ids=lambda folder: f"{folder.parent.name}-{folder.stem}",
)
def test_no_wait_costs_more_than_the_tensor_cores_or_device_memory_leave(recording):
    waits = {"dependent_chain", "barrier_waits", "few_loads_in_flight", "dispatch_stalls"}
    for kernel in kernels_of(recording).values():
        busiest = max(kernel.value(UNITS[unit]) for unit in ("dram", "tensor"))
        for cause in causes(kernel):
            if cause.name in waits:
                assert cause.share <= 1 - busiest / 100 + 1e-9, cause


@pytest.mark.parametrize(
    ("recording", "cell", "name", "least"),
    [
        # 16 blocks on 132 SMs; was called a last wave that is mostly empty.
        (GRID, "eager..operator=reduction_reduction", "small_grid", 0.9),
        # 33 blocks; was called a last wave, and few warps for shared memory as well.
        (RECORDINGS / "waves.zip", "1_block_SM-8eafc6..waves=0.25", "small_grid", 0.8),
        # One block on each SM, 9.7 us: a fifth of it before and after all of them.
        (RECORDINGS / "waves.zip", "4_blocks_SM_busy-50879b..waves=0.25", "launch_overhead", 0.15),
        (
            CAUSES / "fusion_grid.zip",
            "compile..operator=reduction_reduction",
            "launch_overhead",
            0.3,
        ),
        # Blocks of 2 warps that live for 1,800 cycles: 37 % of the warps that fit are there.
        (
            CAUSES / "fusion.zip",
            "compile..operator=softmax.dim0=65536.dim1=128",
            "unfilled_occupancy",
            0.3,
        ),
        # One block of 4 warps on each SM; its waits for tensor cores came before that.
        (RECORDINGS / "hopper.zip", "step-02", "occupancy_shared_memory", 0.3),
    ],
)
def test_the_first_cause_is_what_an_engineer_would_name(recording, cell, name, least):
    first = first_causes(recording, cell)[0]
    assert (first.name, first.share >= least) == (name, True), first


def test_the_limit_of_warps_stands_before_the_waits_that_follow_from_it():
    """wgmma.wait_group straight after each product, and no other block that computes meanwhile."""
    limit, symptom = first_causes(RECORDINGS / "hopper.zip", "step-02")[:2]
    assert (limit.name, symptom.name) == ("occupancy_shared_memory", "tensor_core_waits")
    assert symptom.share > limit.share
    cudnn = [cause.name for cause in first_causes(RECORDINGS / "hopper.zip", "sdpa_cudnn")]
    assert cudnn[:3] == ["occupancy_registers", "occupancy_shared_memory", "tensor_core_waits"]


def test_the_epilogue_of_a_kernel_that_loads_by_tma_is_no_cause():
    """ncu's rule says 50 % (global) of it: half of the sectors that its page has are in excess.

    They are 0.4 % of what L2 served.
    """
    cause_names = {cause.name for cause in first_causes(RECORDINGS / "hopper.zip", "step-01")}
    assert "uncoalesced_stores" not in cause_names
