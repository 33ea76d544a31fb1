import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from profiler.kernels.flash_attention import space, workload
from profiler.kernels.flash_attention.config import Config
from profiler.runner import check
from profiler.runner.protocol import Tolerance
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 64, "batch": 2, "heads": 3, "head_dim": 64}
SHAPE = (2, 64, 3, 64)
CONFIG = Config(d_head=64)


@pytest.fixture(scope="module")
def inputs():
    return workload.make_inputs(PROBLEM, CPU, seed=3)


def exact_attention(attention):
    query, key, value = (
        each.double().transpose(1, 2) for each in (attention.query, attention.key, attention.value)
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
    return (torch.softmax(scores, dim=-1) @ value).transpose(1, 2)


@pytest.mark.parametrize(("dtype", "kind"), [("FP16", torch.float16), ("BF16", torch.bfloat16)])
def test_expected_is_the_attention_in_the_variants_type(inputs, dtype, kind):
    expected, (absolute, relative) = workload.expected({"dtype": dtype}, PROBLEM, inputs)
    exact = exact_attention(inputs.attention(dtype))
    assert (expected.dtype, tuple(expected.shape), relative) == (kind, SHAPE, 0.0)
    error = float((expected.double() - exact).abs().max())
    # Twice its own error against float32, which is as good as exact here.
    assert absolute == pytest.approx(2 * error, rel=1e-3)
    assert 0 < absolute < 0.05


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_the_bound_lets_a_good_kernel_pass_and_no_wrong_one(inputs, dtype):
    expected, (absolute, relative) = workload.expected({"dtype": dtype}, PROBLEM, inputs)
    exact = exact_attention(inputs.attention(dtype))
    bounds = {"default": Tolerance(absolute, relative)}
    rounded = exact.to(expected.dtype)
    check.compare((rounded,), (expected,), bounds)
    wrong = {
        "no scale": rounded * 1.1,
        "one key twice": rounded + inputs.attention(dtype).value[:, :1] / 64,
        "a row never written": rounded.index_fill(1, torch.tensor([7]), math.nan),
    }
    for result in wrong.values():
        with pytest.raises(check.WrongResultError):
            check.compare((result,), (expected,), bounds)


def test_expected_is_the_same_in_pieces(inputs, monkeypatch):
    attention = inputs.attention("BF16")
    tensors = (attention.query, attention.key, attention.value)
    whole = workload.expected_attention(*tensors)
    monkeypatch.setattr(workload, "_SCORE_ELEMENTS", 4 * 64 * 64)  # four heads, then two
    pieces = workload.expected_attention(*tensors)
    torch.testing.assert_close(pieces[0], whole[0])
    assert pieces[1] == pytest.approx(whole[1], rel=0.1)


def test_the_seed_decides_the_inputs_and_both_types_have_the_same_values(inputs):
    first = inputs.attention("FP16")
    again = workload.make_inputs(PROBLEM, CPU, seed=3).attention("FP16")
    other = workload.make_inputs(PROBLEM, CPU, seed=4).attention("FP16")
    assert torch.equal(first.query, again.query)
    assert not torch.equal(first.query, other.query)
    assert not torch.equal(first.key, first.value)
    torch.testing.assert_close(
        inputs.attention("BF16").query.float(), first.query.float(), rtol=2**-7, atol=1e-3
    )


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_torchs_own_attention_passes(inputs, dtype):
    variant = {"implementation": "sdpa_flash", "dtype": dtype}
    launch = workload.prepare(variant, PROBLEM, inputs, None)
    expected, bounds = workload.expected(variant, PROBLEM, inputs)
    check.compare((launch(),), (expected,), {"default": Tolerance(*bounds)})


def test_a_reference_without_a_type_takes_the_problems(inputs):
    problem = {**PROBLEM, "precision": "FP16"}
    launch = workload.prepare({"implementation": "sdpa_flash"}, problem, inputs, None)
    assert launch().dtype == torch.float16


def test_every_reference_has_a_backend():
    assert set(workload.BACKENDS) == set(space.IMPLEMENTATIONS)


def test_our_kernels_say_that_they_cannot_run_on_the_cpu(inputs):
    with pytest.raises(RuntimeError, match="need a CUDA device and cannot run on cpu"):
        workload.prepare(CONFIG.params(), PROBLEM, inputs, Path("library.so"))


def test_the_runner_finds_all_functions():
    found = load_workload("profiler.kernels.flash_attention.workload")
    assert found.reference is None
    assert found.expected is workload.expected
    assert found.flops is not None
    assert found.flops({"seq_len": 512}) == space.attention_flops(space.Sizes(16, 512, 16, 128))
    assert found.bytes is not None
    assert found.bytes({"seq_len": 512}) == 4 * 2 * 16 * 512 * 16 * 128


def tensors(shape=SHAPE, dtype=torch.bfloat16):
    return [torch.zeros(shape, dtype=dtype) for _ in range(4)]


def test_right_tensors_pass_the_guards():
    workload.guard_tensors(CONFIG, *tensors())
    workload.guard_device(CONFIG, workload.DeviceLimits((8, 0), CONFIG.shared_bytes))


@pytest.mark.parametrize(
    ("place", "tensor", "words"),
    [
        (1, torch.zeros(2, 32, 3, 64), r"k is \(2, 32, 3, 64\), but q is \(2, 64, 3, 64\)"),
        (2, torch.zeros(2, 64, 1, 64), r"v is \(2, 64, 1, 64\), but q is"),
        (3, torch.zeros(2, 64, 3, 32), r"the output is \(2, 64, 3, 32\), but q is"),
        (1, torch.zeros(SHAPE), "the kernel is for torch.bfloat16, k is torch.float32"),
        (2, torch.zeros(SHAPE, dtype=torch.bfloat16, device="meta"), "v is on meta, but q is on"),
        (0, torch.zeros(2, 3, 64, 64, dtype=torch.bfloat16).transpose(1, 2), "q is not contiguous"),
    ],
)
def test_guards_of_single_tensors(place, tensor, words):
    given = tensors()
    given[place] = tensor
    with pytest.raises(ValueError, match=words):
        workload.guard_tensors(CONFIG, *given)


@pytest.mark.parametrize(
    ("shape", "config", "words"),
    [
        ((2, 64, 64), CONFIG, "q must be"),
        ((2, 64, 3, 128), CONFIG, "for d_head = 64, q has 128"),
        ((2, 96, 3, 64), CONFIG, "a length of 96 is no multiple of B_r = 64"),
        ((2, 64, 3, 64), replace(CONFIG, B_c=128), "a length of 64 is no multiple of B_c = 128"),
    ],
)
def test_guards_of_sizes(shape, config, words):
    with pytest.raises(ValueError, match=words):
        workload.guard_tensors(config, *tensors(shape))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (workload.DeviceLimits((7, 5), 65536), "needs compute capability 8.0, the device has 7.5"),
        (workload.DeviceLimits((8, 6), 24000), "need 24576 bytes of shared memory; .* have 24000"),
    ],
)
def test_guards_of_the_device(limits, words):
    with pytest.raises(ValueError, match=words):
        workload.guard_device(CONFIG, limits)
