"""Errors: one base, one exit code per family, and what to do."""

import pytest

from profiler import errors
from profiler.errors import (
    EnvironmentUnusable,
    ExitCode,
    Interrupted,
    ParseError,
    ProfilerError,
    SpecError,
    UsageError,
    nearest_file,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProfilerError, 1),
        (SpecError, 2),
        (UsageError, 2),
        (ParseError, 2),
        (EnvironmentUnusable, 3),
        (Interrupted, 130),
    ],
)
def test_exit_code_of_each_family(error, code):
    assert error("what happened").exit_code == code


def test_every_error_of_ours_is_caught_by_one_base():
    own = [each for each in vars(errors).values() if isinstance(each, type)]
    raised = [each for each in own if issubclass(each, Exception)]
    assert len(raised) == 6
    assert all(issubclass(each, ProfilerError) for each in raised)
    assert issubclass(ParseError, UsageError)


def test_exit_codes_are_those_of_the_documents():
    assert {code.name: int(code) for code in ExitCode} == {
        "COMPLETE": 0,
        "OWN_FAULT": 1,
        "BAD_USAGE": 2,
        "ENVIRONMENT": 3,
        "SOME_CELLS_FAILED": 4,
        "GATE_TRIPPED": 5,
        "INTERRUPTED": 130,
    }


def test_the_text_has_the_remedy_on_a_line_of_its_own():
    error = EnvironmentUnusable("ncu was not found", remedy="Install it.")
    assert str(error) == "ncu was not found\n  Remedy: Install it."
    assert (error.message, error.remedy) == ("ncu was not found", "Install it.")
    assert str(UsageError("no such file")) == "no such file"
    assert str(UsageError("no such file", remedy="")) == "no such file"


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("sofmax.yaml", "softmax.yaml"),
        ("fusion.yaml", "experiments/fusion.yaml"),
        ("fuson.yaml", "experiments/fusion.yaml"),
        ("experimnets/fusion.yaml", "experiments/fusion.yaml"),
        ("experiments/fusoin.yaml", "experiments/fusion.yaml"),
        ("nothing/like/it.yaml", None),
        ("xyz", None),
    ],
)
def test_a_file_that_is_not_there_has_a_nearest_one(tmp_path, given, near):
    (tmp_path / "experiments").mkdir()
    for name in ("softmax.yaml", "softmax.csv", "experiments/fusion.yaml"):
        (tmp_path / name).touch()
    hint = nearest_file(tmp_path / given)
    assert hint == ("" if near is None else f"; did you mean '{tmp_path / near}'?")
