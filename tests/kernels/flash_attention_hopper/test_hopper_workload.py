import pytest
import torch
from studies import workload_of

from flash_attention_hopper import workload
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 50, "batch": 2, "heads": 3, "head_dim": 64}


@pytest.fixture(scope="module")
def inputs():
    return workload.make_inputs(PROBLEM, CPU, seed=3)


def test_it_is_a_workload():
    assert load_workload(workload_of("flash_attention_hopper")).flops is not None
    assert workload.flops(PROBLEM) == 2 * 3 * 4 * 50**2 * 64
    assert workload.bytes(PROBLEM) == 4 * 2 * 50 * 3 * 64 * 2


def test_a_reference_and_a_variant_of_one_type_have_one_expected_result(inputs):
    expected, (absolute, relative) = workload.expected({"d_head": 64}, PROBLEM, inputs)
    assert (expected.dtype, tuple(expected.shape), relative) == (
        torch.bfloat16,
        (2, 50, 3, 64),
        0.0,
    )
    assert 0 < absolute < 0.05
    reference = {"implementation": "sdpa_cudnn"}
    assert workload.expected(reference, PROBLEM, inputs)[0] is expected


def test_it_needs_a_device_and_a_library(inputs, tmp_path):
    with pytest.raises(RuntimeError, match="needs a CUDA device and cannot run on cpu"):
        workload.prepare({"d_head": 64}, PROBLEM, inputs, tmp_path)


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_cards_are_refused(capability):
    with pytest.raises(ValueError, match=r"needs compute capability 9.0, the device has"):
        workload.guard_device(capability)


def test_a_hopper_card_is_not_refused():
    workload.guard_device((9, 0))
