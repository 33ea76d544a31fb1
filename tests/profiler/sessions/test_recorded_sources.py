"""What a function of a Python experiment is made of, and which edits change it."""

import ast

import pytest

from profiler.planning.function_sources import function_sources, measured_sources

FILE = '''
"""Sums."""
import torch
from profiler import Experiment
from helpers import kernel

e = Experiment("sums", problems={"n": [64]})
torch.set_float32_matmul_precision("high")
SCALE = 2


@e.inputs
def inputs(n, device):
    return made(n)


def made(n):
    return torch.randn(n)


@e.reference
def exact(x):
    return x.sum()


def parts(x):
    return x.chunk(SCALE)


@e.variant(baseline=True)
def plain(x):
    return x.sum()


@e.variant(pieces=[2, 4])
def split(x, pieces):
    """By parts."""
    return sum(part.sum() for part in parts(x))  # in Python


e.variant(name="by_helper")(lambda x: kernel(x))

if __name__ == "__main__":
    print(e.run())
'''
NAMES = ("plain", "split", "by_helper")


def sources(text):
    return function_sources(ast.parse(text), NAMES)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("SCALE = 2", "SCALE = 3", {"split"}),
        ("part.sum()", "part.sum(0)", {"split"}),
        ("def plain(x):\n    return x.sum()", "def plain(x):\n    return x.sum(0)", {"plain"}),
        ("x.chunk(SCALE)", "x.chunk(SCALE, 1)", {"split"}),
        ("kernel(x)", "kernel(x, 1)", {"by_helper"}),
        ("import kernel", "import other, kernel", {"by_helper"}),
        ("made(n)\n\n\ndef", "made(2 * n)\n\n\ndef", set(NAMES)),
        ("e.run()", "e.run(1)", set()),
        ("randn", "rand", set(NAMES)),
        ('"high"', '"medium"', set(NAMES)),
        ("[64]", "[128]", set()),
        ("[2, 4]", "[2, 8]", set()),
        ("  # in Python", "", set()),
        ("def exact(x):\n    return x.sum()", "def exact(x):\n    return x.sum(0)", set()),
    ],
)
def test_an_edit_changes_the_functions_that_use_it(before, after, changed):
    assert FILE.count(before) == 1
    old, new = sources(FILE), sources(FILE.replace(before, after))
    assert {name for name in NAMES if old[name] != new[name]} == changed


def test_a_function_that_is_not_found_has_the_whole_file():
    (source,) = function_sources(ast.parse(FILE), ["elsewhere"]).values()
    assert source == ast.unparse(ast.parse(FILE))


MEASURED = """
import os

import torch
import triton
from profiler import Experiment

e = Experiment("norms", problems={"n": [64]})
os.environ["TUNING"] = "0"
CONFIGS = [triton.Config({"BLOCK": 64})]
UNUSED = 1


def agrees(outputs, inputs, problem):
    return None


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def kernel(x):
    return x + 1


@torch.library.custom_op("mine::registered", mutates_args=())
def registered(x):
    return x + 2


@e.inputs
def inputs(n):
    return torch.randn(n)


@e.reference
def exact(x):
    return x.double()


@e.variant(baseline=True)
def eager(x):
    return x * 1


@e.variant(setup=True)
def own(x):
    return lambda: kernel[(1,)](x)


@e.variant(check=agrees)
def other(x):
    return torch.ops.mine.registered(x)
"""
MEASURED_NAMES = ("eager", "own", "other")


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("return x + 1", "return x + 3", {"own"}),
        ('"BLOCK": 64', '"BLOCK": 128', {"own"}),
        ("setup=True", "setup=False", {"own"}),
        ("return None", 'return "wrong"', {"other"}),
        ("UNUSED = 1", "UNUSED = 2", set()),
        ("def own(x):", "# a remark\ndef own(x):", set()),
        # What others are compared with, what makes their inputs, and what acts on import.
        ("x * 1", "x * 2", set(MEASURED_NAMES)),
        ("x.double()", "x", set(MEASURED_NAMES)),
        ("randn", "rand", set(MEASURED_NAMES)),
        ('= "0"', '= "1"', set(MEASURED_NAMES)),
        ("return x + 2", "return x + 4", set(MEASURED_NAMES)),
        ("import os\n", "import os\nimport json\n", set(MEASURED_NAMES)),
        ("UNUSED = 1", "torch.manual_seed(1)", set(MEASURED_NAMES)),
        ("UNUSED = 1", "for name in 'ab':\n    torch.tag(name)", set(MEASURED_NAMES)),
        ("UNUSED = 1", "LOADED = torch.load('x')", set(MEASURED_NAMES)),
        ("kernel[(1,)](x)", 'globals()["kernel"][(1,)](x)', set(MEASURED_NAMES)),
    ],
)
def test_an_edit_measures_the_functions_again_that_it_may_change(before, after, changed):
    assert MEASURED.count(before) == 1
    old, new = (
        measured_sources(ast.parse(text), MEASURED_NAMES)
        for text in (MEASURED, MEASURED.replace(before, after))
    )
    assert {name for name in MEASURED_NAMES if old[name] != new[name]} == changed
