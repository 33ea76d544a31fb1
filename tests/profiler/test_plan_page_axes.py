"""Axes of a grid page in an experiment file: found, refused with a suggestion."""

import pytest

from profiler.errors import SpecError
from profiler.planning.plan import make_plan
from profiler.planning.space import Space
from profiler.planning.spec import load_spec

HEAD = "name: x\nworkload: ./workload.py\nvariants: {list: [a]}\n"
PROBLEMS = "problems: {matrix: {operator: [add, mul], dim0: [1, 2], dim1: [1, 2]}}\n"


def read(folder, page):
    path = folder / "spec.yaml"
    path.write_text(f"{HEAD}{PROBLEMS}page: {page}\n", encoding="utf-8")
    loaded = load_spec(path)
    make_plan(loaded, Space())
    return loaded.experiment


def test_axes_and_split_are_parameters_of_problems(tmp_path):
    page = read(tmp_path, "{kind: grid, axes: [dim1, dim0], split: operator}").page
    assert page.axes == ("dim1", "dim0")
    assert page.split == ("operator",)
    assert read(tmp_path, "{weights: dim0}").page.weights == "dim0"


def test_a_grid_needs_neither(tmp_path):
    page = read(tmp_path, "{kind: grid}").page
    assert (page.axes, page.split) == ((), ())


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (
            "{axes: [dim0, dim2]}",
            r"page\.axes\[1\]: no problem has a parameter 'dim2'; did you mean 'dim\d'\?",
        ),
        (
            "{split: operater}",
            r"page\.split: no problem has a parameter 'operater'; did you mean 'operator'\?",
        ),
        ("{axes: [dim0]}", "name two parameters"),
        ("{axes: dim0}", "name two parameters"),
        ("{axes: [dim0, dim0]}", "is in the list twice"),
        ("{axes: [dim0, dim1], split: dim1}", "'dim1' is an axis already"),
        ("{kind: gird}", "grid"),
        ("{weights: dim2}", r"page\.weights: no problem has a parameter 'dim2'; did you mean 'dim"),
        ("{weights: operator}", "'operator' is add at problem '.*', no number of calls"),
    ],
)
def test_wrong_axes_are_refused(tmp_path, page, words):
    with pytest.raises(SpecError, match=words):
        read(tmp_path, page)


def test_three_axes_are_too_many(tmp_path):
    with pytest.raises(SpecError, match=r"page\.axes"):
        read(tmp_path, "{axes: [dim0, dim1, operator]}")
