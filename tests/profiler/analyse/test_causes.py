"""Each cause is listed where counters show it, and not listed of a kernel that has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import pytest

from profiler.analyse.why.causes import CAUSES, LEAST_SHARE, UNFUSED, causes, unfused
from profiler.analyse.why.kernel_profiles import UNITS, KernelProfile, stall_per_issue
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
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
LSU = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
ACTIVE = "smsp__cycles_active.avg"
ELAPSED = "sm__cycles_elapsed.max"
BUSIEST_SM = "sm__cycles_active.max"
AVERAGE_SM = "sm__cycles_active.avg"
WAVES = "launch__waves_per_multiprocessor"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
L2_BYTES = "lts__t_bytes.sum"
XU = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
SLICES = "lts__t_sectors.{}.pct_of_peak_sustained_elapsed"
ATOMICS = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
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
    WARPS: 98.0,
    ACTIVE: 99.0e3,
    AVERAGE_SM: 98.5e3,
    BUSIEST_SM: 99.5e3,
    ELAPSED: 100.0e3,
    WAVES: 8.0,
    "launch__grid_size": 4 * 132 * 8.0,
    "launch__sm_count": 132.0,
    SLICES.format("max"): 30.5,
    XU: 20.0,
    TENSOR: 10.0,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
    "smsp__inst_executed.sum": 1e5,
    "dram__bytes.sum": 1.02 * LEAST_BYTES,
    L2_BYTES: 1.5 * LEAST_BYTES,
    "sm__ops_path_tensor_src_fp16.sum": 1e9,
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 20.0,
}
"""Counters of a product of matrices with tensor cores."""

ROWS = {
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


def _excessive(opcode):
    return {opcode: {"global_sectors": 3.2e8, "global_sectors_excessive": 3e8}}


_FEW_WARPS = {
    OCCUPANCY: 12.5,
    WARPS: 12.4,
    TENSOR: 10.0,
    ISSUING: 20.0,
    COMPUTE: 20.0,
    MEMORY: 20.0,
}
_LOCAL = {
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_ld.sum.pct_of_peak_sustained_elapsed": 40.0,
    LSU: 90.0,
}
_LOCAL_ROWS = {"LDL": {"executed": 2e4}, "STL.64": {"executed": 1e4}}
PLANTED = {
    "uncoalesced_loads": Planted({L2: 90.0}, rows=_excessive("LDG.E.128")),
    "uncoalesced_stores": Planted({L2: 90.0}, rows=_excessive("STG.E.128")),
    "bank_conflicts": Planted(
        {LSU: 95.0, f"{SHARED}.pct_of_peak_sustained_elapsed": 90.0},
        rows={"LDS.128": {"shared_wavefronts_excessive": 9e5}},
    ),
    "register_spills": Planted(
        {**_LOCAL, "sass__inst_executed_register_spilling": 3e4}, rows=_LOCAL_ROWS
    ),
    "local_arrays": Planted(_LOCAL, rows=_LOCAL_ROWS),
    "occupancy_registers": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_registers": 1.0}, {"long_scoreboard": 9.0}
    ),
    "occupancy_shared_memory": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_shared_mem": 1.0}, {"long_scoreboard": 9.0}
    ),
    "occupancy_block_size": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_warps": 1.0}, {"long_scoreboard": 9.0}
    ),
    "occupancy_blocks": Planted(
        {**_FEW_WARPS, "launch__occupancy_limit_blocks": 1.0}, {"long_scoreboard": 9.0}
    ),
    "unfilled_occupancy": Planted(
        {**_FEW_WARPS, OCCUPANCY: 100.0, WARPS: 40.0}, {"long_scoreboard": 9.0}
    ),
    "small_grid": Planted({"launch__grid_size": 33.0, AVERAGE_SM: 25.0e3}),
    "launch_overhead": Planted({BUSIEST_SM: 5e3, AVERAGE_SM: 4.9e3, ELAPSED: 9e3}),
    "tail_wave": Planted({"launch__grid_size": 4 * 132 * 1.1, AVERAGE_SM: 60e3}),
    "block_imbalance": Planted({AVERAGE_SM: 60e3}),
    "divergence": Planted({"smsp__thread_inst_executed_per_inst_executed.ratio": 8.0}),
    "predicated_threads": Planted(
        rows={"FFMA": {"executed": 2e5, "thread_executed": 64e5, "predicated_on": 16e5}}
    ),
    "atomic_contention": Planted(
        {ATOMICS.format("max"): 95.0, ATOMICS.format("avg"): 2.0},
        {"lg_throttle": 9.0},
        {"REDG.E.ADD": {"executed": 2e4}},
    ),
    "global_atomics": Planted(
        {ATOMICS.format("max"): 95.0, ATOMICS.format("avg"): 90.0},
        {"lg_throttle": 9.0},
        {"REDG.E.ADD": {"executed": 2e4}},
    ),
    "shared_atomics": Planted(
        {LSU: 90.0},
        {"mio_throttle": 9.0},
        {"ATOMS.ADD": {"executed": 2e4, "shared_wavefronts": 8e5}},
    ),
    "uneven_l2_slices": Planted({SLICES.format("max"): 90.0}),
    "l2_reuse": Planted(
        {"dram__bytes.sum": 4 * LEAST_BYTES, L2_BYTES: 6 * LEAST_BYTES}, {"long_scoreboard": 9.0}
    ),
    "dependent_chain": Planted({ISSUING: 15.0}, {"wait": 9.0}),
    "few_loads_in_flight": Planted(
        {ISSUING: 20.0, COMPUTE: 20.0, MEMORY: 20.0}, {"long_scoreboard": 9.0}
    ),
    "barrier_waits": Planted(stalls={"barrier": 5.0}),
    "tensor_core_waits": Planted(stalls={"gmma": 5.0}),
    "instruction_fetch": Planted({ISSUING: 15.0}, {"no_instruction": 9.0}),
    "constant_misses": Planted({ISSUING: 15.0}, {"imc_miss": 9.0}),
    "dispatch_stalls": Planted({ISSUING: 15.0}, {"dispatch_stall": 9.0}),
    "sleeping": Planted({ISSUING: 15.0}, {"sleeping": 9.0}),
    "special_functions": Planted({XU: 90.0}, rows={"MUFU.EX2": {"executed": 4e4}}),
    "conversions": Planted({XU: 90.0}, rows={"F2I.TRUNC.NTZ": {"executed": 4e4}}),
    "narrow_accesses": Planted(
        {REQUESTS: 95.0}, rows={"LDG.E.U8": {"executed": 5e4, "access_size": "8"}}
    ),
    "constant_by_lane": Planted(
        {UNITS["constants"]: 95.0, "sm__cycles_elapsed.sum": 132e5},
        rows={"LDC": {"executed": 1e5}},
    ),
    "slow_path_math": Planted(
        rows={
            "BRA": {"executed": 1e3, "sass": "@!P1 BRA 0xc0"},
            "STL": {"executed": 1e3},
            "LDL": {"executed": 1e3},
            "I2F.F64.S64": {"executed": 2e5, "samples_not_issued": 500.0},
            "F2F.F32.F64": {"executed": 1e3, "samples_not_issued": 400.0},
            "FMUL": {"executed": 1e3, "samples_not_issued": 100.0},
        }
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


def kernel(planted):
    stalls = {**STALLS, **planted.stalls}
    waits = {stall_per_issue(reason): cycles for reason, cycles in stalls.items()}
    opcodes = dict.fromkeys((*ROWS, *planted.rows))
    rows = [
        {
            "address": 16 * place,
            "opcode": name,
            "sass": name,
            **ROWS.get(name, {}),
            **planted.rows.get(name, {}),
        }
        for place, name in enumerate(opcodes)
    ]
    instructions = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    values = {**VALUES, **waits, **planted.values}
    return KernelProfile("kernel()", values, listing=Listing("kernel()", instructions))


def shares(profile):
    return {cause.name: cause.share for cause in causes(profile, LEAST_BYTES)}


def test_every_cause_is_planted_here():
    assert set(PLANTED) == set(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_listed_where_counters_show_it_and_only_there(name):
    assert shares(kernel(PLANTED[name])).get(name, 0.0) > LARGE
    assert name not in shares(kernel(Planted()))


@pytest.mark.parametrize("name", CAUSES)
def test_shares_are_parts_of_the_duration_largest_first_with_evidence(name):
    listed = causes(kernel(PLANTED[name]), LEAST_BYTES)
    assert [cause.share for cause in listed] == sorted(
        (cause.share for cause in listed), reverse=True
    )
    for cause in listed:
        assert LEAST_SHARE <= cause.share <= 1
        assert cause.evidence
        assert all(evidence.metric and evidence.unit for evidence in cause.evidence.values())


def test_what_was_not_counted_is_no_cause():
    assert causes(KernelProfile("kernel()", {})) == ()
    stalls = {stall_per_issue("selected"): 1.0}
    assert causes(KernelProfile("kernel()", stalls)) == ()


# ---- at most what other units leave --------------------------------------------------------------


def test_shorter_waits_save_no_more_than_the_busiest_unit_leaves():
    """19 % for chains were once told of attention at 96 % of the tensor cores' peak."""
    chain = PLANTED["dependent_chain"]
    at_roof = kernel(chain._replace(values={**chain.values, TENSOR: 96.0}))
    assert shares(at_roof)["dependent_chain"] == pytest.approx(0.04)


def test_what_fills_a_unit_itself_is_not_bounded_by_it():
    conflicts = PLANTED["bank_conflicts"]
    assert shares(kernel(conflicts))["bank_conflicts"] == pytest.approx(0.7), "L2 is 30 % busy"
    at_roof = kernel(conflicts._replace(values={**conflicts.values, TENSOR: 90.0}))
    assert shares(at_roof)["bank_conflicts"] == pytest.approx(0.1)


def test_of_causes_that_a_unit_bounds_alike_the_larger_one_comes_first():
    stalls = {"wait": 9.0, "dispatch_stall": 6.0, "no_instruction": 3.0}
    bounded = causes(kernel(Planted({ISSUING: 15.0, TENSOR: 95.0}, stalls)), LEAST_BYTES)
    assert [cause.name for cause in bounded[:3]] == [
        "dependent_chain",
        "dispatch_stalls",
        "instruction_fetch",
    ]


def test_the_limit_of_warps_comes_before_the_waits_that_more_warps_would_hide():
    """Of attention with one block to an SM longer waits for tensor cores once came first."""
    limits = {
        "launch__occupancy_limit_shared_mem": 1.0,
        OCCUPANCY: 100 / 16,
        WARPS: 100 / 16,
        ISSUING: 20.0,
        COMPUTE: 60.0,
    }
    waits = {"gmma": 6.0, "barrier": 2.0}
    in_order = [cause.name for cause in causes(kernel(Planted(limits, waits)), LEAST_BYTES)]
    assert in_order[:3] == ["occupancy_shared_memory", "tensor_core_waits", "barrier_waits"]
    found = shares(kernel(Planted(limits, waits)))
    assert found["tensor_core_waits"] > found["occupancy_shared_memory"] > LARGE
    # Without the limit nothing else moves before them.
    free = kernel(Planted({ISSUING: 20.0, COMPUTE: 60.0}, waits))
    assert causes(free, LEAST_BYTES)[0].name == "tensor_core_waits"


def test_wide_accesses_move_no_more_bytes_in_a_wavefront_than_whole_words():
    """4 bytes of each thread fill the 128 of a wavefront, 1 byte a quarter of it."""
    for size, most in (("32", 0.05), ("8", 0.48)):
        rows = {"LDG.E": {"executed": 5e4, "access_size": size}}
        narrow = kernel(Planted({REQUESTS: 95.0, LSU: 95.0}, rows=rows))
        assert shares(narrow).get("narrow_accesses", 0.0) == pytest.approx(most, abs=0.05)


def test_stores_of_a_kernel_that_loads_by_tma_are_a_part_of_all_traffic():
    """29 % for the epilogue of an attention kernel: its loads are on no source page."""
    stores = {"STG.E": {"executed": 1e3, "global_sectors": 3.2e5, "global_sectors_excessive": 3e5}}
    few = kernel(Planted({L2: 90.0, L2_BYTES: 3.2e5 * 32 * 200}, rows=stores))
    assert "uncoalesced_stores" not in shares(few)
    all_of_it = kernel(Planted({L2: 90.0, L2_BYTES: 3.2e5 * 32 * 1.6}, rows=stores))
    assert shares(all_of_it)["uncoalesced_stores"] > 0.7


def test_traffic_to_idle_device_memory_costs_nothing():
    """4 % for it were once told of attention that used 1 % of the bandwidth of DRAM."""
    moved = PLANTED["l2_reuse"].values
    from_l2 = kernel(Planted({**moved, L2_BYTES: 400 * LEAST_BYTES}, {"long_scoreboard": 9.0}))
    assert "l2_reuse" not in shares(from_l2)


def test_atomics_that_meet_at_a_word_are_no_bank_conflicts():
    counted = {"executed": 2e4, "shared_wavefronts": 8e5, "shared_wavefronts_excessive": 7e5}
    found = shares(kernel(PLANTED["shared_atomics"]._replace(rows={"ATOMS.ADD": counted})))
    assert "bank_conflicts" not in found
    assert found["shared_atomics"] == pytest.approx(0.7), "L2 is 30 % busy"


def test_branches_that_are_not_taken_are_no_threads_switched_off():
    loop = {"BRA": {"executed": 2e5, "thread_executed": 64e5, "predicated_on": 0.0}}
    assert "predicated_threads" not in shares(kernel(Planted(rows=loop)))


def test_the_pipe_of_special_functions_is_a_cause_where_it_limits():
    planted = PLANTED["special_functions"]
    assert "special_functions" not in shares(kernel(planted._replace(values={XU: 48.0})))


def test_what_another_pipe_does_takes_as_many_issue_slots():
    busy = {XU: 95.0, UNITS["issue"]: 70.0}
    found = shares(kernel(PLANTED["special_functions"]._replace(values=busy)))
    assert found["special_functions"] == pytest.approx(0.3)


def test_conversions_of_doubles_keep_the_pipe_busy_for_them_alone():
    """Two of three instructions go with them, and a third of the issue slots stays."""
    rows = {
        **{name: {"executed": 0.0} for name in ROWS},
        "DFMA": {"executed": 1e4},
        "F2F.F64.F32": {"executed": 2e4},
        "MUFU.RCP": {"executed": 0.0},
    }
    values = {XU: 90.0, ISSUING: 60.0, L2: 0.0, LSU: 0.0}
    found = shares(kernel(Planted(values, rows=rows)))
    assert found["fp64"] == pytest.approx(1 - 0.6 / 3)
    assert "special_functions" not in found


def test_cycles_without_an_instruction_go_to_what_warps_wait_for_in_them():
    """All samples would count warps that are ready, of which only one can issue."""
    fetched = Planted(
        {ISSUING: 50.0},
        {"no_instruction": 3.0},
        {
            "FADD": {"samples_not_issued": 80.0, "stall_no_instruction_not_issued": 80.0},
            "IADD3": {"samples_not_issued": 20.0, "stall_no_instruction_not_issued": 0.0},
        },
    )
    assert shares(kernel(fetched))["instruction_fetch"] == pytest.approx(0.5 * 0.8)
    without = KernelProfile("kernel()", kernel(fetched).values)
    not_ready = sum(STALLS.values()) - STALLS["selected"] - STALLS["not_selected"] + 3.0
    assert shares(without)["instruction_fetch"] == pytest.approx(0.5 * 3.0 / not_ready)


def test_memory_is_as_busy_as_its_busiest_slice():
    few = PLANTED["few_loads_in_flight"]
    uneven = few._replace(values={**few.values, SLICES.format("max"): 60.0})
    found = shares(kernel(uneven))["few_loads_in_flight"]
    assert found == pytest.approx(shares(kernel(few))["few_loads_in_flight"] * 0.4 / 0.695)


# ---- blocks and warps ----------------------------------------------------------------------------


def test_each_missing_warp_is_counted_once():
    waits = {"long_scoreboard": 9.0}
    few = {**_FEW_WARPS, "launch__occupancy_limit_registers": 1.0}
    of_memory = shares(kernel(Planted({**few, OCCUPANCY: 50.0, WARPS: 25.0}, waits)))
    names = ("occupancy_registers", "unfilled_occupancy", "few_loads_in_flight")
    parts = [of_memory[name] for name in names]
    assert parts[0] / parts[1] == pytest.approx(50 / 25)
    assert parts[1] / parts[2] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        (33, "small_grid"),
        (131, "small_grid"),
        (132, "occupancy_registers"),
        (2000, "occupancy_registers"),
    ],
)
def test_a_limit_keeps_warps_away_only_where_the_grid_has_blocks_for_more(blocks, named):
    """A grid of exactly one wave was made by its limit: one block for each SM."""
    limited = {**PLANTED["occupancy_registers"].values, "launch__grid_size": float(blocks)}
    found = shares(kernel(Planted(limited, {"long_scoreboard": 9.0})))
    assert named in found
    assert not {"small_grid", "occupancy_registers"} - {named} & found.keys()


def test_one_block_is_no_block_that_takes_longer_than_others():
    """Waves have two decimals in ncu's table: 0.0 of one block of 32 threads."""
    one = {
        "launch__grid_size": 1.0,
        WAVES: 0.0,
        "launch__occupancy_limit_shared_mem": 32.0,
        "launch__occupancy_limit_warps": 64.0,
        "launch__occupancy_limit_registers": 64.0,
        AVERAGE_SM: 0.7e3,
        L2: 1.0,
        LSU: 1.0,
        OCCUPANCY: 50.0,
        WARPS: 1.6,
    }
    found = causes(kernel(Planted({**_FEW_WARPS, **one}, {"long_scoreboard": 9.0})), LEAST_BYTES)
    assert found[0].name == "small_grid"
    assert found[0].share > 0.7
    names = {cause.name for cause in found}
    assert not names & {"block_imbalance", "tail_wave", "occupancy_shared_memory"}


def test_without_shared_memory_it_does_not_limit():
    """ncu gives the most blocks of an SM as its limit then."""
    small_blocks = {**_FEW_WARPS, OCCUPANCY: 50.0, WARPS: 49.0, "launch__grid_size": 1e5}
    limits = {
        "launch__occupancy_limit_registers": 64.0,
        "launch__occupancy_limit_warps": 64.0,
        "launch__occupancy_limit_shared_mem": 32.0,
        "launch__occupancy_limit_blocks": 32.0,
    }
    found = shares(kernel(Planted({**small_blocks, **limits}, {"long_scoreboard": 9.0})))
    assert found["occupancy_blocks"] > LARGE
    assert "occupancy_shared_memory" not in found


def test_cycles_of_two_passes_are_no_launch_overhead():
    """A kernel of 10 ms whose two counters of cycles differ by 2.3 %, which are 230 µs."""
    long = {ELAPSED: 17.2e6, BUSIEST_SM: 16.8e6, AVERAGE_SM: 16.7e6}
    assert "launch_overhead" not in shares(kernel(Planted(long)))


def test_waits_for_memory_are_of_few_warps_or_of_few_loads_in_each():
    waits = {"long_scoreboard": 9.0}
    few_warps = shares(kernel(PLANTED["occupancy_registers"]))
    assert few_warps["occupancy_registers"] > 4 * few_warps["few_loads_in_flight"]
    many_warps = Planted({**PLANTED["few_loads_in_flight"].values, MEMORY: 99.0}, waits)
    assert "few_loads_in_flight" not in shares(kernel(many_warps)), "more loads would wait longer"


@pytest.mark.parametrize("name", ["uncoalesced_loads", "bank_conflicts", "narrow_accesses"])
def test_causes_of_instructions_need_a_source_page(name):
    with_page = kernel(PLANTED[name])
    assert name not in shares(KernelProfile("kernel()", with_page.values))


def test_traffic_is_too_much_only_beside_what_the_workload_states():
    moved = kernel(PLANTED["l2_reuse"])
    assert "l2_reuse" in {cause.name for cause in causes(moved, LEAST_BYTES)}
    assert "l2_reuse" not in {cause.name for cause in causes(moved, math.nan)}
    assert "l2_reuse" not in {cause.name for cause in causes(moved, 5 * LEAST_BYTES)}


def test_a_large_ratio_of_little_work_comes_last():
    """35 times more conflicts that are 0.2 % of the wavefronts are no cause."""
    little = Planted({LSU: 95.0}, rows={"LDS.128": {"shared_wavefronts_excessive": 2e3}})
    assert "bank_conflicts" not in shares(kernel(little))


# ---- several kernels -----------------------------------------------------------------------------


def launches(*moved):
    """Kernels of 1 ms that move so many bytes and are near the bandwidth of DRAM."""
    return [
        KernelProfile(
            "kernel",
            {**VALUES, DRAM: 80.0, "dram__bytes.sum": amount, "gpu__time_duration.sum": 1e6},
        )
        for amount in moved
    ]


def test_results_that_kernels_hand_on_through_memory_are_a_cause_of_all_of_them():
    cause = unfused(launches(2e9, 2e9), LEAST_BYTES)
    assert cause.name == UNFUSED
    assert cause.share == pytest.approx(0.75 * 0.8), "3 of 4 GB, times how busy memory is"
    assert [evidence.value for evidence in cause.evidence.values()] == [4e9, LEAST_BYTES]


@pytest.mark.parametrize(
    ("moved", "least"),
    [((4e9,), LEAST_BYTES), ((5e8, 4e8), LEAST_BYTES), ((5.1e8, 5e8), LEAST_BYTES)],
    ids=["one kernel", "less than is needed", "hardly more"],
)
def test_nothing_is_handed_on_where_no_more_is_moved_than_is_needed(moved, least):
    assert unfused(launches(*moved), least) is None


def test_without_stated_or_counted_bytes_nothing_is_claimed_of_several_kernels():
    assert unfused(launches(2e9, 2e9)) is None
    assert unfused(launches(2e9, math.nan), LEAST_BYTES) is None


def test_comparisons_of_floats_are_no_integer_arithmetic():
    """Row maxima of a softmax were once told as addresses and loops."""
    for opcode in ("FMNMX", "FSETP.GT.AND", "HMNMX2", "DSETP.LT.AND", "VHMNMX"):
        floats = kernel(Planted(rows={opcode: {"executed": 2e5}}))
        assert "integer_arithmetic" not in shares(floats), opcode
    integers = kernel(Planted(rows={"ISETP.GE.AND": {"executed": 2e5}}))
    assert shares(integers)["integer_arithmetic"] > LARGE
