"""Checks of kernels by the space: what ncu names no kernel of says nothing about them."""

from types import SimpleNamespace

import pytest

from profiler.model import Cell, Problem, Variant
from profiler.sessions.measuring.after_attempt import check_kernels

CELL = Cell("a..p", Variant("a", "a", {}), Problem("p", "p", {}))


@pytest.mark.parametrize(("row", "reasons"), [("gemm", {"a..p": "gemm is none"}), ("range", {})])
def test_the_row_of_a_replayed_range_is_no_kernel(row, reasons):
    loaded = SimpleNamespace(
        attempt=SimpleNamespace(
            kernel_check=None, record=SimpleNamespace(keys={CELL.id: "key"}), damaged=()
        ),
        current={CELL.id},
        kernels=lambda: {CELL.id: ((row,),)},
        finished_without_kernel=set,
    )
    space = SimpleNamespace(check_kernels=lambda variant, problem, names: f"{names[0]} is none")
    check = check_kernels(loaded, SimpleNamespace(cells=(CELL,)), space)
    assert check.fell_back == reasons
