"""Gaussian process of a search, against the textbook's formulas; proposals that wait for values."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from profiler.search.gaussian_process import (
    GaussianProcess,
    _negative_log_posterior,
    standardised_logs,
)
from profiler.search.space import SearchSpace
from profiler.search.strategies import (
    MOST_OBSERVATIONS,
    ModelSearch,
    SearchHistory,
    log_expected_improvement,
)


def grid():
    return SearchSpace.of_configurations(
        [
            {"x": x, "width": width, "layout": layout}
            for x in range(6)
            for width in (32, 48, 64, 80, 96)
            for layout in ("row", "column", "tiled")
        ]
    )


def test_observations_added_one_by_one_are_those_of_a_new_start():
    space = grid()
    rng = np.random.default_rng(1)
    observed, candidates = np.split(rng.permutation(len(space)), [20])
    values = rng.normal(size=20)
    model = GaussianProcess(space)
    model.fit(observed, values)
    model.start(observed, candidates, 0)
    means, deviations = model.predict(values)
    model.start(observed[:5], candidates, 15)
    for configuration in observed[5:]:
        model.add(int(configuration))
    assert model.predict(values)[0] == pytest.approx(means)
    assert model.predict(values)[1] == pytest.approx(deviations)


def test_one_that_waits_for_its_value_moves_no_mean_and_shrinks_uncertainty():
    space = grid()
    observed, candidates = np.arange(0, 40, 4), np.arange(41, 90)
    values = np.linspace(-1, 1, 10)
    model = GaussianProcess(space)
    model.start(observed, candidates, 1)
    means, deviations = model.predict(values)
    model.add(42)
    waiting_means, waiting_deviations = model.predict(np.append(values, np.nan))
    assert waiting_means == pytest.approx(means)
    assert (waiting_deviations < deviations).any()
    assert (waiting_deviations <= deviations + 1e-12).all()


def test_the_gradient_of_the_fit_is_that_of_its_value():
    rng = np.random.default_rng(2)
    rows = rng.random((12, 3))
    squares = ((rows[:, None] - rows[None]) ** 2).transpose(2, 0, 1).reshape(3, -1)
    values = rng.normal(size=12)
    logs = rng.normal(0, 0.5, 5)
    numeric = approx_fprime(logs, lambda at: _negative_log_posterior(at, squares, values)[0], 1e-6)
    gradient = _negative_log_posterior(logs, squares, values)[1]
    assert gradient == pytest.approx(numeric, rel=1e-3, abs=1e-4)


def test_a_configuration_beside_measured_ones_stays_uncertain():
    """By the nugget: else an optimum with slow neighbours is never tried."""
    space = grid()
    observed = np.delete(np.arange(len(space)), 40)
    model = GaussianProcess(space)
    model.start(observed, np.array([40]), 0)
    _, deviations = model.predict(np.zeros(len(observed)))
    assert deviations[0] > 0.4


def test_expected_improvement_is_that_of_a_normal_value_and_ranks_hopeless_ones():
    z = np.array([-4.9, -2.0, 0.0, 1.5])
    exact = np.log(norm.pdf(z) + z * norm.cdf(z))
    assert log_expected_improvement(-z, np.ones(4), 0.0) == pytest.approx(exact, rel=1e-4)
    hopeless = log_expected_improvement(np.array([4.999, 5.001, 9.0, 60.0]), np.ones(4), 0.0)
    assert (np.diff(hopeless) < 0).all()
    assert hopeless[0] == pytest.approx(hopeless[1], abs=0.02)


def test_failed_ones_count_as_the_slowest():
    logs = standardised_logs(np.array([1.0, np.inf, 4.0, np.nan]))
    assert logs[1] == logs[2] > logs[0]
    assert np.isnan(logs[3])


def test_more_observations_than_the_model_takes_repeat_nothing():
    space = SearchSpace.of_configurations([{"x": x, "y": y} for x in range(30) for y in range(20)])
    history = SearchHistory(space)
    search = ModelSearch(history, np.random.default_rng(1))
    for configuration in range(0, 600, 2):
        history.tell(configuration, 1.0 + abs(configuration - 301))
    assert history.unseen_count == 300 > MOST_OBSERVATIONS
    proposals = []
    for _ in range(30):
        proposals.append(next(search))
        history.tell(proposals[-1], 1.0 + abs(proposals[-1] - 301))
    assert len(set(proposals)) == 30
    assert all(configuration % 2 for configuration in proposals)
    assert history.best == 301
