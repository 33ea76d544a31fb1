"""One answer to which problems a text means, for every option that takes one."""

import pytest

from profiler.errors import UsageError
from profiler.model import Cell, Plan, Problem, Variant, cell_id
from profiler.planning.cell_filter import problems_called, select_cells
from profiler.sessions.explain_cells import asked_cells


def made(**params):
    parts = [f"{key}={value}" for key, value in params.items()]
    return Problem(".".join(parts), ",".join(parts), params)


PROBLEMS = tuple(made(rows=rows, columns=columns) for rows in (64, 1024) for columns in (8, 16))
VARIANTS = tuple(Variant(name, name, {"warps": warps}) for name, warps in (("a", 4), ("b", 8)))
CELLS = tuple(
    Cell(cell_id(variant, problem), variant, problem)
    for problem in PROBLEMS
    for variant in VARIANTS
)
PLAN = Plan("x", 0, CELLS, (), ())

CALLED = [
    ("rows=64,columns=16", [1]),
    ("rows=64, columns=16", [1]),
    ("columns=16,rows=64", [1]),
    ("rows=64.columns=16", [1]),
    ("64 \u00d7 16", [1]),
    ("rows=64", [0, 1]),
    ("columns=8", [0, 2]),
    ("rows=65", []),
    ("rows", []),
    ("depth=1", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "places"), CALLED)
def test_a_problem_is_called_by_its_id_its_names_or_its_parameters(text, places):
    assert problems_called(PROBLEMS, text) == tuple(PROBLEMS[place] for place in places)


def test_a_name_of_the_spec_comes_before_parameters():
    named = (Problem("rows=64", "rows=64", {"rows": 8}), made(rows=64, columns=8))
    assert problems_called(named, "rows=64") == named[:1]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ("rows=64,columns=16", [1]),
        ("64 \u00d7 16", [1]),
        ("rows=64,columns=16,rows=1024,columns=8", [1, 2]),
        ("rows=64, rows=1024.columns=8", [0, 1, 2]),
    ],
)
def test_explain_takes_names_with_commas_and_several_of_them(asked, places):
    ids = {cell.problem.id for cell in asked_cells(PLAN, [asked])}
    assert ids == {PROBLEMS[place].id for place in places}
    one = f"{asked},{CELLS[-1].id}"
    assert CELLS[-1] in asked_cells(PLAN, [one])
    with pytest.raises(UsageError, match="no problem is called 'rows=65'"):
        asked_cells(PLAN, [f"{asked},rows=65"])


def test_two_problems_that_are_named_apart_are_not_joined_into_one():
    """Joined by a comma, both would be parameters of one problem."""
    of_two_names = asked_cells(PLAN, ["rows=64", "columns=16"])
    of_one_name = asked_cells(PLAN, ["rows=64,columns=16"])
    problems = [{cell.problem.id for cell in cells} for cells in (of_one_name, of_two_names)]
    assert problems[0] < problems[1]


@pytest.mark.parametrize(
    ("only", "places", "variants"),
    [
        ("problem=rows=64,columns=16", [1], "ab"),
        ("problem=64 \u00d7 16|64 \u00d7 8,variant=b", [0, 1], "b"),
        ("variant=a,problem=rows=1024,columns=8|rows=64,columns=16", [1, 2], "a"),
        ("problem=rows=64,columns=16|rows=1024.columns=8,warps=4", [1, 2], "a"),
        ("rows=64,columns=16", [1], "ab"),
    ],
)
def test_only_takes_the_same_names_after_problem(only, places, variants):
    wanted = {(PROBLEMS[place].id, variant) for place in places for variant in variants}
    found = {(cell.problem.id, cell.variant.id) for cell in select_cells(CELLS, only, None)}
    assert found == wanted


def test_only_leaves_values_alone_that_are_called_like_a_problem():
    """Pages call `operator=softmax,rows=8` softmax where every operator has one size."""
    problems = (made(operator="softmax", rows=8), made(operator="sum", columns=4))
    cells = [
        Cell(cell_id(variant, problem), variant, problem)
        for variant in VARIANTS
        for problem in problems
    ]
    for only in ("operator=softmax", "problem=softmax", "operator=softmax|max"):
        found = {cell.problem.id for cell in select_cells(cells, only, None)}
        assert found == {problems[0].id}
