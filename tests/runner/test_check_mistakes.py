"""Mistakes in results of common operations are seen without a tolerance, and right ones pass."""

import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks/check"))

from mistakes import MISTAKES, NOT_IN_BFLOAT16, OPERATIONS, refused, right_result, tried
from rounded_otherwise import CAUSAL, PAIRS, attention, refused_ways

from profiler.runner.checks.rounding import Rounding


@pytest.mark.parametrize("name", ["sum", "softmax", "gradients of a convolutional net"])
def test_each_mistake_is_seen_and_no_right_result_is_refused(name):
    seen, wrongly_refused = tried(name, torch.device("cpu"))
    assert set(seen) == set(MISTAKES)
    assert False not in seen.values(), seen
    assert not wrongly_refused


def test_zeros_and_a_wrong_factor_in_a_softmax_of_bfloat16_are_seen():
    seen, wrongly_refused = tried("softmax", torch.device("cpu"), torch.bfloat16)
    assert seen["the smaller half is 0"]
    assert seen["the last element is 0"]
    assert seen["all are 1.02 times as large"]
    assert not wrongly_refused


def test_attention_in_bfloat16_that_leaves_out_its_last_keys_is_refused():
    """Only late rows see them, whose elements are far smaller than those of the first."""
    torch.manual_seed(0)
    inputs = tuple(value.bfloat16() for value in PAIRS["causal attention"][1]())
    baseline = partial(attention, seen=CAUSAL)
    expected, rounding = right_result(baseline, inputs, torch.device("cpu"))
    fewer = CAUSAL & ((torch.arange(700) < 692) | torch.eye(700, dtype=torch.bool))
    for keys, is_refused in ((CAUSAL, False), (fewer, True)):
        result = attention(*inputs, seen=keys)
        assert refused([result], expected, rounding) is is_refused


@torch.no_grad()
def test_a_result_in_bfloat16_that_does_not_move_may_be_off_by_two_roundings_of_the_largest():
    """Its inputs are whole numbers."""
    torch.manual_seed(0)
    rows, table = torch.arange(90), torch.nn.Embedding(100, 64).bfloat16()
    expected, rounding = right_result(table, (rows,), torch.device("cpu"))
    largest = float(table.weight.abs().max())
    off = table(rows) + torch.finfo(torch.bfloat16).eps * largest
    assert not refused([off], expected, rounding)


def test_without_memory_to_explain_errors_in_bfloat16_two_roundings_of_the_largest_are_right(
    monkeypatch,
):
    monkeypatch.setattr(Rounding, "_own_errors", Mock(side_effect=torch.OutOfMemoryError))
    torch.manual_seed(0)
    inputs = tuple(value.bfloat16() for value in PAIRS["causal attention"][1]())
    baseline = partial(attention, seen=CAUSAL)
    expected, rounding = right_result(baseline, inputs, torch.device("cpu"))
    result = baseline(*inputs)
    off = torch.finfo(torch.bfloat16).eps * result.abs().max()
    assert not refused([result + off], expected, rounding)


@pytest.mark.parametrize("name", ["causal attention", "eight layers", "GELU"])
def test_right_results_in_bfloat16_may_be_rounded_in_another_way(name):
    assert refused_ways(name)[0] == []


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:RNN module weights")  # of copies, for the reference alone
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in OPERATIONS),
        *((name, torch.bfloat16) for name in OPERATIONS if name not in NOT_IN_BFLOAT16),
    ],
    ids=str,
)
def test_no_right_result_is_refused_on_a_gpu(name, dtype):
    """Convolutions and RNNs are in TF32 there, in which a factor of 1.0001 is not seen."""
    seen, wrongly_refused = tried(name, torch.device("cuda"), dtype)
    if dtype == torch.float32:
        assert seen["elements are a place off"] is not False
    assert not wrongly_refused
