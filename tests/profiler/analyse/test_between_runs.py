"""Verdicts between runs that were not interleaved: two independent samples, and their margins."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from profiler.analyse.between_runs import (
    COLUMNS,
    FEWEST_CONTROLS,
    REFUSED_WORDS,
    BetweenRunsReason,
    compare_runs,
    control_floors,
    joint_floor,
    shift_tails,
    shifts,
    with_prior,
)
from profiler.analyse.intervals import COVERED, PRIOR_SDS
from profiler.model import Verdict

OPPOSITE = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


def samples(values, cell="a"):
    return pd.DataFrame({"cell": cell, "log_value": np.asarray(values, dtype=float)})


def noise(shift, blocks=8, seed=0, scatter=0.003):
    return np.random.default_rng(seed).normal(shift, scatter, blocks)


def judge(older, newer, **columns):
    pairs = pd.DataFrame({name: [value] for name, value in columns.items()}, index=["a"])
    return compare_runs(samples(older), samples(newer), pairs).loc["a"]


# ---- what a verdict needs ----


def test_a_slower_kernel_is_slower_and_the_numbers_say_by_how_much():
    row = judge(noise(0.3, seed=1), noise(0.3 + np.log(1.05), seed=2), clock_floor=0.0)
    assert (row["verdict"], row["reason"]) == (Verdict.SLOWER, BetweenRunsReason.DECIDED)
    assert row["ratio"] == pytest.approx(1.05, abs=0.005)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["margin"] == pytest.approx(0.01)
    assert (row["blocks_older"], row["blocks_newer"]) == (8, 8)
    assert np.isnan(row["noise_floor"])


def test_equal_kernels_are_the_same_and_what_would_be_seen_is_said():
    row = judge(noise(0, 16, 1), noise(0, 16, 2))
    assert (row["verdict"], row["reason"]) == (Verdict.SAME, BetweenRunsReason.WITHIN_MARGIN)
    assert 0.01 < row["detectable"] < 0.02


def test_nothing_is_the_same_within_a_margin_as_wide_as_anything():
    """Seen: "0.679 x [0.051, 9.087] same; within +-56.1 x"."""
    wide = {"noise_floor": np.log(57.1)}
    row = judge(noise(0, scatter=0.5, seed=1), noise(-0.4, scatter=0.5, seed=2), **wide)
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, BetweenRunsReason.WIDE_MARGIN)
    assert row["p_same"] < 0.05
    narrow = judge(noise(0, seed=1), noise(0, seed=2), noise_floor=np.log1p(0.09))
    assert narrow["verdict"] == Verdict.SAME
    slower = judge(noise(0, seed=1), noise(9, seed=2), **wide)
    assert slower["verdict"] == Verdict.SLOWER


def test_nothing_is_the_same_whose_interval_reaches_beyond_the_margin():
    row = judge(noise(0, seed=3, scatter=0.004), noise(0.004, seed=4, scatter=0.004))
    assert row["p_same"] < 0.05
    assert row["ratio_high"] > 1 + row["margin"]
    assert (row["verdict"], row["reason"]) == (
        Verdict.UNCLEAR,
        BetweenRunsReason.MORE_BLOCKS_NEEDED,
    )


def test_without_cycles_the_reason_says_that_the_clock_is_not_known():
    row = judge(noise(0, seed=1), noise(0.1, seed=2))
    assert row["reason"] == BetweenRunsReason.DECIDED_BY_TIME


@pytest.mark.parametrize(("older", "newer"), [(5, 32), (32, 5), (5, 5), (1, 1)])
def test_fewer_than_six_blocks_on_a_side_never_decide(older, newer):
    row = judge(noise(0, older, 1), noise(1.0, newer, 2))
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, BetweenRunsReason.FEW_BLOCKS)
    assert row["ratio"] == pytest.approx(np.e, rel=0.02)


def test_six_blocks_a_side_decide():
    assert judge(noise(0, 6, 1), noise(0.1, 6, 2))["verdict"] == Verdict.SLOWER


def test_blocks_that_do_not_tell_are_unclear():
    row = judge(noise(0, 8, 1, 0.03), noise(0.02, 8, 2, 0.03))
    assert (row["verdict"], row["reason"]) == (
        Verdict.UNCLEAR,
        BetweenRunsReason.MORE_BLOCKS_NEEDED,
    )


def test_a_cell_that_one_run_lacks_has_no_data():
    pairs = pd.DataFrame(index=["a", "b"])
    found = compare_runs(samples(noise(0)), samples(noise(0), "b"), pairs)
    assert list(found["verdict"]) == [Verdict.NO_DATA] * 2
    assert list(found["reason"]) == [BetweenRunsReason.NOT_MEASURED] * 2
    assert found["ratio"].isna().all()


def test_values_that_are_not_finite_were_not_measured():
    row = judge([*noise(0), np.nan, np.inf], noise(0.1, seed=3))
    assert row["blocks_older"] == 8


# ---- margins ----


@pytest.mark.parametrize(
    ("floor", "reason"),
    [
        ("noise_floor", BetweenRunsReason.MORE_BLOCKS_NEEDED),
        ("clock_floor", BetweenRunsReason.CLOCK),
        ("control_floor", BetweenRunsReason.CONTROLS_MOVED),
        ("session_floor", BetweenRunsReason.FEW_CONTROLS),
    ],
)
def test_each_floor_widens_the_margin_and_says_what_stood_in_the_way(floor, reason):
    columns = {"clock_floor": 0.0, floor: 0.05}
    row = judge(noise(0, seed=1), noise(0.05, seed=2), **columns)
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, reason)
    assert row["margin"] == pytest.approx(np.expm1(0.05))


def test_a_wide_margin_makes_nothing_the_same_that_a_clock_keeps_undecided():
    row = judge(noise(0, seed=1), noise(0.05, seed=2), clock_floor=0.2)
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, BetweenRunsReason.CLOCK)


def test_one_of_many_comparisons_needs_more():
    generator = np.random.default_rng(5)
    cells = [f"c{number}" for number in range(40)]
    older = pd.concat([samples(generator.normal(0, 0.02, 6), cell) for cell in cells])
    newer = pd.concat([samples(generator.normal(0, 0.02, 6), cell) for cell in cells[1:]])
    newer = pd.concat([newer, samples(generator.normal(0.05, 0.02, 6), "c0")])
    together = compare_runs(older, newer, pd.DataFrame(index=cells)).loc["c0"]
    assert (together["verdict"], together["reason"]) == (
        Verdict.UNCLEAR,
        BetweenRunsReason.MANY_COMPARISONS,
    )
    families = pd.DataFrame({"family": [f"p{number // 4}" for number in range(40)]}, index=cells)
    assert compare_runs(older, newer, families).loc["c0", "verdict"] == Verdict.SLOWER


def test_floors_of_two_runs_add_as_independent_errors():
    nan = float("nan")
    joint = joint_floor(np.array([0.03, 0.03, nan, nan]), np.array([0.04, nan, 0.02, nan]))
    assert joint[:3] == pytest.approx([0.05, 0.03, 0.02])
    assert np.isnan(joint[3])


CONTROLS = ["variant", "problem", "shift", "error", "shorter_ns", "control"]


def controls(shift_of):
    """Cells of variants v0 … on two problems; `shift_of` gives the shift of each."""
    rows = [
        (f"v{number}", problem, shift_of(number, problem), 0.0, 1e5, True)
        for number in range(FEWEST_CONTROLS + 2)
        for problem in ("p", "q")
    ]
    return pd.DataFrame(rows, columns=CONTROLS)


def test_the_control_floor_is_what_unchanged_neighbours_do():
    generator = np.random.default_rng(3)
    cells = controls(lambda number, problem: generator.normal(0, 0.02 if problem == "p" else 0.001))
    floors = control_floors(cells)["control_floor"]
    near, far = (floors[cells["problem"] == problem] for problem in ("p", "q"))
    assert near.min() > 5 * far.max()


def test_a_variant_is_no_control_of_its_own():
    cells = controls(lambda number, problem: 0.3 if number == 0 else 0.0)
    assert control_floors(cells)["control_floor"].tolist() == [0.0] * len(cells)


def test_too_few_controls_are_none():
    cells = controls(lambda number, problem: 0.1)
    cells["control"] = cells["variant"].isin(["v0", "v1"])
    assert control_floors(cells).isna().all(axis=None)
    # Where a problem has too few of its own, those of all problems answer.
    cells["control"] = (cells["problem"] == "q") | (cells["variant"] == "v1")
    assert control_floors(cells).notna().all(axis=None)


def test_long_controls_do_not_tell_how_far_short_kernels_stray():
    cells = controls(lambda number, problem: 0.001)
    cells["control"] = cells["problem"] == "q"
    cells.loc[cells["problem"] == "p", "shorter_ns"] = 5e3
    found = with_prior(control_floors(cells), cells["shorter_ns"].to_numpy())
    short, long = (found[cells["problem"] == problem] for problem in ("p", "q"))
    assert short["control_floor"].isna().all()
    assert short["session_sd"].to_numpy() == pytest.approx(np.sqrt(2) * PRIOR_SDS[0])
    assert short["session_floor"].to_numpy() == pytest.approx(COVERED * np.sqrt(2) * PRIOR_SDS[0])
    assert long["control_floor"].notna().all()
    assert long["session_floor"].isna().all()


@pytest.mark.parametrize(("error", "left"), [(0.0, 0.01), (0.006, 0.008), (0.02, 0.0)])
def test_the_deviation_between_sessions_is_what_errors_of_the_blocks_leave(error, left):
    size = 0.01 * stats.norm.ppf(0.75)  # the median of |shift| where its deviation is 1 %
    cells = controls(lambda number, problem: size * (-1) ** number).assign(error=error)
    assert control_floors(cells)["session_sd"].to_numpy() == pytest.approx(left)


def intervals_with_the_truth(session_sd):
    """Share of intervals of equal cells that hold 1, their sessions deviating by 1 %."""
    generator = np.random.default_rng(12)
    cells = [f"c{number}" for number in range(1500)]
    offsets = np.repeat(generator.normal(0, 0.01, len(cells)), 8)
    noisy = [generator.normal(0, 0.004, 8 * len(cells)) for _ in range(2)]
    older, newer = (
        samples(values, np.repeat(cells, 8)) for values in (noisy[0], noisy[1] + offsets)
    )
    pairs = pd.DataFrame({"family": cells, "session_sd": session_sd}, index=cells)
    found = compare_runs(older, newer, pairs)
    return ((found["ratio_low"] <= 1) & (found["ratio_high"] >= 1)).mean()


def test_intervals_hold_the_offsets_of_two_sessions():
    assert intervals_with_the_truth(0.0) < 0.5
    assert 0.93 < intervals_with_the_truth(0.01) < 0.98


# ---- withheld ----


@pytest.mark.parametrize("reason", [*REFUSED_WORDS, BetweenRunsReason.CONTROL])
def test_withheld_verdicts_are_none_and_keep_their_numbers(reason):
    row = judge(noise(0, seed=1), noise(0.2, seed=2), withheld=reason)
    assert row["verdict"] is None
    assert row["reason"] == reason
    assert row["ratio"] == pytest.approx(np.exp(0.2), rel=0.01)


def test_nothing_measured_stays_no_data_whatever_was_withheld():
    row = judge([], noise(0.2), withheld=BetweenRunsReason.DIFFERENT_MACHINES)
    assert (row["verdict"], row["reason"]) == (Verdict.NO_DATA, BetweenRunsReason.NOT_MEASURED)


# ---- the estimate and its test ----


def test_the_shift_is_that_of_the_trimmed_means():
    newer, older = np.array([[1.0, 2, 3, 4, 50]]), np.array([[0.0, 1, 2, 3, -40]])
    found = shifts(newer, older)
    assert found.middle == pytest.approx(3 - 1)
    assert found.low < found.middle < found.high
    few = shifts(newer[:, :2], older)
    assert np.isnan([few.low, few.high, few.freedom]).all()


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(11)
    newer, older = generator.normal(0.1, 1, (2000, 8)), generator.normal(0, 1, (2000, 8))
    found = shifts(newer, older)
    assert 0.93 < ((found.low <= 0.1) & (found.high >= 0.1)).mean() < 0.98


def test_tails_are_those_of_scipy_whatever_the_neighbours():
    generator = np.random.default_rng(2)
    newer, older = generator.normal(0.5, 1, (4, 7)), generator.normal(0, 1, (4, 9))
    newer[2], older[2] = 0.3, 0.1  # without spread
    less, greater = shift_tails(newer, older)
    for row in (0, 1, 3):
        sides = {"a": newer[row], "b": older[row], "equal_var": False, "trim": 0.2}
        assert less[row] == pytest.approx(stats.ttest_ind(**sides, alternative="less").pvalue)
        assert greater[row] == pytest.approx(stats.ttest_ind(**sides, alternative="greater").pvalue)
    ranks = stats.mannwhitneyu(newer[2], older[2], alternative="greater").pvalue
    assert greater[2] == pytest.approx(ranks)


def test_the_interval_and_the_test_agree():
    generator = np.random.default_rng(4)
    newer, older = generator.normal(0, 1, (300, 8)), generator.normal(0, 1, (300, 8))
    found, (less, greater) = shifts(newer, older), shift_tails(newer, older)
    assert ((found.low > 0) == (greater < 0.025)).all()
    assert ((found.high < 0) == (less < 0.025)).all()


def test_one_slow_visit_on_each_side_hides_no_regression():
    older, newer = noise(0, 8, 1), noise(0.05, 8, 2)
    older[3] += 0.2
    newer[5] -= 0.2
    row = judge(older, newer)
    assert row["verdict"] == Verdict.SLOWER
    assert row["p_slower"] < 1e-4


def test_values_that_are_all_equal_tell_nothing():
    less, greater = shift_tails(np.ones((1, 8)), np.ones((1, 8)))
    assert (less[0], greater[0]) == (1.0, 1.0)


def test_constant_runs_that_differ_are_told_apart():
    assert judge([0.0] * 8, [0.05] * 8)["verdict"] == Verdict.SLOWER
    assert judge([0.0] * 8, [0.001] * 8)["verdict"] == Verdict.SAME
    assert judge([0.0] * 8, [0.0] * 8)["verdict"] == Verdict.SAME


def test_equal_kernels_are_hardly_ever_told_apart():
    generator = np.random.default_rng(8)
    cells = [f"c{number}" for number in range(500)]
    frames = [
        pd.DataFrame(
            {
                "cell": np.repeat(cells, 8),
                # Skewed, with a spike in twenty: as durations are.
                "log_value": generator.gamma(2, 0.006, 4000)
                + 0.1 * (generator.uniform(size=4000) < 0.05),
            }
        )
        for _ in range(2)
    ]
    pairs = pd.DataFrame({"family": cells}, index=cells)  # each alone: the easiest to get wrong
    found = compare_runs(*frames, pairs)
    wrong = found["verdict"].isin([Verdict.FASTER, Verdict.SLOWER])
    assert wrong.mean() <= 0.01


# ---- properties ----

CELLS = pd.Index([f"cell {number}" for number in range(40)])


@pytest.fixture(scope="module")
def runs():
    """Two runs of CELLS, each cell of at most 12 blocks, some of wide and some of no scatter."""
    generator = np.random.default_rng(5)
    shifts_of = generator.choice([0.0, 0.005, 0.03, 0.2], len(CELLS))
    scatters = generator.choice([0.0, 0.002, 0.02, 0.2], len(CELLS))
    return [
        pd.concat(
            samples(
                generator.uniform(-1, 1, generator.choice([0, 5, 8, 12])) * scatter + side * shift,
                cell,
            )
            for cell, shift, scatter in zip(CELLS, shifts_of, scatters, strict=True)
        )
        for side in (0, 1)
    ]


def judged(older, newer, **columns):
    return compare_runs(older, newer, pd.DataFrame({"family": CELLS, **columns}, index=CELLS))


@pytest.mark.parametrize("floor", [0.0, 0.03, float("nan")])
def test_swapping_the_runs_flips_the_verdict(runs, floor):
    there = judged(*runs, clock_floor=floor, control_floor=floor)
    back = judged(*runs[::-1], clock_floor=floor, control_floor=floor)
    assert {Verdict.SLOWER, Verdict.SAME, Verdict.UNCLEAR, Verdict.NO_DATA} >= {*there["verdict"]}
    assert list(back["verdict"]) == [OPPOSITE.get(verdict, verdict) for verdict in there["verdict"]]
    assert list(back["reason"]) == list(there["reason"])
    np.testing.assert_allclose(back["ratio"], 1 / there["ratio"])
    np.testing.assert_allclose(back["ratio_high"], 1 / there["ratio_low"])
    np.testing.assert_allclose(back["detectable"], there["detectable"])


def test_scaling_both_runs_changes_nothing(runs):
    plain = judged(*runs)
    for scale in (-3, 0.1):
        scaled = judged(*(run.assign(log_value=run["log_value"] + scale) for run in runs))
        assert list(scaled["verdict"]) == list(plain["verdict"])
        np.testing.assert_allclose(scaled["ratio"], plain["ratio"])


def test_identical_runs_are_never_different(runs):
    for run in runs:
        comparisons = judged(run, run)
        measured = comparisons[comparisons["verdict"] != Verdict.NO_DATA]
        assert set(measured["verdict"]) <= {Verdict.SAME, Verdict.UNCLEAR}
        np.testing.assert_allclose(measured["ratio"], 1)


def test_the_order_of_blocks_changes_nothing():
    older, newer = noise(0, seed=1), noise(0.02, seed=2)
    plain, turned = judge(older, newer), judge(older[::-1], np.roll(newer, 3))
    pd.testing.assert_series_equal(plain, turned)


def test_no_cells_give_an_empty_frame():
    found = compare_runs(samples([]), samples([]), pd.DataFrame(index=[]))
    assert list(found.columns) == list(COLUMNS)
    assert found.empty
