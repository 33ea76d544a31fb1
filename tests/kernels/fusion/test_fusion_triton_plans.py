"""How the hand-written kernels share their work among programs: what can be told without a GPU."""

import pytest

from kernels.fusion.triton_launch import (
    ELEMENTS_PER_WARP,
    MAX_COLUMNS_AT_ONCE,
    plan_rows,
    plan_tile,
    power_of_two,
)

SIZES = [1, 2, 31, 127, 128, 129, 1000, 1024, 2048, 4096, 8192, 8193, 16384, 32768, 32769, 65537]


@pytest.mark.parametrize("columns", SIZES)
def test_every_row_is_covered_by_a_block_that_triton_takes(columns):
    plan = plan_rows(columns)
    assert plan.columns & (plan.columns - 1) == 0, "a power of two"
    assert plan.rows & (plan.rows - 1) == 0
    assert plan.warps in (4, 8, 16, 32)
    assert plan.whole == (columns <= MAX_COLUMNS_AT_ONCE)
    if plan.whole:
        assert columns <= plan.columns < 2 * columns or columns == plan.columns
        # A thread may keep 32 elements, so that even 1024 threads have registers for them.
        assert plan.rows * plan.columns <= plan.warps * ELEMENTS_PER_WARP
    else:
        assert plan.rows == 1
        # The pieces start inside the row: every lane sees an element in the first of them.
        assert plan.columns <= columns


def test_short_rows_share_a_program_and_long_rows_get_more_warps():
    assert (plan_rows(128).rows, plan_rows(128).warps) == (16, 4)
    assert (plan_rows(8192).rows, plan_rows(8192).warps) == (1, 8)
    assert plan_rows(32768).warps == 32


@pytest.mark.parametrize("columns", SIZES)
def test_tiles_have_one_size(columns):
    rows, width = plan_tile(columns)
    assert rows * width == 4096
    assert width <= 512


@pytest.mark.parametrize(("number", "power"), [(1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)])
def test_powers_of_two(number, power):
    assert power_of_two(number) == power
