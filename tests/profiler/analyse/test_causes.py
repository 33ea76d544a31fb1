"""Each cause is listed where counters show it, and not listed of a kernel that has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import pytest

from profiler.analyse.why.causes import CAUSES, LEAST_SHARE, UNFUSED, causes, unfused
from profiler.analyse.why.kernel_profiles import KernelProfile, stall_per_issue
from profiler.parse.ncu_source import COLUMNS, Listing

LARGE = 0.1
LEAST_BYTES = 1e9

STALLS = {
    "selected": 1.0,
    "not_selected": 1.5,
    "math_pipe_throttle": 1.5,
    "wait": 0.4,
    "long_scoreboard": 0.3,
    "short_scoreboard": 0.1,
    "barrier": 0.05,
    "lg_throttle": 0.05,
    "mio_throttle": 0.05,
}
ISSUING = "smsp__issue_active.avg.pct_of_peak_sustained_active"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
LSU = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
ACTIVE = "smsp__cycles_active.avg"
WAVES = "launch__waves_per_multiprocessor"
VALUES = {
    ISSUING: 80.0,
    COMPUTE: 85.0,
    MEMORY: 40.0,
    L2: 30.0,
    LSU: 30.0,
    REQUESTS: 20.0,
    SHARED: 1e6,
    f"{SHARED}.pct_of_peak_sustained_elapsed": 20.0,
    OCCUPANCY: 100.0,
    "launch__occupancy_limit_registers": 4.0,
    "launch__occupancy_limit_shared_mem": 8.0,
    "launch__occupancy_limit_warps": 4.0,
    "launch__occupancy_limit_blocks": 32.0,
    ACTIVE: 99.0,
    "sm__cycles_elapsed.max": 100.0,
    WAVES: 8.0,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
    "smsp__inst_executed.sum": 1e5,
    "dram__bytes.sum": 1.02 * LEAST_BYTES,
    "sm__ops_path_tensor_src_fp16.sum": 1e9,
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 20.0,
}
"""Counters of a product of matrices that tensor cores limit."""

ROWS: Mapping[str, Mapping[str, Any]] = {
    "LDG.E.128": {"executed": 2e3, "access_size": "128", "global_sectors": 3.2e4},
    "STG.E.128": {"executed": 1e3, "access_size": "128", "global_sectors": 1.6e4},
    "LDS.128": {"executed": 4e3, "access_size": "128"},
    "STS.128": {"executed": 1e3, "access_size": "128"},
    "HMMA.16816.F32": {"executed": 8e4},
    "FADD": {"executed": 1e4},
    "IADD3": {"executed": 2e3},
}


class Planted(NamedTuple):
    """What a cause changes in counters, stall reasons and instructions."""

    values: Mapping[str, float] = {}
    stalls: Mapping[str, float] = {}
    rows: Mapping[str, Mapping[str, Any]] = {}


def _excessive(opcode: str) -> dict[str, dict[str, float]]:
    return {opcode: {"global_sectors": 3.2e5, "global_sectors_excessive": 3e5}}


_FEW_WARPS = {OCCUPANCY: 12.5, ISSUING: 20.0, COMPUTE: 20.0, MEMORY: 20.0}
_LOCAL = {
    "sass__inst_executed_local_loads": 2e4,
    "sass__inst_executed_local_stores": 1e4,
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_ld.sum.pct_of_peak_sustained_elapsed": 40.0,
    LSU: 90.0,
}
PLANTED: Mapping[str, Planted] = {
    "uncoalesced_loads": Planted({L2: 90.0}, rows=_excessive("LDG.E.128")),
    "uncoalesced_stores": Planted({L2: 90.0}, rows=_excessive("STG.E.128")),
    "bank_conflicts": Planted(
        {LSU: 95.0, f"{SHARED}.pct_of_peak_sustained_elapsed": 90.0},
        rows={"LDS.128": {"shared_wavefronts_excessive": 9e5}},
    ),
    "register_spills": Planted({**_LOCAL, "sass__inst_executed_register_spilling": 3e4}),
    "local_arrays": Planted(_LOCAL),
    "occupancy_registers": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_registers": 1.0}, {"long_scoreboard": 9.0}
    ),
    "occupancy_shared_memory": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_shared_mem": 1.0}, {"long_scoreboard": 9.0}
    ),
    "tail_wave": Planted({WAVES: 1.1, ACTIVE: 60.0}),
    "block_imbalance": Planted({ACTIVE: 60.0}),
    "divergence": Planted({"smsp__thread_inst_executed_per_inst_executed.ratio": 8.0}),
    "atomic_contention": Planted(
        {
            "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed": 95.0,
            "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed": 2.0,
        },
        {"lg_throttle": 9.0},
        {"REDG.E.ADD": {"executed": 2e4}},
    ),
    "l2_reuse": Planted({"dram__bytes.sum": 4 * LEAST_BYTES, L2: 90.0}),
    "dependent_chain": Planted({ISSUING: 15.0}, {"wait": 9.0}),
    "few_loads_in_flight": Planted(
        {OCCUPANCY: 100.0, ISSUING: 20.0, COMPUTE: 20.0, MEMORY: 20.0}, {"long_scoreboard": 9.0}
    ),
    "barrier_waits": Planted(stalls={"barrier": 5.0}),
    "narrow_accesses": Planted(
        {REQUESTS: 95.0}, rows={"LDG.E.U8": {"executed": 5e4, "access_size": "8"}}
    ),
    "no_tensor_cores": Planted(
        {
            "sm__ops_path_tensor_src_fp16.sum": 0.0,
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 32 * 8e4,
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 0.0,
            "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 0.0,
            "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 90.0,
        }
    ),
    "fp64": Planted(
        {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active": 90.0},
        rows={"DFMA": {"executed": 8e4}},
    ),
    "integer_arithmetic": Planted(rows={"IADD3": {"executed": 2e5}}),
}


def kernel(planted: Planted) -> KernelProfile:
    stalls = {**STALLS, **planted.stalls}
    waits = {stall_per_issue(reason): cycles for reason, cycles in stalls.items()}
    opcodes = dict.fromkeys((*ROWS, *planted.rows))
    rows = [
        {"opcode": name, "sass": name, **ROWS.get(name, {}), **planted.rows.get(name, {})}
        for name in opcodes
    ]
    instructions = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    values = {**VALUES, **waits, **planted.values}
    return KernelProfile("kernel()", values, listing=Listing("kernel()", instructions))


def shares(profile: KernelProfile) -> dict[str, float]:
    return {cause.name: cause.share for cause in causes(profile, LEAST_BYTES)}


def test_every_cause_is_planted_here() -> None:
    assert set(PLANTED) == set(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_listed_where_counters_show_it_and_only_there(name: str) -> None:
    assert shares(kernel(PLANTED[name])).get(name, 0.0) > LARGE
    assert name not in shares(kernel(Planted()))


@pytest.mark.parametrize("name", CAUSES)
def test_shares_are_parts_of_the_duration_largest_first_with_evidence(name: str) -> None:
    listed = causes(kernel(PLANTED[name]), LEAST_BYTES)
    assert [cause.share for cause in listed] == sorted(
        (cause.share for cause in listed), reverse=True
    )
    for cause in listed:
        assert LEAST_SHARE <= cause.share <= 1
        assert cause.evidence
        assert all(evidence.metric and evidence.unit for evidence in cause.evidence.values())


def test_what_was_not_counted_is_no_cause() -> None:
    assert causes(KernelProfile("kernel()", {})) == ()
    stalls = {stall_per_issue("selected"): 1.0}
    assert causes(KernelProfile("kernel()", stalls)) == ()


def test_waits_for_memory_are_of_few_warps_or_of_few_loads_in_each() -> None:
    waits = {"long_scoreboard": 9.0}
    few_warps = shares(kernel(PLANTED["occupancy_registers"]))
    assert few_warps["occupancy_registers"] > 4 * few_warps["few_loads_in_flight"]
    many_warps = Planted({**PLANTED["few_loads_in_flight"].values, MEMORY: 99.0}, waits)
    assert "few_loads_in_flight" not in shares(kernel(many_warps)), "more loads would wait longer"


@pytest.mark.parametrize("name", ["uncoalesced_loads", "bank_conflicts", "narrow_accesses"])
def test_causes_of_instructions_need_a_source_page(name: str) -> None:
    with_page = kernel(PLANTED[name])
    assert name not in shares(KernelProfile("kernel()", with_page.values))


def test_traffic_is_too_much_only_beside_what_the_workload_states() -> None:
    moved = kernel(PLANTED["l2_reuse"])
    assert "l2_reuse" in {cause.name for cause in causes(moved, LEAST_BYTES)}
    assert "l2_reuse" not in {cause.name for cause in causes(moved, math.nan)}
    assert "l2_reuse" not in {cause.name for cause in causes(moved, 5 * LEAST_BYTES)}


def test_a_large_ratio_of_little_work_comes_last() -> None:
    """35 times more conflicts that are 0.2 % of the wavefronts are no cause."""
    little = Planted({LSU: 95.0}, rows={"LDS.128": {"shared_wavefronts_excessive": 2e3}})
    assert "bank_conflicts" not in shares(kernel(little))


# ---- several kernels -----------------------------------------------------------------------------


def launches(*moved: float) -> list[KernelProfile]:
    """Kernels of 1 ms that move so many bytes and are near the bandwidth of L2 and DRAM."""
    return [
        KernelProfile(
            "kernel", {**VALUES, L2: 80.0, "dram__bytes.sum": amount, "gpu__time_duration.sum": 1e6}
        )
        for amount in moved
    ]


def test_results_that_kernels_hand_on_through_memory_are_a_cause_of_all_of_them() -> None:
    cause = unfused(launches(2e9, 2e9), LEAST_BYTES)
    assert cause is not None
    assert cause.name == UNFUSED
    assert cause.share == pytest.approx(0.75 * 0.8), "3 of 4 GB, times how busy memory is"
    assert [evidence.value for evidence in cause.evidence.values()] == [4e9, LEAST_BYTES]


@pytest.mark.parametrize(
    ("moved", "least"),
    [((4e9,), LEAST_BYTES), ((5e8, 4e8), LEAST_BYTES), ((5.1e8, 5e8), LEAST_BYTES)],
    ids=["one kernel", "less than is needed", "hardly more"],
)
def test_nothing_is_handed_on_where_no_more_is_moved_than_is_needed(
    moved: tuple[float, ...], least: float
) -> None:
    assert unfused(launches(*moved), least) is None


def test_without_stated_or_counted_bytes_nothing_is_claimed_of_several_kernels() -> None:
    assert unfused(launches(2e9, 2e9)) is None
    assert unfused(launches(2e9, math.nan), LEAST_BYTES) is None


def test_comparisons_of_floats_are_no_integer_arithmetic() -> None:
    """Row maxima of a softmax were once told as addresses and loops."""
    for opcode in ("FMNMX", "FSETP.GT.AND", "HMNMX2", "DSETP.LT.AND", "VHMNMX"):
        floats = kernel(Planted(rows={opcode: {"executed": 2e5}}))
        assert "integer_arithmetic" not in shares(floats), opcode
    integers = kernel(Planted(rows={"ISETP.GE.AND": {"executed": 2e5}}))
    assert shares(integers)["integer_arithmetic"] > LARGE
