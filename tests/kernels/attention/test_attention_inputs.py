import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention import inputs as shared
from attention.launch import torch_launch
from attention.problem import flops
from profiler.runner.checks import check
from profiler.runner.checks.renewal import Renewal
from profiler.runner.device import CpuDevice
from profiler.runner.protocol import Tolerance

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 64, "batch": 2, "heads": 3, "head_dim": 64}
SHAPE = (2, 64, 3, 64)
UNEVEN = {**PROBLEM, "seq_len": 50}


@pytest.fixture(scope="module")
def inputs():
    return shared.make_inputs(PROBLEM, CPU, seed=3)


def exact_attention(attention):
    query, key, value = (
        tensor.double().transpose(1, 2)
        for tensor in (attention.query, attention.key, attention.value)
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
    return (torch.softmax(scores, dim=-1) @ value).transpose(1, 2)


@pytest.mark.parametrize(("dtype", "kind"), [("FP16", torch.float16), ("BF16", torch.bfloat16)])
def test_expected_is_the_attention_in_the_variants_type(inputs, dtype, kind):
    expected, (absolute, relative) = shared.expected({"dtype": dtype}, PROBLEM, inputs)
    exact = exact_attention(inputs.attention(dtype))
    assert (expected.dtype, tuple(expected.shape), relative) == (kind, SHAPE, 0.0)
    error = float((expected.double() - exact).abs().max())
    # Twice its own error against float32, which is as good as exact here.
    assert absolute == pytest.approx(2 * error, rel=1e-3)
    assert 0 < absolute < 0.05


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_the_bound_lets_a_good_kernel_pass_and_no_wrong_one(inputs, dtype):
    expected, (absolute, relative) = shared.expected({"dtype": dtype}, PROBLEM, inputs)
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
    at_once = shared.expected_attention(*tensors)
    monkeypatch.setattr(shared, "_SCORE_ELEMENTS", 4 * 64 * 64)  # four heads, then two
    pieces = shared.expected_attention(*tensors)
    torch.testing.assert_close(pieces[0], at_once[0])
    assert pieces[1] == pytest.approx(at_once[1], rel=0.1)


def test_the_seed_decides_the_inputs_and_both_types_have_the_same_values(inputs):
    first = inputs.attention("FP16")
    again = shared.make_inputs(PROBLEM, CPU, seed=3).attention("FP16")
    other = shared.make_inputs(PROBLEM, CPU, seed=4).attention("FP16")
    assert torch.equal(first.query, again.query)
    assert not torch.equal(first.query, other.query)
    assert not torch.equal(first.key, first.value)
    torch.testing.assert_close(
        inputs.attention("BF16").query.float(), first.query.float(), rtol=2**-7, atol=1e-3
    )


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_torchs_own_attention_passes(inputs, dtype):
    variant = {"implementation": "sdpa_flash", "dtype": dtype}
    launch = torch_launch(variant, PROBLEM, inputs)
    expected, bounds = shared.expected(variant, PROBLEM, inputs)
    check.compare((launch(),), (expected,), {"default": Tolerance(*bounds)})


def test_a_reference_without_a_type_takes_the_problems(inputs):
    problem = {**PROBLEM, "precision": "FP16"}
    launch = torch_launch({"implementation": "sdpa_flash"}, problem, inputs)
    assert launch().dtype == torch.float16


def test_a_causal_mask():
    problem = {**UNEVEN, "is_causal": True}
    masked = shared.make_inputs(problem, CPU, seed=3)
    reference = {"implementation": "sdpa_cudnn", "dtype": "FP16"}
    result, (bound, _) = shared.expected(reference, problem, masked)
    made = masked.attention("FP16")
    operands = (tensor.float().transpose(1, 2) for tensor in (made.query, made.key, made.value))
    right = scaled_dot_product_attention(*operands, is_causal=True).transpose(1, 2)
    assert (result.float() - right).abs().max() <= bound < 0.05
    # The first query sees one key, the last all of them: as without a mask.
    unmasked, _ = shared.expected(reference, UNEVEN, shared.make_inputs(UNEVEN, CPU, seed=3))
    assert torch.equal(result[:, 0], made.value[:, 0])
    assert (result[:, -1] - unmasked[:, -1]).abs().max() <= bound
    assert flops(problem) == 2 * 3 * 2 * 50**2 * 64


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
@pytest.mark.parametrize(("scores", "sign"), [("growing", 1), ("falling", -1)])
def test_growing_scores_grow_with_every_tile(dtype, scores, sign):
    problem = {"seq_len": 1024, "batch": 1, "heads": 2, "head_dim": 128, "scores": scores}
    grown = shared.make_inputs(problem, CPU, seed=3)
    made = grown.attention(dtype)
    query, key = (tensor.float().transpose(1, 2) for tensor in (made.query, made.key))
    exponents = query @ key.transpose(2, 3) / math.sqrt(128) / math.log(2)
    for tile in (64, 80, 128):
        tiles = exponents[..., : 1024 // tile * tile].split(tile, -1)
        highest = torch.stack([part.amax(-1) for part in tiles])
        assert (sign * highest.diff(dim=0)).min() > 8, "2^8 is what lazy rescaling waits for"
    result, (bound, _) = shared.expected({"dtype": dtype}, problem, grown)
    assert (result.double() - exact_attention(made)).abs().max() <= bound < 0.05


def test_keys_and_values_with_heads_first_are_renewed_with_the_others():
    inputs = shared.make_inputs(UNEVEN, CPU, seed=3)
    made = inputs.attention("BF16")
    key, value = inputs.heads_first("BF16")
    assert key.is_contiguous()
    others = shared.other_inputs(UNEVEN, inputs, seed=4)
    renewal = Renewal(inputs, others, (3, 4))
    renewal.sample(lambda: made.query, CpuDevice())
    for turned, plain in ((key, made.key), (value, made.value)):
        assert torch.equal(turned, plain.transpose(1, 2))
    assert torch.equal(made.key, others.attention("BF16").key)
