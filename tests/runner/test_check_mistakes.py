"""Mistakes in results of common operations are seen without a tolerance, and right ones pass."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks/check"))

from mistakes import MISTAKES, OPERATIONS, tried


@pytest.mark.parametrize("name", ["sum", "softmax", "gradients of a convolutional net"])
def test_each_mistake_is_seen_and_no_right_result_is_refused(name):
    seen, wrongly_refused = tried(name, torch.device("cpu"))
    assert set(seen) == set(MISTAKES)
    assert False not in seen.values(), seen
    assert not wrongly_refused


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:RNN module weights")  # of copies, for the reference alone
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_right_result_is_refused_on_a_gpu(name):
    """Convolutions and RNNs are in TF32 there, in which a factor of 1.0001 is not seen."""
    seen, wrongly_refused = tried(name, torch.device("cuda"))
    assert seen["elements are a place off"] is not False
    assert not wrongly_refused
