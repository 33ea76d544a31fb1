from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from profiler.kernels.flash_attention_hopper import workload
from profiler.kernels.flash_attention_hopper.config import Config
from profiler.runner.device import CpuDevice
from profiler.runner.renewal import Renewal
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


def test_a_causal_mask():
    problem = {**PROBLEM, "is_causal": True}
    masked = workload.make_inputs(problem, CPU, seed=3)
    reference = {"implementation": "sdpa_math", "dtype": "FP16"}
    result, (bound, _) = workload.expected(reference, problem, masked)
    made = masked.attention("FP16")
    operands = (tensor.float().transpose(1, 2) for tensor in (made.query, made.key, made.value))
    right = scaled_dot_product_attention(*operands, is_causal=True).transpose(1, 2)
    assert (result.float() - right).abs().max() <= bound < 0.05
    # The first query sees one key, the last all of them: as without a mask.
    whole, _ = workload.expected(reference, PROBLEM, workload.make_inputs(PROBLEM, CPU, seed=3))
    assert torch.equal(result[:, 0], made.value[:, 0])
    assert (result[:, -1] - whole[:, -1]).abs().max() <= bound
    assert workload.flops(problem) == 2 * 3 * 50 * 51 / 2 * (4 * 64 + 6)


def test_keys_and_values_with_heads_first_are_renewed_with_the_others(inputs):
    made = inputs.attention("BF16")
    key, value = inputs.heads_first("BF16")
    assert key.is_contiguous()
    others = workload.other_inputs(PROBLEM, inputs, seed=4)
    renewal = Renewal(inputs, others, (3, 4))
    renewal.sample(lambda: made.query, CpuDevice())
    for first, kept in ((key, made.key), (value, made.value)):
        assert torch.equal(first, kept.transpose(1, 2))
    assert torch.equal(made.key, others.attention("BF16").key)


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
    heads_first = torch.zeros(2, 3, 50, 64, dtype=torch.bfloat16)
    turned = replace(CONFIG, kv_heads_first=True)
    workload.guard_tensors(turned, **tensors(key=heads_first, value=heads_first))
    with pytest.raises(ValueError, match=r"k is .2, 50, 3, 64., but q is"):
        workload.guard_tensors(turned, **tensors())


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
