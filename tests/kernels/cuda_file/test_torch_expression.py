import pytest
import torch

from profiler.kernels.arithmetic import ExpressionError
from profiler.kernels.cuda_file import torch_syntax
from profiler.kernels.cuda_file.torch_expression import compiled
from profiler.kernels.cuda_file.torch_syntax import parse_torch

X = torch.arange(12, dtype=torch.float64).reshape(3, 4) - 5
VALUES = {"x": X, "bias": torch.ones(4, dtype=torch.float64), "scale": 2.5, "n": 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.T", X.T),
        ("x.T.contiguous()", X.T),
        ("softmax(x, dim=-1)", torch.softmax(X, -1)),
        ("torch.softmax(x, dim=1)", torch.softmax(X, 1)),
        ("F.silu(x) * scale", torch.nn.functional.silu(X) * 2.5),
        ("x @ x.mT + 1", X @ X.mT + 1),
        ("x[1:n, ::2] ** 2", X[1:3, ::2] ** 2),
        ("x[-1]", X[-1]),
        ("x.sum(dim=(0, 1), keepdim=True)", X.sum(dim=(0, 1), keepdim=True)),
        ("where(x > 0, x, -x)", X.abs()),
        ("x.max(dim=1).values", X.max(1).values),
        ("~(x < 0)", X >= 0),
        ("x.float()", X.float()),
        ("zeros_like(x, dtype=torch.int32)", torch.zeros(3, 4, dtype=torch.int32)),
        ("x.reshape(x.shape[1], n) if n == 3 else x", X.reshape(4, 3)),
        ("einsum('rc,c->r', x, bias)", X.sum(1)),
    ],
)
def test_values(text, expected):
    value = compiled(parse_torch(text))(VALUES)
    assert value.dtype == expected.dtype
    assert torch.equal(value, expected)


def test_several_outputs_are_a_tuple():
    first, second = compiled(parse_torch("x + 1, x.T"))(VALUES)
    assert torch.equal(first, X + 1)
    assert torch.equal(second, X.T)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x.T.", "is no expression"),
        ("sofmax(x)", "no function 'sofmax' in expressions; did you mean 'softmax'?"),
        ("x.tranpose(0, 1)", "no method 'tranpose' in expressions; did you mean 'transpose'?"),
        ("torch.load('x')", "no function 'load'"),
        ("torch.nn.functional.load(x)", "no function 'load'"),
        ("F.conv9(x)", "no function 'conv9'"),
        ("torch.cuda.synchronize()", "no method 'synchronize'"),
        ("x.__class__", "no attribute '__class__'"),
        ("x.data", "no attribute 'data'"),
        ("x.add_(1)", "no method 'add_'"),
        ("x.relu_()", "no method 'relu_'"),
        ("add(x, x, out=x)", "no function 'add'"),
        ("mul(x, x, out=x)", "this argument is not allowed"),
        ("mul(*x)", "not allowed"),
        ("[y for y in x]", "not allowed"),
        ("(lambda: x)()", "calls no function"),
        ("open('x')", "no function 'open'"),
        ("f'{x}'", "not allowed"),
        ("x + 1j", "is no number"),
        ("(x := 1)", "not allowed"),
        ("1 < x < 2", "compare two values"),
        ("x is bias", "compare two values"),
    ],
)
def test_what_is_not_listed_is_refused(text, message):
    with pytest.raises(ExpressionError) as raised:
        parse_torch(text)
    assert message in str(raised.value)


def test_names_and_values_that_are_missing_are_named():
    assert parse_torch("where(x > n, x, bias)").names == {"x", "n", "bias"}
    with pytest.raises(ExpressionError, match="there is no 'bais'; did you mean 'bias'"):
        compiled(parse_torch("x + bais"))(VALUES)
    with pytest.raises(ExpressionError, match=r"\.exp\(\) is no method of float"):
        compiled(parse_torch("scale.exp()"))(VALUES)


def test_all_that_is_listed_exists():
    for name in torch_syntax.FUNCTIONS:
        assert callable(getattr(torch, name)), name
    for name in torch_syntax.NEURAL:
        assert callable(getattr(torch.nn.functional, name)), name
    for name in (*torch_syntax.METHODS, *torch_syntax.ATTRIBUTES - {"values", "indices"}):
        assert hasattr(torch.Tensor, name), name


def test_sums_by_key_and_what_is_made_lies_where_the_tensors_do():
    x, keys = torch.ones(6), torch.tensor([0, 2, 2, 1, 2, 0], dtype=torch.int32)
    values = {"x": x, "keys": keys, "bins": 4}
    for text in (
        "bincount(keys, minlength=bins)",
        "zeros(bins).scatter_add(0, keys.long(), x)",
        "zeros(bins).index_add(0, keys, x)",
        "(arange(bins)[:, None] == keys).sum(1)",
        "segment_reduce(x, 'sum', lengths=bincount(keys, minlength=bins))",
    ):
        assert compiled(parse_torch(text))(values).tolist() == [2, 1, 3, 0]
    meta = compiled(parse_torch("zeros(bins)"))({"x": x.to("meta"), "bins": 4})
    assert meta.device.type == "meta"
