import pytest

from mlp import space

ADAM = {"optimizer": "adam", "layers": 3, "width": 10, "batch": 4}
NONE = {**ADAM, "optimizer": "none"}


@pytest.mark.parametrize("implementation", ["eager", "compile", "graphs"])
def test_every_implementation_is_one(implementation):
    assert space.check_variant({"implementation": implementation}) is None
    assert space.variant_name({"implementation": implementation}) == implementation


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"implementation": "jit"}, "one of eager, compile, graphs, not 'jit'"),
        ({}, "not None"),
        ({"implementation": "eager", "mode": "default"}, "mode is no parameter"),
    ],
)
def test_anything_else_is_not(params, words):
    assert words in space.check_variant(params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"optimizer": "sgd"}, "one of none, adam, not 'sgd'"),
        ({}, "not None"),
        ({**ADAM, "depth": 2}, "depth is no size of the network"),
        ({**ADAM, "width": 0}, "width must be a positive whole number, not 0"),
        ({**ADAM, "layers": True}, "layers must be a positive whole number, not True"),
    ],
)
def test_what_is_no_problem_says_why(params, words):
    assert words in space.check_problem(params)
    with pytest.raises(ValueError, match=r"must be|is no"):
        space.sizes(params)


def test_sizes_have_defaults():
    assert space.sizes({"optimizer": "none"}) == {"layers": 8, "width": 1024, "batch": 128}
    assert space.sizes(ADAM) == {"layers": 3, "width": 10, "batch": 4}


def test_flops_are_those_of_the_products():
    # Three products forward, three for weights, two for inputs: 2 * 4 * 10 * 10 each.
    assert space.total_flops(ADAM) == 8 * 800
    assert space.total_flops(NONE) == space.total_flops(ADAM)


def test_bytes_are_the_least():
    parameters, data = 3 * 110, 2 * 40
    assert space.least_bytes(NONE) == 4 * (data + 2 * parameters)
    assert space.least_bytes(ADAM) == 4 * (data + 7 * parameters)


def test_a_compiled_step_without_kernels_of_inductor_fell_back():
    eager = ["void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernel>(int)"]
    own = ["triton_poi_fused_gelu_0", "sm90_xmma_gemm_f32f32"]
    variant = {"implementation": "compile"}
    reason = space.check_kernels(variant, ADAM, eager)
    assert "none is inductor's" in reason
    assert "vectorized_elementwise_kernel" in reason
    assert space.check_kernels(variant, ADAM, own) is None
    assert space.check_kernels({"implementation": "graphs"}, ADAM, eager) is None
