import pytest
import torch

from profiler.kernels.flash_attention_hopper import workload
from profiler.kernels.flash_attention_hopper.config import Config
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 50, "batch": 2, "heads": 3, "head_dim": 64}
CONFIG = Config(d_head=64)


def tensors(**changes):
    names = ("query", "key", "value", "output")
    made = {name: torch.zeros(2, 50, 3, 64, dtype=torch.bfloat16) for name in names}
    return {**made, **changes}


@pytest.fixture(scope="module")
def inputs():
    return workload.make_inputs(PROBLEM, CPU, seed=3)


def test_it_is_a_workload():
    assert load_workload("profiler.kernels.flash_attention_hopper.workload").flops is not None
    assert workload.flops(PROBLEM) == 2 * 3 * (4 * 50**2 * 64 + 6 * 50**2)
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


def test_good_tensors_pass():
    workload.guard_tensors(CONFIG, **tensors())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"query": torch.zeros(50, 3, 64)}, "must be .batch, seq_len, heads, d_head."),
        ({"query": torch.zeros(2, 50, 3, 128)}, "the kernel is for d_head = 64, q has 128"),
        ({"key": torch.zeros(2, 49, 3, 64)}, "k is .2, 49, 3, 64., but q is"),
        ({"output": torch.zeros(2, 50, 3, 64)}, "the output is torch.float32"),
        (
            {"value": torch.zeros(2, 3, 50, 64, dtype=torch.bfloat16).transpose(1, 2)},
            "v is not contiguous",
        ),
        (
            {"key": torch.zeros(19201, dtype=torch.bfloat16)[1:].view(2, 50, 3, 64)},
            "k is not aligned to 16 bytes",
        ),
    ],
)
def test_tensors_that_it_cannot_work_on(changes, words):
    with pytest.raises(ValueError, match=words):
        workload.guard_tensors(CONFIG, **tensors(**changes))
