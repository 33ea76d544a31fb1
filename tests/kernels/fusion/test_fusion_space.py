import math

import pytest

from fusion import eager, space
from fusion.operators import IMPLEMENTATIONS, OPERATORS

MATRIX = {"dim0": 3, "dim1": 5}
ATTENTION = {"operator": "attention", "batch": 2, "seq_len": 16, "heads": 4, "head_dim": 8}


def problem(operator, **more):
    return {"operator": operator, **MATRIX, **more}


def test_every_operator_says_what_it_computes():
    assert set(eager.FUNCTIONS) == set(OPERATORS)
    for operator in OPERATORS.values():
        assert set(operator.implementations) <= set(IMPLEMENTATIONS)
        assert operator.implementations[:2] == ("eager", "compile")


@pytest.mark.parametrize(
    "operator", ["softmax", "layer_norm", "bias_dropout_add", "bias_gelu", "pointwise_chain"]
)
def test_the_operators_with_a_hand_written_kernel(operator):
    assert space.check_cell({"implementation": "triton"}, problem(operator)) is None


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "implementation must be one of eager, compile"),
        ({"implementation": "cuda"}, "not 'cuda'"),
        ({"implementation": "eager", "mode": "default"}, "mode has no effect in eager"),
        ({"implementation": "compile", "mode": "reduce-overhead"}, "mode must be one of default"),
        ({"implementation": "triton", "block": 128}, "block is no parameter"),
    ],
)
def test_variants_that_cannot_act(params, reason):
    assert reason in space.check_variant(params)


def test_variants_and_their_names():
    assert space.check_variant({"implementation": "compile"}) is None
    tuned = {"implementation": "compile", "mode": "max-autotune-no-cudagraphs"}
    assert space.check_variant(tuned) is None
    assert space.variant_name(tuned) == "compile-max-autotune-no-cudagraphs"
    assert space.variant_name({"implementation": "eager"}) == "eager"


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"operator": "sort", **MATRIX}, "operator must be one of pointwise_chain, softmax"),
        ({"operator": "softmax", "dim0": 4}, "dim1 must be a positive whole number, not None"),
        (problem("softmax", dim0=0), "dim0 must be a positive whole number, not 0"),
        (problem("softmax", dim0=True), "dim0 must be a positive whole number, not True"),
        (problem("softmax", inner=4), "inner is no size of softmax; its sizes are dim0, dim1"),
        (problem("softmax", dtype="float16"), "dtype of softmax must be one of float32"),
        (problem("bias_gelu", layout="transposed"), "layout of bias_gelu must be one of contig"),
        (problem("bias_dropout_add", layout="tiled"), "layout of bias_dropout_add must be one of"),
        ({**ATTENTION, "embedding": 32}, "head_dim is no size of attention"),
        ({"operator": "attention", "batch": 1, "seq_len": 4, "heads": 2}, "head_dim must be a"),
        (
            {"operator": "attention", "batch": 1, "seq_len": 4, "heads": 3, "embedding": 32},
            "an embedding of 32 cannot be shared among 3 heads",
        ),
        (problem("layer_norm", embedding=32), "embedding is no size of layer_norm"),
    ],
)
def test_problems_that_make_no_sense(params, reason):
    assert reason in space.check_problem(params)
    with pytest.raises(ValueError, match=r"must|no size|cannot"):
        space.total_flops(params)


@pytest.mark.parametrize(
    ("implementation", "params", "reason"),
    [
        ("triton", problem("norm_chain"), "norm_chain has no implementation triton"),
        ("flash", problem("softmax"), "softmax has no implementation flash"),
        ("naive", ATTENTION, "attention has no implementation naive"),
        ("flash", {**ATTENTION, "dtype": "float32"}, "the backend flash is for 16-bit types"),
        ("cudnn", {**ATTENTION, "head_dim": 512}, "cudnn is for heads of at most 256 elements"),
        ("efficient", {**ATTENTION, "head_dim": 512}, None),
        ("flash", ATTENTION, None),
        ("functional", problem("softmax"), None),
    ],
)
def test_which_implementation_does_what(implementation, params, reason):
    found = space.check_cell({"implementation": implementation}, params)
    assert found == reason if reason is None else reason in found


def test_sizes_dtype_and_layout_have_defaults():
    assert space.sizes(problem("matmul_add")) == {"dim0": 3, "dim1": 5, "inner": 512}
    assert space.sizes(problem("conv_relu", batch=2)) == {
        "dim0": 3,
        "dim1": 5,
        "batch": 2,
        "channels": 32,
    }
    by_embedding = {"operator": "attention", "batch": 2, "seq_len": 16, "heads": 4, "embedding": 32}
    assert space.sizes(by_embedding) == space.sizes(ATTENTION)
    assert space.dtype_of(ATTENTION) == "float16"
    assert space.dtype_of(problem("softmax")) == "float32"
    assert space.layout_of(problem("bias_dropout_add")) == "contiguous"
    assert space.layout_of(problem("bias_dropout_add", layout="mixed")) == "mixed"


FILTERS = 32 * 32 * 9
PIXELS = 32 * 15
WORK = {
    # operator: operations (of products alone where it has some) and elements moved, of 3 x 5
    "pointwise_chain": (4 * 15, 2 * 15),
    "softmax": (5 * 15, 2 * 15),
    "double_softmax": (10 * 15, 2 * 15),
    "softmax_backward": (4 * 15, 3 * 15),
    "layer_norm": (8 * 15, 2 * 15 + 2 * 5),
    "norm_chain": (6 * 15, 2 * 15),
    "reduction_pointwise": (2 * 15, 2 * 15 + 3),
    "reduction_reduction": (2 * 15, 15 + 2 * 3),
    "matmul_add": (2 * 512 * 15, 512 * 3 + 512 * 5 + 2 * 15),
    "matmul_relu": (2 * 512 * 15, 512 * 3 + 512 * 5 + 15),
    "matmul_add_relu": (2 * 512 * 15, 512 * 3 + 512 * 5 + 2 * 15),
    "matmul_matmul": (2 * 3 * 512 * 5 + 2 * 3 * 5 * 512, 2 * 3 * 512 + 2 * 512 * 5),
    "conv_add": (2 * 32 * 9 * PIXELS, 3 * PIXELS + FILTERS),
    "conv_relu": (2 * 32 * 9 * PIXELS, 2 * PIXELS + FILTERS),
    "conv_batch_norm": (2 * 32 * 9 * PIXELS, 2 * PIXELS + FILTERS + 4 * 32),
    "bias_dropout_add": (2 * 15, 3 * 15 + 5),
    "bias_gelu": (10 * 15, 2 * 15 + 5),
    "fused_norm": (9 * 15, 3 * 15 + 2 * 5),
}


BESIDE = {
    "matmul_add": 15,
    "matmul_relu": 15,
    "matmul_add_relu": 30,
    "conv_add": PIXELS,
    "conv_relu": PIXELS,
    "conv_batch_norm": 2 * PIXELS,
}
"""Operations beside the products, of operators that have both."""


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name != "attention"])
def test_least_work_of_each_operator(operator):
    operations, elements = WORK[operator]
    assert space.total_flops(problem(operator)) == operations
    assert space.flops_beside_products(problem(operator)) == BESIDE.get(operator)
    assert space.least_bytes(problem(operator)) == 4 * elements


def test_least_work_of_attention():
    pairs = sum(row + 1 for row in range(16))  # what a causal mask leaves
    assert space.total_flops(ATTENTION) == 2 * 4 * 16**2 * 2 * 8
    assert space.flops_beside_products(ATTENTION) == 2 * 4 * pairs * 5
    assert space.least_bytes(ATTENTION) == 2 * 4 * (2 * 16 * 4 * 8)
    assert space.least_bytes({**ATTENTION, "dtype": "float32"}) == 4 * 4 * (2 * 16 * 4 * 8)


def test_the_largest_problem_of_the_grid_is_counted_exactly():
    largest = {"operator": "softmax", "dim0": 65536, "dim1": 65536}
    assert space.least_bytes(largest) == 2 * 4 * 2**32
    assert math.isfinite(space.total_flops(largest))
