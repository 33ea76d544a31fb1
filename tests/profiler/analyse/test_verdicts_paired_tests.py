"""Signed ranks, noise floors and multiple comparisons: against scipy, and by known answers."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from profiler.analyse.intervals import RESAMPLES, SEED
from profiler.analyse.paired_tests import (
    adjust_families,
    detectable_effects,
    family_levels,
    margin_tests,
    median_floors,
    signed_rank_tails,
)

GENERATOR = np.random.default_rng(11)


@pytest.mark.parametrize("n", [1, 6, 8, 16, 33, 50, 60])
def test_rows_without_ties_have_the_p_values_of_wilcoxon_to_the_last_digit(n):
    rows = GENERATOR.normal(0.3, 1, size=(20, n)).round(8)
    for tail, alternative in zip(signed_rank_tails(rows), ("less", "greater"), strict=True):
        expected = stats.wilcoxon(rows, alternative=alternative, zero_method="pratt", axis=1)
        assert tail.tolist() == expected.pvalue.tolist()


@pytest.mark.parametrize("n", [6, 8, 10])
def test_rows_with_ties_and_zeros_agree_with_every_sign_flip(n):
    rows = GENERATOR.integers(-3, 4, size=(40, n)).astype(float)
    less, greater = signed_rank_tails(rows)
    signed = np.sign(rows) * stats.rankdata(np.abs(rows), axis=1)
    for tail, alternative in ((less, "less"), (greater, "greater")):
        reference = stats.permutation_test(
            (signed,),
            np.sum,
            permutation_type="samples",
            alternative=alternative,
            n_resamples=np.inf,
            axis=-1,
        ).pvalue
        np.testing.assert_allclose(tail, reference)


def test_a_constant_row_is_as_far_from_zero_as_its_length_can_show():
    for n in (6, 8, 32):
        less, greater = signed_rank_tails(np.full((1, n), 0.5))
        assert (less[0], greater[0]) == (1.0, 0.5**n)


def test_a_row_of_zeros_is_neither_below_nor_above():
    less, greater = signed_rank_tails(np.zeros((1, 8)))
    assert (less[0], greater[0]) == (1.0, 1.0)


def test_long_rows_with_ties_meet_the_exact_answer():
    values = GENERATOR.integers(-5, 7, size=(3, 100)).astype(float)
    # One block more takes the normal distribution; a zero has no sign and hardly moves the answer.
    longer = np.hstack([values, np.zeros((3, 1))])
    for exact, normal in zip(signed_rank_tails(values), signed_rank_tails(longer), strict=True):
        np.testing.assert_allclose(normal, exact, rtol=0.1, atol=1e-3)
    for tail, alternative in zip(signed_rank_tails(longer), ("less", "greater"), strict=True):
        ours = stats.wilcoxon(longer, alternative=alternative, zero_method="pratt", axis=1)
        np.testing.assert_allclose(tail, ours.pvalue, rtol=1e-12)
    assert signed_rank_tails(np.zeros((1, 101))) == (1.0, 1.0)


def test_ties_are_seen_through_rounding_of_the_last_digits():
    exact = np.array([[0.1, 0.1, -0.2, 0.2, 0.3, 0.3, 0.3, 0.4]])
    blurred = exact * (1 + np.array([[0, 1, 0, -1, 1, 0, -1, 1]]) * 2.0**-52)
    assert signed_rank_tails(blurred) == signed_rank_tails(exact)


def test_a_row_never_depends_on_its_neighbours():
    rows = np.vstack([GENERATOR.normal(size=(3, 8)), np.zeros((1, 8)), np.full((1, 8), 1.0)])
    margins = np.linspace(0.01, 0.5, 5)
    together = margin_tests(rows, margins)
    for index in range(5):
        alone = margin_tests(rows[[index]], margins[[index]])
        assert [tail[0] for tail in alone] == [tails[index] for tails in together]


def test_the_three_tests_point_where_the_data_are():
    rows = np.linspace(-0.001, 0.001, 8) + np.array([[-0.02], [0.0], [0.02]])
    faster, slower, same = margin_tests(rows, np.full(3, 0.01))
    smallest = 0.5**8
    assert faster.tolist() == [smallest, 1.0, 1.0]
    assert same.tolist() == [1.0, smallest, 1.0]
    assert slower.tolist() == [1.0, 1.0, smallest]


def test_the_floor_grows_with_the_noise_and_holds_its_median():
    quiet = GENERATOR.normal(0, 0.001, size=(200, 8))
    floors = median_floors(quiet)
    np.testing.assert_allclose(median_floors(10 * quiet), 10 * floors)
    assert (floors >= np.abs(np.median(quiet, axis=1))).mean() > 0.95
    # The median of eight normal values scatters by about 0.41 of their deviation.
    assert 0.0005 < np.median(floors) < 0.0013


def test_the_floor_is_that_of_a_bootstrap_by_scipy():
    rows = np.sort(GENERATOR.normal(0, 0.01, size=(4, 12)), axis=1)
    drawn = stats.bootstrap(
        (rows,),
        np.median,
        axis=-1,
        n_resamples=RESAMPLES,
        method="percentile",
        random_state=np.random.default_rng(SEED),
    ).bootstrap_distribution
    assert median_floors(rows).tolist() == np.percentile(np.abs(drawn), 95, axis=-1).tolist()


def test_the_floor_of_a_constant_row_is_its_own_size():
    assert median_floors(np.array([[0.0] * 8, [-0.02] * 8])).tolist() == [0.0, 0.02]


@pytest.mark.parametrize("level", [0.025, 0.025 / 3, 0.025 / 80])
@pytest.mark.parametrize(("n", "session_sd"), [(8, 0.0), (16, 0.006), (32, 0.0), (60, 0.0)])
def test_the_detectable_effect_is_found_four_times_out_of_five(n, session_sd, level):
    """By `margin_tests`, in normal noise of which one value in ten has 4.5 times the deviation."""

    def noise():
        values = GENERATOR.normal(0, 0.01, (2000, n))
        return values * np.where(GENERATOR.random(values.shape) < 0.1, 4.5, 1)

    count, least = 2000, 0.01
    floors = np.full(count, np.nan)
    margins, sds = np.full(count, least), np.full(count, session_sd)
    effects = detectable_effects(noise(), floors, margins, np.full(count, level), sds)
    shifts = effects + GENERATOR.normal(0, session_sd, count)
    _, slower, _ = margin_tests(noise() + shifts[:, np.newaxis], margins)
    assert (slower < level).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(("share", "width"), [(0.0, 1.0), (0.05, 7.0), (0.1, 35.0), (0.2, 3.0)])
@pytest.mark.parametrize("n", [16, 32])
def test_from_twelve_blocks_on_it_is_found_as_often_in_each_kind_of_noise(n, share, width):
    """By one shape for all it was 64 to 96 %."""

    def noise():
        values = generator.normal(0, 0.01, (3000, n))
        return values * np.where(generator.random(values.shape) < share, width, 1)

    generator = np.random.default_rng(17)
    known = (np.full(3000, value) for value in (np.nan, 0.01, 0.025, 0.0))
    effects = detectable_effects(noise(), *known)
    _, slower, _ = margin_tests(noise() + effects[:, np.newaxis], np.full(3000, 0.01))
    assert (slower < 0.025).mean() == pytest.approx(0.8, abs=0.07)


def test_equal_blocks_detect_the_margin():
    known = (np.array([value]) for value in (np.nan, 0.01, 0.025, 0.0))
    effects = detectable_effects(np.full((1, 8), 0.3), *known)
    assert effects[0] == pytest.approx(0.01)


def test_what_eight_blocks_detect_as_one_of_eighty_is_an_overwhelming_effect():
    """No signed-rank p value of eight blocks meets the level of the first of eighty."""
    rows = GENERATOR.normal(0, 0.001, (1, 8))
    levels, floors, margins = np.array([0.025 / 80]), np.array([0.004]), np.array([0.01])
    assert detectable_effects(rows, floors, margins, levels, np.zeros(1))[0] > 0.03
    assert detectable_effects(rows, floors, margins, 80 * levels, np.zeros(1))[0] < 0.015


def test_levels_follow_what_the_others_of_a_family_are():
    faster = np.array([0.001, 0.9, 0.9, 0.9, np.nan, 0.9])
    slower = np.array([0.9, 0.001, 0.9, 0.9, np.nan, 0.9])
    levels = family_levels(faster, slower, np.array([0, 0, 0, 0, 0, 1]), 0.05)
    # Of four tested, two differ: one more needs three quarters of alpha / 2.
    np.testing.assert_allclose(levels, 0.025 * np.array([2, 2, 3, 3, 3, 4]) / 4)


def test_a_family_is_adjusted_as_scipy_does():
    faster, slower = GENERATOR.uniform(size=(2, 9))
    adjusted = np.concatenate(adjust_families(faster, slower, np.zeros(9, dtype=int)))
    both = np.concatenate([faster, slower])
    assert adjusted.tolist() == np.maximum(both, stats.false_discovery_control(both) / 2).tolist()


def test_a_family_of_one_keeps_its_p_values():
    faster, slower = adjust_families(np.array([0.004]), np.array([1.0]), np.array([0]))
    assert (faster[0], slower[0]) == (0.004, 1.0)


def test_families_do_not_see_each_other_and_untested_pairs_are_no_members():
    faster = np.array([0.001, 0.001, np.nan, 0.5])
    slower = np.array([1.0, 1.0, np.nan, 0.6])
    adjusted, _ = adjust_families(faster, slower, np.array([7, 3, 3, 3]))
    assert adjusted[0] == 0.001
    assert adjusted[1] == pytest.approx(0.002)
    assert np.isnan(adjusted[2])
    assert adjusted[3] == 0.5


def test_both_sides_count_as_one_set_of_hypotheses():
    smallest = 0.5**8
    faster = np.repeat([smallest, 1.0], [20, 60])
    slower = np.repeat([1.0, smallest, 1.0], [20, 20, 40])
    adjusted_faster, adjusted_slower = adjust_families(faster, slower, np.zeros(80, dtype=int))
    # Rank 40 of 80 pairs, whichever side they are on.
    assert adjusted_faster[0] == pytest.approx(smallest * 80 / 40)
    assert adjusted_slower[20] == pytest.approx(smallest * 80 / 40)


def test_of_very_many_blocks_the_effect_shrinks_with_the_root_of_their_number():
    beyond = []
    for n in (500, 8000):
        known = (np.full(20, value) for value in (np.nan, 0.01, 0.025, 0.0))
        effects = detectable_effects(GENERATOR.normal(0, 0.01, (20, n)), *known)
        beyond.append(np.median(effects) - 0.01)
    assert beyond[0] / beyond[1] == pytest.approx(4, rel=0.1)


def test_of_very_many_blocks_it_takes_memory_by_their_number():
    rows = GENERATOR.normal(0, 0.01, (2, 20_000))
    tracemalloc.start()
    try:
        detectable_effects(rows, *(np.full(2, value) for value in (0.01, 0.01, 0.025, 0.0)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * rows.nbytes
