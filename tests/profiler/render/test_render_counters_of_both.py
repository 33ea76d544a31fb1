"""How counters of both cells of a pair read: in a table of the page, in a clause of the text."""

import pytest
from explained_runs import answer_pair, softmax_findings, with_verdict

from profiler.findings.why.counters import COUNTERS, GROUPS
from profiler.model import Verdict
from profiler.render.console.explain import explain_text
from profiler.render.words import counters


@pytest.fixture(scope="module")
def findings():
    return softmax_findings()


@pytest.fixture(scope="module")
def pair(findings):
    return answer_pair(findings)


def test_every_counter_and_every_part_has_words():
    assert tuple(counters.NAMES) == COUNTERS
    assert tuple(counters.GROUPS) == GROUPS


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNCLEAR])
def test_nothing_moved_where_no_difference_is_shown(findings, pair, verdict):
    same = with_verdict(pair, verdict)
    assert same.counters == ()
    assert "moved: " not in explain_text(findings, same.cell, same.first, same)
