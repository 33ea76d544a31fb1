"""Cells that are the same program."""

from profiler.model import BuildResult, Cell, Problem, Variant, cell_id
from profiler.run_folder.load.outcomes import find_aliases


def make_cell(variant, problem="p"):
    first, second = Variant(variant, variant), Problem(problem, problem)
    return Cell(cell_id(first, second), first, second)


def build(variant, code, ok=True):
    return BuildResult(variant, ok=ok, code_hash="same", program=code)


def test_same_code_and_same_problem_are_aliases_of_the_first():
    cells = [make_cell(variant, problem) for problem in ("p", "q") for variant in ("a", "b", "c")]
    builds = [build("a", "1"), build("b", "1"), build("c", "1")]
    assert find_aliases(cells, builds) == {
        "b..p": "a..p",
        "c..p": "a..p",
        "b..q": "a..q",
        "c..q": "a..q",
    }


def test_the_first_is_the_first_that_the_problem_has():
    cells = [make_cell("b", "q"), make_cell("c", "q")]
    builds = [build("a", "1"), build("b", "1"), build("c", "1")]
    assert find_aliases(cells, builds) == {"c..q": "b..q"}


def test_what_differs_failed_or_was_not_built_is_no_alias():
    cells = [make_cell(variant) for variant in ("a", "b", "c", "d", "e", "f")]
    builds = [
        *(build("a", "1"), build("b", "2"), build("c", "1", ok=False)),
        *(build("d", None), build("e", None)),
    ]
    assert find_aliases(cells, builds) == {}
