"""Ids and outcomes."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.model import Outcome, Problem, Variant, cell_id, slug

SAFE = re.compile(r"[A-Za-z0-9_.=-]+")
NAMES = st.text(min_size=1, max_size=120)


@pytest.mark.parametrize("name", ["warp-b128", "rows=2", "v1.0", "A_b", "-", "x" * 96])
def test_a_name_that_is_safe_stays(name):
    assert slug(name) == name


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("two words", "two_words-"),
        ("a/b", "a_b-"),
        ('quote"d', "quote_d-"),
        ("softmax<float, 4>", "softmax_float_4-"),
        ("naïve", "na_ve-"),
        ("日本", "-"),
        ("_hidden_", "hidden-"),
        ("x" * 97, "x" * 89 + "-"),
    ],
)
def test_a_name_that_is_not_gets_its_own_digits(name, start):
    assert re.fullmatch(re.escape(start) + "[0-9a-f]{6}", slug(name))


@given(NAMES)
def test_every_slug_is_safe_and_short_and_the_same_each_time(name):
    assert SAFE.fullmatch(slug(name))
    assert len(slug(name)) <= 96
    assert slug(name) == slug(name)


@given(st.lists(st.text(string.printable, min_size=1, max_size=8), unique=True, max_size=30))
def test_different_names_have_different_slugs(names):
    assert len({slug(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "names", [("a b", "a_b"), ("a/b", "a b"), ("x" * 200, "x" * 201), ("a", "a_"), ("ä", "ö")]
)
def test_names_that_look_alike_once_made_safe_stay_apart(names):
    assert len({slug(name) for name in names}) == 2


def test_a_slug_of_a_slug_is_itself():
    for name in ("two words", "x" * 200, "日本"):
        assert slug(slug(name)) == slug(name)


def test_a_cell_is_named_by_its_variant_and_problem():
    assert cell_id(Variant("warp-b128", "warp"), Problem("c=1024", "1024")) == "warp-b128..c=1024"


def test_only_what_the_cell_did_itself_is_its_failure():
    fine = {outcome for outcome in Outcome if not outcome.failed}
    assert fine == {Outcome.MEASURED, Outcome.DUPLICATE, Outcome.NOT_MEASURED}


def test_only_what_has_a_correct_and_measured_result_is_correct():
    correct = {outcome for outcome in Outcome if outcome.correct}
    assert correct == {Outcome.MEASURED, Outcome.DUPLICATE}
