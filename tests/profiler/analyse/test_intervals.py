"""Bootstrap intervals: guarded, repeatable, independent of the rows beside them."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from profiler.analyse import intervals
from profiler.analyse.intervals import median_intervals

GENERATOR = np.random.default_rng(7)


def test_fewer_than_three_values_have_no_interval():
    for n in (1, 2):
        low, high = median_intervals(np.ones((4, n)))
        assert np.isnan(low).all()
        assert np.isnan(high).all()


def test_equal_values_are_their_own_interval():
    low, high = median_intervals(np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]]))
    assert (low[0], high[0]) == (2.0, 2.0)
    assert low[1] < high[1]


def places_of_resamples(n):
    """Places of the values of each resample of n values."""
    generator = np.random.default_rng(intervals.SEED)
    return generator.integers(0, n, (intervals.RESAMPLES, n))


@pytest.mark.parametrize("n", range(3, 27))
def test_every_resample_has_its_median(n):
    rows = GENERATOR.integers(0, n, size=(3, n)).astype(float)  # with equal values
    resamples = rows[:, places_of_resamples(n)]
    assert np.array_equal(intervals.resampled_medians(rows), np.median(resamples, axis=-1))


@pytest.mark.parametrize("n", [3, 4, 8, 16])
def test_rows_agree_with_scipy_one_at_a_time(n):
    rows = GENERATOR.lognormal(size=(5, n))
    low, high = median_intervals(rows)
    for index, row in enumerate(rows):
        alone = stats.bootstrap(
            (row,),
            np.median,
            n_resamples=intervals.RESAMPLES,
            random_state=np.random.default_rng(intervals.SEED),
        ).confidence_interval
        if np.isfinite(alone.low):
            assert (low[index], high[index]) == pytest.approx((alone.low, alone.high))


def test_an_outlier_that_never_moves_the_median_still_leaves_an_interval():
    low, high = median_intervals(np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 9.0]]))
    assert low[0] == 1.0
    assert 1.0 <= high[0] <= 9.0


def test_many_rows_are_answered_like_few(monkeypatch):
    rows = GENERATOR.normal(size=(7, 6))
    whole = median_intervals(rows)
    monkeypatch.setattr(intervals, "_CHUNK_VALUES", 16)
    assert np.array_equal(whole, median_intervals(rows))


@example([1.0, *[954781772.71639] * 3, 954781773.0, *[954781772.71639] * 2])
@given(st.lists(st.floats(1e-3, 1e9), min_size=3, max_size=12))
def test_an_interval_lies_within_the_data_around_its_median(values):
    low, high = median_intervals(np.array([values]))
    assert min(values) <= low[0] <= high[0] <= max(values)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    rows = GENERATOR.normal(10.0, 1.0, size=(400, 16))
    low, high = median_intervals(rows)
    covered = ((low <= 10.0) & (high >= 10.0)).mean()
    assert 0.88 <= covered <= 0.99


def test_medians_of_long_rows_are_drawn_as_resampling_gives_them():
    for n in (301, 302):
        rows = GENERATOR.lognormal(size=(1, n))
        drawn, resampled = intervals.drawn_medians(rows), intervals.resampled_medians(rows)
        assert stats.ks_2samp(drawn[0], resampled[0]).pvalue > 0.001


def test_resamples_of_long_rows_are_the_same_in_parts(monkeypatch):
    rows = GENERATOR.normal(size=(2, 200))
    wanted = np.median(rows[:, places_of_resamples(200)], axis=-1)
    monkeypatch.setattr(intervals, "_VALUES_AT_ONCE", 10_000)
    assert np.array_equal(intervals.resampled_medians(rows), wanted)


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=30))
def test_a_median_without_one_value_is_that_of_the_others(values):
    wanted = [np.median(np.delete(values, place)) for place in range(len(values))]
    assert intervals._medians_without_one(np.array([values])).tolist() == [wanted]


def test_an_interval_of_many_values_takes_memory_by_their_number():
    rows = GENERATOR.normal(size=(1, 20_000))
    tracemalloc.start()
    try:
        low, high = median_intervals(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert low[0] < np.median(rows) < high[0]
    assert peak < 100 * rows.nbytes
