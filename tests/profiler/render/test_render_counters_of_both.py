"""How counters of both cells of a pair read: in a table of the page, in a clause of the text."""

import dataclasses
import math
import re

import pytest
from explained_runs import answer_pair, softmax_findings, with_verdict

from profiler.findings.why.counters import COUNTERS, GROUPS, Amount, CounterOfBoth
from profiler.model import Verdict
from profiler.render.console.explain import explain_text
from profiler.render.tables import explained
from profiler.render.words import counters


@pytest.fixture(scope="module")
def findings():
    return softmax_findings()


@pytest.fixture(scope="module")
def pair(findings):
    return answer_pair(findings)


def plain(text):
    return re.sub(r"[\u202f\u00a0]", " ", text).replace("\u2212", "-")


def counter(first, second, *, weight=0.5):
    amounts = (Amount(first), Amount(second))
    return CounterOfBoth("dram_bytes", "waiting_for_memory", "byte", *amounts, weight)


def test_every_counter_and_every_part_has_words():
    assert tuple(counters.NAMES) == COUNTERS
    assert tuple(counters.GROUPS) == GROUPS


def test_what_only_one_has_is_no_ratio():
    assert explained._counter_ratio(counter(0.0, 5.0)).text == "only the second"
    assert explained._counter_ratio(counter(5.0, 0.0)).text == "only the first"
    tiny = explained._counter_ratio(counter(1.0, 1000.0)).text
    assert plain(tiny) == "1 000\u00d7 fewer"
    limit = dataclasses.replace(
        counter(math.nan, math.nan), first=Amount(math.nan, text="registers")
    )
    assert explained._counter_ratio(limit).raw is None


def test_what_explains_nothing_says_so_in_place_of_its_part():
    assert counters.group_words(counter(1.0, 2.0)) == "waiting for memory"
    assert counters.group_words(counter(1.0, 2.0, weight=0.001)) == "little of the work"
    assert counters.group_words(counter(1.0, 1.001)) == "the same"


def test_the_clause_names_three_of_each_part_that_moved():
    moved = [counter(2e6, 8e6)] * 4
    clauses = counters.moved_words([*moved, counter(1.0, 1.0)])
    assert [plain(clause) for clause in clauses] == ["bytes at DRAM 2.000 MB against 8.000 MB"] * 3


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNCLEAR])
def test_nothing_moved_where_no_difference_is_shown(findings, pair, verdict):
    same = with_verdict(pair, verdict)
    assert same.counters == ()
    assert "moved: " not in explain_text(findings, same.cell, same.first, same)
