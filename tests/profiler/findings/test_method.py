"""The funnel: what is left after each stage, in cells and in variants."""

import itertools
from types import SimpleNamespace

import pytest
from analyse_frames import make_cell
from hypothesis import given
from hypothesis import strategies as st

from profiler.findings.method import funnel, run_funnel
from profiler.model import CellStatus, Exclusion, Outcome

CELLS = [make_cell(variant, problem) for variant in "abcd" for problem in "pq"]


def of(*outcomes):
    pairs = zip(CELLS, outcomes, strict=False)
    statuses = {cell.id: CellStatus(cell.id, outcome) for cell, outcome in pairs}
    return {name: (variants, cells) for name, variants, cells in funnel(CELLS, statuses, ())}


@given(st.lists(st.sampled_from(list(Outcome)), max_size=len(CELLS)))
def test_nothing_comes_back(outcomes):
    counts = list(of(*outcomes).values())
    assert counts[0] == (4, 8)
    for before, after in itertools.pairwise(counts):
        assert after[0] <= before[0]
        assert after[1] <= before[1]
    assert counts[-1][1] == outcomes.count(Outcome.MEASURED)


def test_each_stage_loses_its_own():
    lost = (Outcome.COMPILE_FAILED,) * 2 + (Outcome.DUPLICATE,) * 2 + (Outcome.WRONG_RESULT,)
    assert of(*lost, Outcome.MEASURED, Outcome.TIMED_OUT, Outcome.MEASURED) == {
        "planned": (4, 8),
        "built": (3, 6),
        "distinct machine code": (2, 4),
        "right result, or not checked": (2, 3),
        "measured": (2, 2),
    }


def test_what_rules_left_out_comes_first():
    rules = [
        Exclusion("r", 172, "variant"),
        Exclusion("s", 3, "cell"),
        Exclusion("t", 9, "problem"),
    ]
    first, second, *_ = funnel(CELLS, {}, rules)
    assert first == ("possible", 176, 11)
    assert second == ("planned", 4, 8)


@pytest.mark.parametrize(("search", "first"), [(None, "possible"), ("a search", "planned")])
def test_finalists_do_not_add_up_with_what_rules_left_out(search, first):
    rules = (Exclusion("too large", 7, "variant"),)
    plan = SimpleNamespace(cells=CELLS, excluded=rules)
    stages = run_funnel(SimpleNamespace(plan=plan, statuses={}, search=search))
    assert stages[0][0] == first
