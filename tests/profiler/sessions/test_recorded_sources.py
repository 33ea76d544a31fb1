"""What a function of a Python experiment is made of, and which edits change it."""

import ast

import pytest

from profiler.sessions.recorded_sources import function_sources

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


def test_a_function_has_what_it_uses_and_what_makes_its_inputs():
    found = sources(FILE)
    for name in NAMES:
        assert "def inputs(" in found[name]
        assert "def made(" in found[name]
        assert "set_float32_matmul_precision" in found[name]
        assert "def exact(" not in found[name]
        assert "e.run()" not in found[name]
    assert "def parts(" in found["split"]
    assert "SCALE = 2" in found["split"]
    assert "def parts(" not in found["plain"]
    assert "from helpers import kernel" in found["by_helper"]
    assert "helpers" not in found["plain"]
    assert "pieces=[2, 4]" not in found["split"], "a variant has its parameters as such"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("SCALE = 2", "SCALE = 3", {"split"}),
        ("part.sum()", "part.sum(0)", {"split"}),
        ("def plain(x):\n    return x.sum()", "def plain(x):\n    return x.sum(0)", {"plain"}),
        ("kernel(x)", "kernel(x, 1)", {"by_helper"}),
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
