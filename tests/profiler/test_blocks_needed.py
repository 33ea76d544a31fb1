"""How many blocks a verdict needs, against the tests themselves."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.verdicts import compare
from profiler.model import Cell, Plan, Problem, Variant, Verdict
from profiler.notices import NoticeKind, remedy, text
from profiler.planning.readiness import blocks_needed, few_blocks_notice


@pytest.mark.parametrize(("comparisons", "looks"), [(1, 1), (2, 1), (1, 3), (7, 1), (80, 3)])
def test_so_many_blocks_decide_and_one_less_does_not(comparisons, looks):
    def verdict(blocks):
        rows = np.zeros((comparisons, blocks)) + np.linspace(-1e-4, 1e-4, blocks)
        rows[0] += 0.02  # beyond the margin, and not overwhelming
        frame = pd.DataFrame(
            {
                "pair": np.repeat(np.arange(comparisons), blocks),
                "log_ratio": rows.ravel(),
            }
        )
        pairs = pd.DataFrame(index=range(comparisons))
        return compare(frame, pairs, looks=looks).loc[0, "verdict"]

    needed = blocks_needed(comparisons, looks)
    assert verdict(needed) == Verdict.SLOWER
    assert verdict(needed - 1) == Verdict.UNCLEAR


def planned(versions, *, looks=(6,), baseline="v0"):
    cells = tuple(
        Cell(f"v{number}.p{problem}", Variant(f"v{number}", "v"), Problem(f"p{problem}", "p"))
        for problem in range(6)
        for number in range(versions)
    )
    return Plan("x", 1, cells, (), (), baseline=baseline, looks=looks)


def test_six_blocks_of_three_versions_say_that_they_may_give_no_verdict():
    notice = few_blocks_notice(planned(3))
    assert notice.kind is NoticeKind.FEW_BLOCKS_FOR_FAMILY
    assert text(notice) == (
        "6 blocks give no verdict where one of 2 variants alone differs from the baseline, unless "
        "by more than three times the margin: the smallest p value of their ranks, adjusted for 2 "
        "comparisons, is 0.031, and one look asks for less than 0.025. 7 blocks can."
    )
    assert remedy(notice) == "Raise collect.blocks or pass --blocks 7."


@pytest.mark.parametrize(
    "plan",
    [
        planned(2),
        planned(3, looks=(7,)),
        planned(80, looks=(8, 16, 32)),
        planned(1),
        planned(3, baseline=None),
        planned(3, looks=()),
    ],
)
def test_enough_blocks_are_not_mentioned(plan):
    assert few_blocks_notice(plan) is None


def test_fewer_blocks_than_any_verdict_needs_are_named_with_the_number_that_is_enough():
    notice = few_blocks_notice(planned(3, looks=(3,)))
    assert notice.kind is NoticeKind.FEW_BLOCKS
    assert notice.values == {"blocks": 3, "needed": 7}
