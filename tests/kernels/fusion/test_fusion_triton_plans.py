"""How the hand-written kernels share their work among programs: what can be told without a GPU."""

from types import SimpleNamespace

import pytest
import torch

from fusion import eager, inputs, triton_launch
from fusion.operators import OPERATORS
from fusion.triton_launch import (
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
    assert plan.holds_rows == (columns <= MAX_COLUMNS_AT_ONCE)
    if plan.holds_rows:
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


class Started:
    """Stands for a Triton kernel: keeps what it is started with."""

    def __getitem__(self, grid):
        self.grid = grid
        return self

    def __call__(self, *arguments, **options):
        self.arguments = arguments
        self.options = options


@pytest.mark.parametrize("layout", OPERATORS["bias_dropout_add"].layouts)
def test_a_result_lies_in_memory_as_that_of_eager_code(layout):
    problem = {"operator": "bias_dropout_add", "layout": layout, "dim0": 500, "dim1": 900}
    made = inputs.make(problem, torch.device("cpu"), 1).arguments
    kernel = Started()
    start = triton_launch._STARTERS["bias_dropout_add"]
    result = start(SimpleNamespace(bias_dropout_add=kernel), *made)()
    wanted = eager.bias_dropout_add(*made)
    assert (result.shape, result.stride(), result.dtype) == (
        wanted.shape,
        wanted.stride(),
        wanted.dtype,
    )
    by_columns = layout in ("transposed", "mixed")
    assert kernel.options["BIAS_BY_ROW"] == by_columns
    assert (kernel.options["ROWS"] == kernel.options["COLUMNS"]) == (layout == "mixed")
    # What the kernel calls rows and columns are those of the transpose where it lies by columns.
    assert kernel.arguments[4:6] == ((900, 500) if by_columns else (500, 900))
    strides = result.stride()
    assert kernel.arguments[-2:] == (strides[::-1] if by_columns else strides)
