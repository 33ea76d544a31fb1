import pytest
import torch
from fusion_cases import SMALL, as_tuple, excess, prepared

from fusion import eager, references, triton_launch, workload
from fusion.launches import fresh
from fusion.operators import OPERATORS, SOFTMAX_FORMS

CPU = torch.device("cpu")


def expected_of(problem):
    inputs = workload.make_inputs(problem, CPU, seed=1)
    wanted, _ = workload.expected({}, problem, inputs)
    arguments = [each.double() for each in inputs.arguments]
    return wanted, arguments


def close(got, formula):
    torch.testing.assert_close(got.double(), formula, rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("operator", OPERATORS)
def test_eager_code_is_right(operator):
    problem = SMALL[operator]
    launch, variant, inputs = prepared("eager", problem, CPU)
    assert excess(launch, variant, problem, inputs) < 1


def test_compiling_often_never_falls_back():
    """Each cell is compiled as if it were the first: dynamo gives up on code, not on functions."""
    code = []
    # Not by monkeypatch: when it undoes that, torch's setting is gone for every later test.
    with torch._dynamo.config.patch(recompile_limit=1):
        for rows in (3, 4, 5):
            x = torch.randn(rows, 8)
            copy = fresh(eager.pointwise_chain)
            code.append(copy.__code__)
            compiled = torch.compile(copy, backend="eager", fullgraph=True, dynamic=False)
            torch.testing.assert_close(compiled(x), eager.pointwise_chain(x))
    assert len({id(each) for each in code}) == 3


def test_only_plain_functions_are_copied():
    with pytest.raises(TypeError, match="plain function"):
        fresh(torch.nn.Softmax(dim=1))


@pytest.mark.parametrize("form", SOFTMAX_FORMS)
def test_forms_of_softmax_are_right(form):
    problem = SMALL["softmax"]
    launch, variant, inputs = prepared(form, problem, CPU)
    assert excess(launch, variant, problem, inputs) < 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_flash_attention_is_right(dtype):
    problem = {**SMALL["attention"], "dtype": dtype}
    launch, variant, inputs = prepared("flash", problem, CPU)
    assert launch().shape == (2, 48, 3, 16)
    assert excess(launch, variant, problem, inputs) < 1


@pytest.mark.parametrize("layout", OPERATORS["bias_dropout_add"].layouts)
@pytest.mark.parametrize("dtype", OPERATORS["bias_dropout_add"].dtypes)
def test_layouts_hold_the_same_kind_of_problem(layout, dtype):
    problem = {**SMALL["bias_dropout_add"], "layout": layout, "dtype": dtype}
    launch, variant, inputs = prepared("eager", problem, CPU)
    assert [each.shape for each in inputs.arguments] == [(37, 50), (37, 50), (50,)]
    assert excess(launch, variant, problem, inputs) < 1


def test_how_layouts_lie_in_memory():
    strides = {}
    for layout in OPERATORS["bias_dropout_add"].layouts:
        problem = {"operator": "bias_dropout_add", "dim0": 4, "dim1": 8, "layout": layout}
        made = workload.make_inputs(problem, CPU, seed=1)
        strides[layout] = [each.stride() for each in made.split]
    assert strides == {
        "contiguous": [(8, 1), (8, 1)],
        "transposed": [(1, 4), (1, 4)],
        "mixed": [(8, 1), (1, 4)],
        "strided": [(16, 2), (16, 2)],
        "padded": [(72, 1), (72, 1)],
    }


def test_the_seed_decides_the_inputs():
    first, again, other = (
        workload.make_inputs(SMALL["fused_norm"], CPU, seed).arguments for seed in (1, 1, 2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_launches_change_no_input():
    for problem in SMALL.values():
        launch, _, inputs = prepared("eager", problem, CPU)
        before = [each.clone() for each in inputs.arguments]
        launch()
        assert all(torch.equal(a, b) for a, b in zip(before, inputs.arguments, strict=True))


# ---- what the references are, by formulas of their own -------------------------------------------


def test_references_of_pointwise_and_reductions():
    (got,), (x,) = expected_of(SMALL["pointwise_chain"])
    close(got, x * x.cos() + torch.where(x * x.cos() > x.cos(), x * x.cos(), x.cos()))
    (got,), (x,) = expected_of(SMALL["softmax"])
    close(got, x.exp() / x.exp().sum(1, keepdim=True))
    (got,), (x,) = expected_of(SMALL["double_softmax"])
    once = x.exp() / x.exp().sum(1, keepdim=True)
    close(got, once.exp() / once.exp().sum(1, keepdim=True))
    (got,), (gradient, output) = expected_of(SMALL["softmax_backward"])
    close(got, output * (gradient - (gradient * output).sum(1, keepdim=True)))
    (got,), (x,) = expected_of(SMALL["norm_chain"])
    close(got, x * x.sum(1, keepdim=True) ** 7)
    sums, cosines = expected_of(SMALL["reduction_pointwise"])[0]
    x = expected_of(SMALL["reduction_pointwise"])[1][0]
    close(sums, x.sum(1))
    close(cosines, x.cos())
    (sums, largest), (x,) = expected_of(SMALL["reduction_reduction"])
    close(sums, x.sum(1))
    close(largest, x.max(1).values)


def norm(x, weight, bias):
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred**2).mean(1, keepdim=True) + 1e-5).sqrt() * weight + bias


def test_references_of_norms_and_biases():
    (got,), arguments = expected_of(SMALL["layer_norm"])
    close(got, norm(*arguments))
    (got,), (x, residual, weight, bias) = expected_of(SMALL["fused_norm"])
    close(got, norm(x + residual, weight, bias))
    (got,), (x, residual, bias) = expected_of(SMALL["bias_dropout_add"])
    close(got, x + bias + residual)
    (got,), (x, bias) = expected_of(SMALL["bias_gelu"])
    close(got, torch.nn.functional.gelu(x + bias, approximate="tanh"))


def test_references_of_products():
    (got,), (x, addend, weight) = expected_of(SMALL["matmul_add"])
    close(got, x.matmul(weight) + addend)
    (got,), (x, weight) = expected_of(SMALL["matmul_relu"])
    close(got, x.matmul(weight).clamp(min=0))
    (got,), (x, addend, weight) = expected_of(SMALL["matmul_add_relu"])
    close(got, (x.matmul(weight) + addend).clamp(min=0))
    (got,), (x, first, second) = expected_of(SMALL["matmul_matmul"])
    close(got, x.matmul(first.matmul(second)))


def convolution(x, filters):
    rows, columns = x.shape[2:]
    patches = torch.nn.functional.unfold(x, 3, padding=1)
    return (filters.flatten(1) @ patches).view(len(x), -1, rows, columns)


def test_references_of_convolutions():
    (got,), (x, addend, filters) = expected_of(SMALL["conv_add"])
    close(got, convolution(x, filters) + addend)
    (got,), (x, filters) = expected_of(SMALL["conv_relu"])
    close(got, convolution(x, filters).clamp(min=0))
    (got,), (x, filters, *statistics) = expected_of(SMALL["conv_batch_norm"])
    mean, variance, weight, bias = (each.view(-1, 1, 1) for each in statistics)
    close(got, (convolution(x, filters) - mean) / (variance + 1e-5).sqrt() * weight + bias)


def test_reference_of_attention():
    problem = {**SMALL["attention"], "dtype": "float32"}
    (got,), (query, key, value, _) = expected_of(problem)
    heads = [each.transpose(1, 2) for each in (query, key, value)]
    right = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
    close(got, right.transpose(1, 2))


@pytest.mark.parametrize("operator", OPERATORS)
def test_references_do_not_depend_on_their_parts(operator, monkeypatch):
    whole, _ = expected_of(SMALL[operator])
    monkeypatch.setattr(references, "_PART_ELEMENTS", 512 * 5)
    monkeypatch.setattr(references, "_SCORE_ELEMENTS", 48 * 48)
    in_parts, _ = expected_of(SMALL[operator])
    for one, other in zip(whole, in_parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_a_small_reference_is_made_once_and_a_large_one_is_not_kept(monkeypatch):
    problem = SMALL["softmax"]
    inputs = workload.make_inputs(problem, CPU, seed=1)
    first = workload.expected({}, problem, inputs)
    assert workload.expected({}, problem, inputs) is first
    monkeypatch.setattr(references, "_KEPT_BYTES", 16)
    inputs = workload.make_inputs(problem, CPU, seed=1)
    workload.expected({}, problem, inputs)
    assert inputs.results == {}


# ---- that the bounds find what is wrong ----------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("size", [50, 4096])
def test_bounds_catch_zeros_and_a_lost_element(operator, size):
    problem = dict(SMALL[operator])
    if "dim1" in problem and not operator.startswith("conv_"):
        problem |= {"dim0": 4, "dim1": size}
    launch, variant, inputs = prepared("eager", problem, CPU)
    right = as_tuple(launch())
    for place, output in enumerate(right):
        zeroed = (*right[:place], torch.zeros_like(output), *right[place + 1 :])
        assert excess(lambda got=zeroed: got, variant, problem, inputs) > 1
        scaled = (*right[:place], output * 1.1, *right[place + 1 :])
        assert excess(lambda got=scaled: got, variant, problem, inputs) > 1


def test_bounds_catch_a_softmax_gradient_without_its_sum():
    problem = {"operator": "softmax_backward", "dim0": 4, "dim1": 4096}
    inputs = workload.make_inputs(problem, CPU, seed=1)
    gradient, output = inputs.arguments
    wrong = output * gradient
    assert excess(lambda: wrong, {}, problem, inputs) > 1


# ---- what is refused -----------------------------------------------------------------------------


def test_a_cell_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="norm_chain has no implementation triton"):
        prepared("triton", SMALL["norm_chain"], CPU)


def test_triton_says_what_it_lacks(monkeypatch):
    with pytest.raises(RuntimeError, match="made of CUDA kernels and cannot run on cpu"):
        prepared("triton", SMALL["softmax"], CPU)
    monkeypatch.setattr(triton_launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="needs the package triton, which is not installed"):
        triton_launch.require_triton(torch.device("cuda"))


def test_work_is_that_of_the_space():
    problem = {"operator": "bias_gelu", "dim0": 8, "dim1": 16}
    assert workload.flops(problem) == 10 * 8 * 16
    assert workload.bytes(problem) == 4 * (2 * 8 * 16 + 16)
