"""Static facts, percentages and many problems in one number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.changes import across_problems, exact_change, point_change


def test_a_static_fact_changes_by_any_difference() -> None:
    change = exact_change(64, 65)
    assert (change.difference, change.ratio, change.changed) == (1, 65 / 64, True)
    assert exact_change(64, 64).changed is False


def test_what_is_not_known_did_not_change_nor_stay() -> None:
    for before, after in ((None, 64), (64, None), (float("nan"), 64)):
        change = exact_change(before, after)
        assert (change.difference, change.ratio, change.changed) == (None, None, None)


def test_from_zero_there_is_no_ratio() -> None:
    change = exact_change(0, 16)
    assert (change.difference, change.ratio, change.changed) == (16, None, True)
    assert exact_change(16, 0).ratio == 0


def test_percentages_change_in_points_against_their_own_floor() -> None:
    assert point_change(50.0, 53.0, 1.0).points == pytest.approx(3.0)
    assert point_change(50.0, 53.0, 1.0).beyond_floor is True
    assert point_change(50.0, 50.5, 1.0).beyond_floor is False
    assert point_change(53.0, 50.0, 1.0).beyond_floor is True
    assert point_change(50.0, 53.0).beyond_floor is None
    assert point_change(50.0, 53.0, float("nan")).beyond_floor is None
    assert point_change(None, 53.0, 1.0).beyond_floor is None


def rows(*values: tuple[str, str, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(
        values, columns=["variant", "problem", "ratio", "duration_ns", "baseline_ns"]
    )


def test_ratios_are_averaged_geometrically_with_the_worst_beside() -> None:
    found = across_problems(
        rows(("v", "small", 0.5, 5.0, 10.0), ("v", "large", 2.0, 2000.0, 1000.0))
    ).iloc[0]
    assert found["geomean_ratio"] == pytest.approx(1.0)
    assert (found["worst_ratio"], found["worst_problem"]) == (2.0, "large")
    assert found["total_ratio"] == pytest.approx(2005 / 1010)
    assert found["problems"] == 2


def test_only_problems_that_both_have() -> None:
    found = across_problems(
        rows(
            ("v", "a", 0.5, 5.0, 10.0),
            ("v", "b", np.nan, 7.0, np.nan),
            ("w", "a", np.nan, np.nan, 10.0),
            ("u", "a", 2.0, 20.0, 10.0),
        )
    )
    assert found["variant"].tolist() == ["v", "u"]
    assert found["problems"].tolist() == [1, 1]
    assert found["total_ratio"].tolist() == [0.5, 2.0]


def test_nothing_in_common_is_an_empty_table() -> None:
    assert across_problems(rows()).empty
