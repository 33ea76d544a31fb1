"""Summaries: block medians, intervals, paired ratios, ranks, and what must never change them."""

import math

import numpy as np
import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of

from profiler.analyse.samples import empty_samples
from profiler.analyse.summary import SUMMARY_COLUMNS, block_values, summarise
from profiler.errors import ProfilerError

A, B, C = make_cell("a"), make_cell("b"), make_cell("c")
CELLS = (A, B, C)


def _row(summary, cell, metric="duration_ns"):
    rows = summary[(summary["cell"] == cell.id) & (summary["metric"] == metric)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_columns_and_order_of_rows():
    samples = samples_of({B.id: [2.0], A.id: [1.0]}).assign(cycles=5.0)
    summary = summarise(samples, cells=CELLS)
    assert tuple(summary.columns) == SUMMARY_COLUMNS
    assert list(summary["cell"]) == [A.id] * 3 + [B.id] * 3
    assert list(summary["metric"]) == ["duration_ns", "cycles", "kernels"] * 2
    assert list(summary["variant"].unique()) == ["a", "b"]


def test_statistics_of_blocks():
    row = _row(summarise(samples_of({A.id: [4.0, 1.0, 2.0, 9.0]}), cells=CELLS), A)
    assert (row["n"], row["median"], row["mean"]) == (4, 3.0, 4.0)
    assert (row["min"], row["max"]) == (1.0, 9.0)
    assert row["min"] <= row["low"] <= row["median"] <= row["high"] <= row["max"]


def test_a_block_counts_once_whatever_its_repeats():
    samples = samples_of({A.id: [1.0, 5.0, 6.0, 10.0]}, collector="timer")
    samples["block"] = [0, 1, 1, 1]
    samples["repeat"] = [0, 0, 1, 2]
    row = _row(summarise(samples, cells=CELLS), A)
    assert (row["n"], row["median"]) == (2, 3.5)


def test_the_second_visit_of_the_baseline_and_finals_do_not_count():
    first = samples_of({A.id: [1.0, 2.0, 3.0], B.id: [4.0, 4.0, 4.0]})
    second = samples_of({A.id: [100.0, 200.0, 300.0]}, arm=1)
    final = samples_of({A.id: [50.0], B.id: [60.0]}, kind="final")
    samples = pd.concat([second, final, first], ignore_index=True)
    pd.testing.assert_frame_equal(
        summarise(samples, cells=CELLS, baseline="a"), summarise(first, cells=CELLS, baseline="a")
    )


def test_block_values_are_those_of_the_summary():
    first = samples_of({A.id: [1.0, 2.0]}).assign(cycles=7.0)
    second = samples_of({A.id: [100.0]}, arm=1)
    found = block_values(pd.concat([first, second], ignore_index=True), CELLS, "duration_ns")
    assert found.to_dict("records") == [
        {"cell": A.id, "block": 0, "value": 1.0},
        {"cell": A.id, "block": 1, "value": 2.0},
    ]
    assert block_values(first, CELLS, "registers").empty


def test_below_three_blocks_there_is_no_interval():
    row = _row(summarise(samples_of({A.id: [1.0, 2.0]}), cells=CELLS), A)
    assert row["n"] == 2
    assert np.isnan([row["low"], row["high"]]).all()


def test_missing_values_are_not_counted_and_never_zero():
    samples = samples_of({A.id: [1.0, math.nan, 3.0], B.id: [math.nan, math.nan, math.nan]})
    summary = summarise(samples, cells=CELLS, baseline="b")
    row = _row(summary, A)
    assert (row["n"], row["median"]) == (2, 2.0)
    assert np.isnan(row["ratio"])
    durations = summary[summary["metric"] == "duration_ns"]
    assert list(durations["cell"]) == [A.id]


def test_cells_that_are_not_in_the_plan_are_left_out():
    summary = summarise(samples_of({A.id: [1.0], "x..p": [2.0]}), cells=CELLS)
    assert set(summary["cell"]) == {A.id}


def test_no_samples_give_an_empty_summary():
    for samples in (empty_samples(), samples_of({"x..p": [1.0]})):
        summary = summarise(samples, cells=CELLS, baseline="a")
        assert summary.empty
        assert tuple(summary.columns) == SUMMARY_COLUMNS


def test_something_else_than_samples_is_refused():
    with pytest.raises(ProfilerError):
        summarise(pd.DataFrame({"cell": [A.id]}), cells=CELLS)


# ---- one kind of session per metric --------------------------------------------------------------


def test_durations_of_counter_sessions_do_not_mix_with_timing():
    timing = samples_of({A.id: [10.0, 10.0]})
    counters = samples_of({A.id: [99.0], B.id: [99.0]}, kind="counters").assign(l2_hit_pct=50.0)
    summary = summarise(pd.concat([timing, counters], ignore_index=True), cells=CELLS)
    assert (_row(summary, A)["n"], _row(summary, A)["max"]) == (2, 10.0)
    assert _row(summary, B, "l2_hit_pct")["median"] == 50.0
    assert B.id not in set(summary[summary["metric"] == "duration_ns"]["cell"])


def test_durations_of_ncu_and_timer_are_two_metrics():
    both = [samples_of({A.id: [10.0]}), samples_of({A.id: [7.0]}, collector="timer")]
    summary = summarise(pd.concat(both, ignore_index=True), cells=CELLS)
    assert _row(summary, A)["median"] == 10.0
    assert _row(summary, A, "timer_duration_ns")["median"] == 7.0


def test_the_timer_alone_gives_the_duration():
    summary = summarise(samples_of({A.id: [7.0]}, collector="timer"), cells=CELLS)
    assert list(summary["metric"]) == ["duration_ns"]


# ---- ratios --------------------------------------------------------------------------------------


def test_ratios_are_paired_by_block():
    drifting = [100.0, 200.0, 400.0, 800.0]
    samples = samples_of({A.id: drifting, B.id: [2 * time for time in drifting]})
    row = _row(summarise(samples, cells=CELLS, baseline="a"), B)
    assert row["ratio"] == pytest.approx(2.0)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((2.0, 2.0))


def test_only_blocks_that_both_have_are_paired():
    samples = samples_of({A.id: [1.0, 1.0, 1.0], B.id: [3.0, 3.0, 3.0, 500.0]})
    row = _row(summarise(samples, cells=CELLS, baseline="a"), B)
    assert row["ratio"] == pytest.approx(3.0)


def test_without_a_common_block_the_medians_are_compared_without_an_interval():
    samples = samples_of({A.id: [2.0, 2.0, 2.0], B.id: [6.0, 6.0, 6.0]})
    samples.loc[samples["cell"] == B.id, "block"] += 10
    row = _row(summarise(samples, cells=CELLS, baseline="a"), B)
    assert row["ratio"] == pytest.approx(3.0)
    assert np.isnan([row["ratio_low"], row["ratio_high"]]).all()


@pytest.mark.parametrize("baseline", [None, "c", "nobody"])
def test_without_a_baseline_there_is_no_ratio(baseline):
    summary = summarise(samples_of({A.id: [1.0] * 3}), cells=CELLS, baseline=baseline)
    assert summary[["ratio", "ratio_low", "ratio_high"]].isna().all(axis=None)


def test_a_baseline_of_zero_gives_no_ratio_and_a_count_of_zero_does():
    samples = samples_of({A.id: [0.0], B.id: [5.0]}, "bank_conflicts")
    assert np.isnan(
        _row(summarise(samples, cells=CELLS, baseline="a"), B, "bank_conflicts")["ratio"]
    )
    assert _row(summarise(samples, cells=CELLS, baseline="b"), A, "bank_conflicts")["ratio"] == 0


def test_a_baseline_stands_for_its_own_problem_only():
    cells = [make_cell(v, p) for v in "ab" for p in ("p", "q")]
    values = {"a..p": [1.0], "b..p": [2.0], "a..q": [10.0], "b..q": [5.0]}
    summary = summarise(samples_of(values), cells=cells, baseline="a")
    durations = summary[summary["metric"] == "duration_ns"].set_index("cell")["ratio"]
    assert dict(durations) == {"a..p": 1.0, "a..q": 1.0, "b..p": 2.0, "b..q": 0.5}


PROBLEMS = [f"p{number}" for number in range(30)]
MANY = [make_cell(variant, problem) for problem in PROBLEMS for variant in "ab"]
"""Two variants at as many problems as a property of any data is tried with."""


@pytest.fixture(scope="module")
def many():
    """Samples of MANY from a nanosecond to a millisecond; every third problem has ties."""
    generator = np.random.default_rng(3)
    times = np.exp(generator.uniform(0, math.log(1e6), (len(MANY), 4)))
    times[::3] = generator.integers(1, 4, (len(MANY) // 3, 4))
    return samples_of({cell.id: list(row) for cell, row in zip(MANY, times, strict=True)})


def durations_of(samples, baseline, variant):
    """Rows of the durations of a variant, by problem, summarised against a baseline."""
    summary = summarise(samples, cells=MANY, baseline=baseline)
    rows = summary[(summary["metric"] == "duration_ns") & (summary["variant"] == variant)]
    assert len(rows) == len(PROBLEMS)
    return rows.set_index("problem")


def test_identical_data_has_the_ratio_one(many):
    of_baseline = many[many["cell"].str.startswith("a")]
    again = of_baseline.assign(cell="b" + of_baseline["cell"].str[1:])
    rows = durations_of(pd.concat([of_baseline, again], ignore_index=True), "a", "b")
    assert (rows[["ratio", "ratio_low", "ratio_high"]] == 1.0).all(axis=None)


def test_swapping_inverts_the_ratio(many):
    forth, back = durations_of(many, "a", "b"), durations_of(many, "b", "a")
    np.testing.assert_allclose(forth["ratio"], 1 / back["ratio"])


def test_the_unit_of_time_changes_no_ratio(many):
    in_ns = durations_of(many, "a", "b")
    for factor in (1e-3, 0.7, 1e3):
        scaled = durations_of(many.assign(duration_ns=many["duration_ns"] * factor), "a", "b")
        for name in ("ratio", "ratio_low", "ratio_high"):
            np.testing.assert_allclose(scaled[name], in_ns[name], rtol=1e-9)
        np.testing.assert_allclose(scaled["median"], factor * in_ns["median"])
        assert list(scaled["rank"]) == list(in_ns["rank"])


def test_the_order_of_samples_changes_nothing(many):
    pd.testing.assert_frame_equal(
        summarise(many, cells=MANY, baseline="b"),
        summarise(many.sample(frac=1, random_state=1), cells=MANY, baseline="b"),
    )


def test_a_cell_has_the_same_interval_whoever_stands_beside_it():
    values = {A.id: [3.0, 1.0, 2.0, 8.0], B.id: [1.0, 2.0, 3.0, 5.0]}
    alone = _row(summarise(samples_of({A.id: values[A.id]}), cells=CELLS), A)
    beside = _row(summarise(samples_of(values), cells=CELLS), A)
    assert (alone["low"], alone["high"]) == (beside["low"], beside["high"])


# ---- ranks ---------------------------------------------------------------------------------------


def test_ranks_follow_the_better_direction():
    values = {A.id: [3.0], B.id: [1.0], C.id: [2.0]}
    lower = summarise(samples_of(values), cells=CELLS)
    higher = summarise(samples_of(values, "tflops"), cells=CELLS)
    neither = summarise(samples_of(values, "registers"), cells=CELLS)
    assert [_row(lower, cell)["rank"] for cell in CELLS] == [3, 1, 2]
    assert [_row(higher, cell, "tflops")["rank"] for cell in CELLS] == [1, 3, 2]
    assert neither[neither["metric"] == "registers"]["rank"].isna().all()


def test_wrong_cells_have_no_rank_and_take_none_away():
    values = {A.id: [1.0], B.id: [2.0]}
    summary = summarise(samples_of(values), cells=CELLS, ranked={B.id})
    assert np.isnan(_row(summary, A)["rank"])
    assert _row(summary, B)["rank"] == 1


def test_equal_medians_share_a_rank_and_problems_are_apart():
    cells = [make_cell("a"), make_cell("b"), make_cell("a", "q")]
    summary = summarise(samples_of({"a..p": [1.0], "b..p": [1.0], "a..q": [9.0]}), cells=cells)
    assert list(summary[summary["metric"] == "duration_ns"]["rank"]) == [1, 1, 1]
