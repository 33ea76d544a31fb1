"""Visits that took far longer than the others of their cell."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.summary import slow_visits, slow_visits_of_cell

GENERATOR = np.random.default_rng(3)


def core(cells, visits, scatter=0.005):
    """Durations around 1 ms with the skewed scatter of kernels: (cells, visits)."""
    return 1e6 * np.exp(GENERATOR.gamma(4, scatter / 2, (cells, visits)))


def test_a_second_mode_is_named_with_its_share_and_size():
    times = core(1, 32)[0]
    times[[3, 17, 30]] *= 1.3
    slow = slow_visits_of_cell(times)
    assert (slow.count, slow.visits) == (3, 32)
    assert slow.share == pytest.approx(3 / 32)
    assert slow.factor == pytest.approx(1.3, abs=0.02)
    assert slow.median == pytest.approx(1.008e6, rel=0.01)
    assert slow.p95 == pytest.approx(1.31e6, rel=0.02)


def test_one_visit_in_ten_that_takes_30_percent_longer_is_named_by_32_visits():
    times = core(500, 32)
    times *= np.where(GENERATOR.random(times.shape) < 0.1, 1.3, 1.0)
    assert np.mean([slow_visits_of_cell(row) is not None for row in times]) >= 0.9


@pytest.mark.parametrize("scatter", [0.0004, 0.005, 0.02])
@pytest.mark.parametrize("visits", [8, 32])
def test_unimodal_kernels_are_not_named(scatter, visits):
    assert (
        np.mean([slow_visits_of_cell(row) is not None for row in core(500, visits, scatter)])
        <= 0.01
    )


def test_one_slow_visit_of_many_is_left_unsaid():
    times = core(1, 64)[0]
    times[0] *= 1.5
    assert slow_visits_of_cell(times) is None
    assert slow_visits_of_cell(times[:32]).count == 1


def test_too_few_visits_tell_nothing():
    assert slow_visits_of_cell(np.array([1.0, 1.0, 1.0, 1.0, 9.0])) is None


def test_visits_are_those_of_each_cell_and_missing_durations_do_not_count():
    slow = core(1, 8)[0]
    slow[5] *= 1.4
    frame = pd.DataFrame(
        {"cell": ["a"] * 9 + ["b"] * 8, "duration_ns": [*slow, np.nan, *core(1, 8)[0]]}
    )
    assert {cell: (of.count, of.visits) for cell, of in slow_visits(frame).items()} == {"a": (1, 8)}
