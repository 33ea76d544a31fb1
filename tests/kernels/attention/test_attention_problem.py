import pytest

from attention.implementations import check_implementation, dtype_of
from attention.problem import (
    Sizes,
    check_problem,
    flops,
    is_causal,
    least_bytes,
    non_matmul_flops,
    sizes,
)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "seq_len must be a positive"),
        ({"seq_len": 0}, "seq_len must be a positive"),
        ({"seq_len": True}, "seq_len must be a positive"),
        ({"seq_len": 512, "batch": "16"}, "batch must be a positive"),
        ({"seq_len": 512, "length": 1}, "length is no size"),
        ({"seq_len": 512, "precision": "FP8"}, "precision must be one of"),
        ({"seq_len": 64, "is_causal": 1}, "is_causal must be true or false, not 1"),
        (
            {"seq_len": 64, "scores": "large"},
            "scores must be one of normal, growing, falling",
        ),
    ],
)
def test_problems_that_make_no_sense(params, words):
    assert words in (check_problem(params) or "")
    with pytest.raises(ValueError, match=words):
        sizes(params)


@pytest.mark.parametrize(
    ("length", "batch"),
    [(512, 16), (1024, 16), (2048, 16), (4096, 16), (8192, 8), (16384, 4), (131072, 1)],
)
def test_the_batch_follows_the_length(length, batch):
    assert sizes({"seq_len": length}) == Sizes(batch, length, 16, 128)


def test_operations_and_bytes():
    problem = {"seq_len": 4096}
    assert flops(problem) == 4 * 256 * 4096**2 * 128
    assert non_matmul_flops(problem) == 256 * 6 * 4096**2
    assert least_bytes(problem) == 4 * 2 * 16 * 4096 * 16 * 128
    masked = {**problem, "is_causal": True}
    assert is_causal(masked)
    assert not is_causal(problem)
    assert flops(masked) == 2 * 256 * 4096**2 * 128, "half, as the field counts"
    assert non_matmul_flops(masked) == 256 * 6 * 4096 * 4097 / 2, "of the pairs that are seen"
    assert least_bytes(masked) == least_bytes(problem)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"implementation": "sdpa_math"}, "'sdpa_math'"),
        ({"implementation": "sdpa_flash", "B_r": 64}, "B_r has no effect on sdpa_flash"),
        ({"implementation": "sdpa_flash", "dtype": "FP32"}, "dtype must be one of"),
    ],
)
def test_implementations_that_make_no_sense(params, words):
    assert words in (check_implementation(params) or "")


def test_only_torchs_own_take_the_problems_type():
    problem = {"seq_len": 64, "precision": "FP16"}
    assert dtype_of({"implementation": "sdpa_flash"}, problem) == "FP16"
    assert dtype_of({"implementation": "sdpa_flash", "dtype": "BF16"}, problem) == "BF16"
    assert dtype_of({"B_c": 64}, problem) == "BF16"
