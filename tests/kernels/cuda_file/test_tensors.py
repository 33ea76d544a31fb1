import math

import pytest
import torch

from profiler.kernels.arithmetic import SIZES, ExpressionError
from profiler.kernels.cuda_file.description import FILLS, read_description
from profiler.kernels.cuda_file.workload import filled_name, make_tensors, readable

CPU = torch.device("cpu")


def description(**arguments):
    usual = {"shape": ["n", "4"], "dtype": "float32", "fill": None}
    complete = {
        name: {**usual, "output": False, "scratch": False, "pointers": False, **argument}
        for name, argument in arguments.items()
    }
    unsaid = (
        "source",
        "kernel",
        "function",
        "launches",
        "grid",
        "block",
        "define",
        "flops",
        "bytes",
    )
    rest = dict.fromkeys(unsaid)
    return read_description(
        {"base": "/", "arguments": complete, "reference": "x", "shared": "0", "cooperative": False}
        | rest
    )


def made(dtype="float16", *, seed=0, **arguments):
    return make_tensors(description(**arguments), {"n": 500, "dtype": dtype}, CPU, seed)


@pytest.mark.parametrize("dtype", SIZES)
def test_every_dtype_can_be_filled(dtype):
    lacking = {} if "float" in dtype else dict.fromkeys(("normal", "uniform"), "random reals")
    if "float" not in dtype or dtype == "float8_e4m3fn":
        lacking |= dict.fromkeys(("inf", "-inf"), "infinity")
    for fill in (None, *FILLS, 0.5):
        if fill in lacking:
            with pytest.raises(ExpressionError, match=f"{dtype} has no {lacking[fill]}"):
                made(dtype, x={"dtype": "dtype", "fill": fill})
            continue
        x = made(dtype, x={"dtype": "dtype", "fill": fill, "shape": ["n"]})["x"]
        assert x.shape == (500,)
        assert str(x.dtype) == f"torch.{dtype}"
        assert x.element_size() == SIZES[dtype]


def test_fills_are_what_they_say():
    tensors = made(
        a={},
        b={"fill": {"normal": [3, 0.5]}},
        c={"fill": {"uniform": [-1, 1]}},
        d={"fill": {"integers": [5, "n // 71"]}, "dtype": "int32"},
        e={"fill": "arange"},
        f={"dtype": "int64"},
        g={"fill": -2.5, "dtype": "dtype"},
        h={"fill": "-inf"},
    )
    assert abs(tensors["a"].mean()) < 0.1
    assert abs(tensors["a"].std() - 1) < 0.1
    assert abs(tensors["b"].mean() - 3) < 0.1
    assert abs(tensors["b"].std() - 0.5) < 0.1
    assert -1 <= tensors["c"].min() < -0.9
    assert 0.9 < tensors["c"].max() <= 1
    assert set(tensors["d"].unique().tolist()) == {5, 6}
    assert torch.equal(tensors["e"].flatten(), torch.arange(2000.0))
    assert 0 <= tensors["f"].min() < tensors["f"].max() < 100
    assert tensors["g"].dtype == torch.float16
    assert (tensors["g"] == -2.5).all()
    assert (tensors["h"] == -math.inf).all()


def test_the_same_seed_gives_the_same_tensors():
    first, again, other = (made(seed=seed, x={}, y={}) for seed in (1, 1, 2))
    assert torch.equal(first["x"], again["x"])
    assert torch.equal(first["y"], again["y"])
    assert not torch.equal(first["x"], other["x"])
    assert not torch.equal(first["x"], first["y"])


def test_results_are_made_from_inputs_and_from_what_outputs_were_filled_with():
    arguments = {
        "x": {},
        "out": {"output": True},
        "total": {"output": True, "fill": "zeros"},
        "state": {"output": True, "fill": "normal"},
    }
    tensors = made(**arguments)
    tensors["state"].zero_()
    known = readable(description(**arguments), tensors)
    assert known.keys() == {"x", "state"}
    assert known["state"] is tensors[filled_name("state")]
    assert known["state"].abs().sum() > 0
