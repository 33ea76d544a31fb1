"""Counters of two explained cells side by side: their sums, their order, what is left out."""

import math

import pandas as pd
import pytest

from profiler.analyse.why.account import Account, AccountPart
from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.why.roofs import Roof
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.counters import (
    COUNTERS,
    GROUPS,
    MEMORY,
    SHARED,
    compare_counters,
)
from profiler.parse.ncu_source import Listing

DURATION_NS = 1e6
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = "derived__memory_l1_wavefronts_shared_excessive"
VALUES = {
    "gpu__time_duration.sum": DURATION_NS,
    "smsp__inst_issued.sum": 1e8,
    "smsp__warps_active.sum": 4e8,
    "smsp__cycles_active.sum": 1e8,
    "smsp__cycles_active.avg": 1.6e6,
    "sm__cycles_elapsed.max": 1.7e6,
    "lts__t_bytes.sum": 2e9,
    CONFLICTS: 2e5,
    "launch__registers_per_thread": 64.0,
    "launch__occupancy_limit_registers": 8.0,
    "launch__occupancy_limit_shared_mem": 32.0,
    "launch__occupancy_limit_blocks": 32.0,
    "launch__occupancy_limit_warps": 16.0,
}
DRAM = Roof("dram", 1e9, "byte", 1e12, 4e12)


def kernel(listing=None, roofs=None, *, wavefronts=100000000.0, dram_bytes=1000000000.0, **changes):
    """A launch with VALUES, but for changes."""
    values = {
        **VALUES,
        "dram__bytes.sum": dram_bytes,
        WAVEFRONTS: wavefronts,
        f"{WAVEFRONTS}.pct_of_peak_sustained_elapsed": 40 * wavefronts / 1e8,
        **changes,
    }
    profile = KernelProfile("kernel()", values, listing=listing)
    dram = Roof("dram", dram_bytes, "byte", dram_bytes / DURATION_NS * 1e9, 4e12)
    under = tuple([dram] if roofs is None else roofs)
    return KernelWhy(profile, under, waits={}, causes=(), lines=(), advice=(), time=None)


def rows(first, second, account=None, *, near_roof=False):
    kernels = first if isinstance(first, list) else [first]
    sides = CellWhy(tuple(kernels)), CellWhy((second,))
    counters = compare_counters(*sides, account, near_roof=near_roof)
    assert len({row.name for row in counters}) == len(counters)
    return {row.name: row for row in counters}


def test_amounts_are_sums_and_what_cannot_be_added_is_of_the_longest():
    short = kernel(launch__registers_per_thread=255.0, **{"gpu__time_duration.sum": 1e5})
    counters = rows([kernel(), short], kernel())
    assert counters["dram_bytes"].first.value == 2e9
    assert counters["dram_bytes"].ratio == 2.0
    assert counters["launches"].first.value == 2
    assert counters["registers"].first.value == counters["registers"].second.value == 64


def test_what_is_a_tiny_share_of_the_work_comes_after_what_moved():
    """35 times the bank conflicts that are 0.2 % of all wavefronts come first by their ratio."""
    counters = rows(kernel(**{CONFLICTS: 7e6}), kernel())
    assert counters["conflict_wavefronts"].ratio == 35
    assert counters["conflict_wavefronts"].moved, "7 % of the wavefronts, at 40 % of the peak"
    few = rows(kernel(), kernel(dram_bytes=3e9, **{CONFLICTS: 5.7e3}))
    assert few["conflict_wavefronts"].ratio > 35
    assert few["conflict_wavefronts"].differs
    assert not few["conflict_wavefronts"].moved
    names = list(few)
    assert names.index("dram_bytes") < names.index("conflict_wavefronts")
    assert names.index("conflict_wavefronts") < names.index("shared_wavefronts"), "the same last"


def test_parts_stand_in_the_order_of_the_account():
    first = kernel(wavefronts=2e8, dram_bytes=3e9, launch__registers_per_thread=128.0)
    parts = (
        AccountPart("stall:mio_throttle", 5e5),
        AccountPart("warps_in_flight", -3e5),
        AccountPart("clock", 1.0),
    )
    account = Account(2e6, 1e6, parts, (0.0, 0.0))
    moved = [row.group for row in rows(first, kernel(), account).values() if row.moved]
    assert list(dict.fromkeys(moved)) == [SHARED, "warps_in_flight", MEMORY]
    under_roof = rows(first, kernel(), account, near_roof=True)
    assert next(iter(under_roof)) == "dram_bytes"


def test_the_same_account_in_several_stalls_is_one_part():
    """Two waits for memory that go against each other add up to their difference."""
    parts = (AccountPart("stall:long_scoreboard", 5e5), AccountPart("stall:lg_throttle", -4.9e5))
    account = Account(2e6, 1e6, (*parts, AccountPart("stall:short_scoreboard", 1e5)), (0.0, 0.0))
    first = kernel(wavefronts=2e8, dram_bytes=3e9)
    moved = [row.group for row in rows(first, kernel(), account).values() if row.moved]
    assert moved[0] == SHARED


def test_what_one_lacks_is_left_out_and_so_is_what_both_have_none_of():
    without = kernel(sass__inst_executed_register_spilling=0.0, **{"lts__t_bytes.sum": math.nan})
    other = kernel(sass__inst_executed_register_spilling=0.0)
    counters = rows(without, other)
    assert "l2_bytes" not in counters
    assert "spill_instructions" not in counters
    assert "l1_bytes" not in counters, "in neither"
    spilling = kernel(sass__inst_executed_register_spilling=1e6)
    assert rows(spilling, other)["spill_instructions"].second.value == 0


def test_the_limit_of_occupancy_is_named_and_no_shared_memory_is_none():
    by_shared = kernel(launch__occupancy_limit_shared_mem=8.0)
    limit = rows(kernel(), by_shared)["occupancy_limit"]
    assert (limit.first.text, limit.second.text) == ("registers", "registers and shared memory")
    assert limit.moved
    blocks = kernel(launch__occupancy_limit_registers=64.0, launch__occupancy_limit_warps=64.0)
    assert rows(blocks, kernel())["occupancy_limit"].first.text == "blocks per SM"


def test_a_type_of_operations_that_a_cell_did_none_of_is_nothing():
    tensor = Roof("tensor_bf16", 8e12, "op", 4e14, 9e14)
    counters = rows(kernel(roofs=(DRAM, tensor)), kernel())
    assert counters["tensor_bf16"].second.value == 0
    assert "tensor_bf16" not in rows(kernel(roofs=(DRAM, tensor)), kernel(roofs=())), "not counted"
    assert "fp32" not in rows(kernel(roofs=(Roof("fp32", 1e9, "op", 1e12, 6e13),)), kernel())


def listing(*instructions):
    columns = ["opcode", "executed", "global_sectors", "shared_wavefronts_excessive"]
    return Listing("kernel()", pd.DataFrame(instructions, columns=columns))


def test_sectors_are_of_the_requests_that_have_any():
    narrow = listing(("LDG.E", 10.0, 160.0, math.nan), ("IADD3", 1000.0, math.nan, math.nan))
    wide = listing(("LDG.E.128", 10.0, 160.0, math.nan), ("STG.E", 30.0, 120.0, math.nan))
    sectors = rows(kernel(narrow), kernel(wide))["sectors_per_request"]
    assert (sectors.first.value, sectors.second.value) == (16.0, 7.0)
    none = listing(("IADD3", 1000.0, math.nan, math.nan))
    assert "sectors_per_request" not in rows(kernel(none), kernel(wide)), "copies by TMA alone"


def test_lanes_of_atomics_that_meet_are_no_bank_conflicts():
    atomics = listing(("ATOMS.ADD", 10.0, math.nan, 1.5e5), ("LDS", 10.0, math.nan, 5e4))
    assert rows(kernel(atomics), kernel())["conflict_wavefronts"].first.value == 5e4


@pytest.mark.parametrize("name", COUNTERS)
def test_every_counter_belongs_to_a_part(name):
    counters = rows(kernel(), kernel())
    assert name not in counters or counters[name].group in GROUPS
