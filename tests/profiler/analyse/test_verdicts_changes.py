"""Static facts before and after."""

from profiler.analyse.changes import exact_change


def test_a_static_fact_changes_by_any_difference():
    change = exact_change(64, 65)
    assert (change.difference, change.ratio, change.changed) == (1, 65 / 64, True)
    assert exact_change(64, 64).changed is False


def test_what_is_not_known_did_not_change_nor_stay():
    for before, after in ((None, 64), (64, None), (float("nan"), 64)):
        change = exact_change(before, after)
        assert (change.difference, change.ratio, change.changed) == (None, None, None)


def test_from_zero_there_is_no_ratio():
    change = exact_change(0, 16)
    assert (change.difference, change.ratio, change.changed) == (16, None, True)
    assert exact_change(16, 0).ratio == 0
