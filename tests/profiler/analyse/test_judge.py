"""Samples become durations by block and arm, and those become verdicts on pairs of cells."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of
from cell_statuses import status_of

from profiler.analyse.intervals import NO_OFFSETS, PRIOR_SDS, estimated_sds
from profiler.analyse.judge import MEDIANS, TIME_COLUMNS, Judge, Rules, visit_times
from profiler.analyse.samples import empty_samples
from profiler.analyse.verdicts import (
    COLUMNS,
    Reason,
    compare,
    find_contenders,
    noise_floors,
    untimed_by_cell,
)
from profiler.errors import ProfilerError
from profiler.model import Environment, SessionKind, Verdict

CELLS = tuple(make_cell(variant, problem) for problem in "pq" for variant in "abc")
WIGGLE = np.array([-3, 1, -1, 2, -2, 3, 0.5, -0.5]) / 1000
"""Eight blocks that scatter by 0.2 % around nothing, without ties."""
OTHER = np.roll(WIGGLE, 3)


def run(values, again=None, *, cycles=1.8):
    """Samples of a timing session; `again` are second visits. Cycles follow the time."""
    arms = [samples_of(values, arm=0), samples_of(again or {}, arm=1)]
    frame = pd.concat([arm for arm in arms if len(arm)], ignore_index=True)
    return frame if cycles is None else frame.assign(cycles=frame["duration_ns"] * cycles)


def around(value, wiggle=WIGGLE):
    return value * np.exp(wiggle)


def judge(samples, baseline="a", **rules):
    times = visit_times(samples, CELLS, SessionKind.TIMING)
    return Judge(times, baseline, Rules(**rules), NO_OFFSETS)


RACE = run(
    {"a..p": around(1000), "b..p": around(900, OTHER), "c..p": around(1002, OTHER)},
    {"a..p": around(1000, OTHER)},
)
"""`b` is 10 % faster than the baseline `a`, `c` is the same."""


SLOW = run(
    {"a..p": around(1000), "b..p": around(1100, OTHER), "c..p": around(2200, OTHER)},
    {"a..p": around(1000, OTHER)},
)


def untimed(fact, by_cell):
    """`untimed_by_cell` of a GPU that copies a byte in a nanosecond."""
    statuses = {cell: status_of(cell, **{fact: value}) for cell, value in by_cell.items()}
    return untimed_by_cell(statuses, Environment(peak_dram_bytes_per_s=1e9))


@pytest.mark.parametrize(
    ("samples", "counts", "verdicts"),
    [
        (RACE, {}, [Verdict.FASTER, Verdict.SAME]),
        (RACE, {"b..p": 2.0, "c..p": 2.0}, [Verdict.FASTER, Verdict.UNCLEAR]),
        (RACE, {"a..p": 2.0, "b..p": 1.0}, [Verdict.UNCLEAR, Verdict.UNCLEAR]),
        (SLOW, {"b..p": 2.0, "c..p": 2.0}, [Verdict.UNCLEAR, Verdict.SLOWER]),
        (SLOW, {"a..p": 2.0}, [Verdict.SLOWER, Verdict.SLOWER]),
    ],
)
def test_a_verdict_stands_if_kernels_that_run_at_once_cannot_overturn_it(samples, counts, verdicts):
    samples = samples.assign(kernels=samples["cell"].map(counts).fillna(1.0))
    times = visit_times(samples, CELLS, SessionKind.TIMING)
    judge = Judge(times, "a", Rules(), NO_OFFSETS, launches=untimed("concurrent_kernels", counts))
    table = judge.compare([("b..p", "a..p"), ("c..p", "a..p")])
    assert list(table["verdict"]) == verdicts
    open_verdicts = table["verdict"] == Verdict.UNCLEAR
    assert ((table["reason"] == Reason.OVERLAP) == open_verdicts).all()
    short_ones = samples.assign(longest_kernel_ns=samples["duration_ns"] / 1.001)
    nearly_alone = replace(judge, times=visit_times(short_ones, CELLS, SessionKind.TIMING))
    assert Verdict.UNCLEAR not in set(nearly_alone.compare([("b..p", "a..p")])["verdict"])
    whole_launches = visit_times(samples.assign(kernels=np.nan), CELLS, SessionKind.TIMING)
    by_timer = replace(judge, times=whole_launches)
    assert Verdict.UNCLEAR not in set(by_timer.compare([("b..p", "a..p")])["verdict"])


@pytest.mark.parametrize(
    ("samples", "kernels", "verdicts"),
    [
        (SLOW, {"a..p": 2}, [Verdict.UNCLEAR, Verdict.SLOWER]),
        (SLOW, {"b..p": 2, "c..p": 9}, [Verdict.SLOWER, Verdict.SLOWER]),
        (RACE, {"b..p": 2}, [Verdict.UNCLEAR, Verdict.SAME]),
        (RACE, {"c..p": 2}, [Verdict.FASTER, Verdict.UNCLEAR]),
        (RACE, dict.fromkeys(("a..p", "b..p", "c..p"), 9), [Verdict.FASTER, Verdict.SAME]),
    ],
)
def test_a_verdict_stands_if_gaps_between_kernels_cannot_overturn_it(samples, kernels, verdicts):
    samples = samples.assign(kernels=samples["cell"].map(kernels).fillna(1.0))
    times = visit_times(samples, CELLS, SessionKind.TIMING)
    judge = Judge(times, "a", Rules(), NO_OFFSETS)
    table = judge.compare([("b..p", "a..p"), ("c..p", "a..p")])
    assert list(table["verdict"]) == verdicts
    open_verdicts = table["verdict"] == Verdict.UNCLEAR
    assert ((table["reason"] == Reason.GAPS) == open_verdicts).all()


@pytest.mark.parametrize(
    ("fact", "reason"), [("waiting_ns", Reason.WAITS), ("copied_bytes", Reason.COPIES)]
)
@pytest.mark.parametrize(
    ("samples", "amounts", "verdicts"),
    [
        (RACE, {"a..p": 0.0, "b..p": 1.0, "c..p": 1.0}, [Verdict.FASTER, Verdict.SAME]),
        (RACE, {"b..p": 1e6}, [Verdict.UNCLEAR, Verdict.SAME]),
        (RACE, {"c..p": 1e6}, [Verdict.FASTER, Verdict.UNCLEAR]),
        (RACE, {"a..p": 1e6}, [Verdict.FASTER, Verdict.UNCLEAR]),
        (SLOW, {"a..p": 1e6}, [Verdict.UNCLEAR, Verdict.UNCLEAR]),
        (SLOW, {"b..p": 1e6, "c..p": 1e6}, [Verdict.SLOWER, Verdict.SLOWER]),
    ],
)
def test_a_verdict_stands_if_what_no_sum_of_kernels_holds_cannot_overturn_it(
    samples, amounts, verdicts, fact, reason
):
    times = visit_times(samples.assign(kernels=1.0), CELLS, SessionKind.TIMING)
    judge = Judge(times, "a", Rules(), NO_OFFSETS, launches=untimed(fact, amounts))
    table = judge.compare([("b..p", "a..p"), ("c..p", "a..p")])
    assert list(table["verdict"]) == verdicts
    assert ((table["reason"] == reason) == (table["verdict"] == Verdict.UNCLEAR)).all()
    whole_launches = visit_times(samples.assign(kernels=np.nan), CELLS, SessionKind.TIMING)
    by_timer = replace(judge, times=whole_launches).compare([("b..p", "a..p"), ("c..p", "a..p")])
    assert Verdict.UNCLEAR not in set(by_timer["verdict"])


def test_more_blocks_are_not_asked_for_where_copies_would_decide():
    samples = run({"a..p": around(1000), "b..p": around(1003, 20 * OTHER)}).assign(kernels=1.0)
    times = visit_times(samples, CELLS, SessionKind.TIMING)
    pairs = [("b..p", "a..p")]
    noisy = Judge(times, "a", Rules(), NO_OFFSETS).compare(pairs)
    assert noisy["reason"].tolist() == [Reason.MORE_BLOCKS_NEEDED]
    for fact, amount, reason in (
        ("copied_bytes", 1.0, Reason.MORE_BLOCKS_NEEDED),
        ("copied_bytes", 1e6, Reason.COPIES),
        ("copies", 1.0, Reason.COPIES),
    ):
        launches = untimed(fact, {"b..p": amount})
        judged = Judge(times, "a", Rules(), NO_OFFSETS, launches=launches).compare(pairs)
        assert judged["verdict"].tolist() == [Verdict.UNCLEAR]
        assert judged["reason"].tolist() == [reason]


# ---- durations -----------------------------------------------------------------------------------


def test_times_have_the_plan_beside_them():
    times = visit_times(RACE, CELLS, SessionKind.TIMING)
    assert tuple(times.columns) == TIME_COLUMNS
    assert len(times) == 4 * 8
    assert set(zip(times["cell"], times["variant"], times["problem"], strict=True)) == {
        ("a..p", "a", "p"),
        ("b..p", "b", "p"),
        ("c..p", "c", "p"),
    }
    second = times[times["arm"] == 1].sort_values("block")
    assert list(second["duration_ns"]) == pytest.approx(around(1000, OTHER))
    assert list(second["cycles"]) == pytest.approx(1.8 * around(1000, OTHER))


def test_ncu_is_believed_before_the_timer():
    ncu = samples_of({"a..p": [5.0]})
    timer = samples_of({"a..p": [9.0, 9.0], "b..p": [9.0]}, collector="timer")
    both = pd.concat([timer, ncu], ignore_index=True)
    times_of_cells = visit_times(both, CELLS, SessionKind.TIMING)
    assert times_of_cells[["cell", "block", "duration_ns"]].to_numpy().tolist() == [
        ["a..p", 0, 5.0]
    ]
    alone = visit_times(timer, CELLS, SessionKind.TIMING)
    assert set(alone["cell"]) == {"a..p", "b..p"}
    assert alone["cycles"].isna().all()


def test_ncu_without_a_duration_leaves_the_timer_its_say():
    ncu = samples_of({"a..p": [math.nan]})
    timer = samples_of({"a..p": [9.0]}, collector="timer")
    times_of_cells = visit_times(
        pd.concat([ncu, timer], ignore_index=True), CELLS, SessionKind.TIMING
    )
    assert list(times_of_cells["duration_ns"]) == [9.0]


def counted(cells, **where):
    """A sample of each cell in a counters session: 2 µs at so many GHz."""
    frame = samples_of({cell: [2000.0] for cell in cells}, **{"kind": "counters"} | where)
    return frame.assign(cycles=frame["duration_ns"] * frame["cell"].map(cells))


def test_cycles_are_those_that_a_visit_counted_itself():
    """Those of another launch times a clock would say what the duration says."""
    timing = run({"a..p": [1000.0, 1010.0, 1020.0]}, cycles=1.8)
    timing.loc[1, "cycles"] = math.nan
    samples = pd.concat([timing, counted({"a..p": 1.5})], ignore_index=True)
    times_of_cells = visit_times(samples, CELLS, SessionKind.TIMING)
    assert list(times_of_cells["cycles"].fillna(0.0)) == pytest.approx([1800.0, 0.0, 1836.0])


def test_kinds_of_sessions_do_not_mix():
    kinds = {kind.value: float(number) for number, kind in enumerate(SessionKind)}
    frames = [samples_of({"a..p": [time]}, kind=kind) for kind, time in kinds.items()]
    samples = pd.concat(frames, ignore_index=True)
    for kind in SessionKind:
        assert list(visit_times(samples, CELLS, kind)["duration_ns"]) == [kinds[kind.value]]


def test_only_the_first_blocks_where_so_many_are_asked_for():
    assert set(visit_times(RACE, CELLS, SessionKind.TIMING, 3)["block"]) == {0, 1, 2}
    assert len(visit_times(RACE, CELLS, SessionKind.TIMING, 3)) == 4 * 3
    assert visit_times(RACE, CELLS, SessionKind.TIMING, 0).empty


def test_repeats_of_a_visit_count_as_their_median():
    samples = samples_of({"a..p": [1.0, 7.0, 3.0, 8.0]}, collector="timer")
    samples["block"], samples["repeat"], samples["arm"] = 0, range(4), [0, 0, 0, 1]
    times_of_cells = visit_times(samples, CELLS, SessionKind.TIMING)
    assert times_of_cells[["arm", "duration_ns"]].to_numpy().tolist() == [[0, 3.0], [1, 8.0]]


def test_cells_outside_the_plan_and_missing_values_are_left_out():
    samples = samples_of({"x..p": [1.0], "a..p": [math.nan, 2.0]})
    times_of_cells = visit_times(samples, CELLS, SessionKind.TIMING)
    assert times_of_cells[["cell", "block"]].to_numpy().tolist() == [["a..p", 1]]


def test_what_are_no_samples_is_refused():
    with pytest.raises(ProfilerError, match="arm"):
        visit_times(RACE.drop(columns="arm"), CELLS, SessionKind.TIMING)


def test_of_no_samples_there_are_no_times_and_no_verdicts():
    for samples in (empty_samples(), samples_of({"x..p": [1.0]})):
        times = visit_times(samples, CELLS, SessionKind.TIMING)
        assert tuple(times.columns) == TIME_COLUMNS
        assert times.empty
        nobody = Judge(times, "a")
        found = nobody.with_baseline(CELLS)
        assert list(found["verdict"]) == [Verdict.NO_DATA] * 4
        assert list(found["reason"]) == [Reason.NOT_MEASURED] * 4
        assert nobody.contenders({"b", "c"}).empty
        assert nobody.floors.empty


# ---- noise floors --------------------------------------------------------------------------------


def test_the_floor_of_a_problem_comes_from_the_two_arms_of_the_baseline():
    samples = run(
        {"a..p": around(1000), "a..q": around(7, OTHER), "b..p": around(5)},
        {"a..p": around(1000, OTHER), "a..q": around(7), "b..p": around(9)},
    )
    floors = judge(samples).floors
    assert set(floors.index) == {"p", "q"}
    again = pd.Series(["p"] * 8)
    expected = noise_floors(pd.Series(WIGGLE - OTHER), again)["p"]
    assert floors.loc["p", "duration_ns"] == pytest.approx(expected)
    assert floors.loc["p", "cycles"] == pytest.approx(expected)
    assert expected > 0


def test_only_blocks_with_both_arms_make_a_floor():
    arms = {"a..p": around(1000)}
    few = run(arms, {"a..p": around(1000, OTHER)[:5]})
    assert np.isnan(judge(few).floors.loc["p", "duration_ns"])
    enough = run(arms, {"a..p": around(1000, OTHER)[:6]})
    assert judge(enough).floors.loc["p", "duration_ns"] > 0


def test_without_cycles_or_a_second_arm_there_is_no_floor_of_them():
    timed = judge(run({"a..p": around(1)}, {"a..p": around(1, OTHER)}, cycles=None)).floors
    assert timed.loc["p", "duration_ns"] > 0
    assert np.isnan(timed.loc["p", "cycles"])
    assert judge(run({"a..p": around(1)})).floors.empty
    assert judge(RACE, baseline=None).floors.empty


def test_a_floor_widens_the_margin():
    far = np.array([-5, 4, -4, 5, -5, 4, 5, -4]) / 50
    samples = run({"a..p": around(1000), "b..p": around(970, OTHER)}, {"a..p": around(1000, far)})
    (row,) = judge(samples).compare([("b..p", "a..p")]).to_dict("records")
    assert row["noise_floor"] > 0.03
    assert row["margin"] == row["noise_floor"]
    assert row["verdict"] != Verdict.FASTER
    quiet = judge(run({"a..p": around(1000), "b..p": around(970, OTHER)}))
    (row,) = quiet.compare([("b..p", "a..p")]).to_dict("records")
    assert np.isnan(row["noise_floor"])
    assert row["margin"] == pytest.approx(0.01)
    assert row["verdict"] == Verdict.FASTER


# ---- verdicts ------------------------------------------------------------------------------------


def test_a_verdict_is_that_of_compare_on_the_log_ratios_by_block():
    judged = judge(RACE, looks=3, delta=0.02)
    asked = [("b..p", "a..p"), ("c..p", "a..p"), ("b..p", "c..p")]
    found = judged.compare(asked)
    assert list(found.columns) == ["cell", "against", "problem", *COLUMNS, *MEDIANS]
    assert list(zip(found["cell"], found["against"], strict=True)) == asked
    values = {"a": around(1000), "b": around(900, OTHER), "c": around(1002, OTHER)}
    rows = [
        {"pair": number, "log_ratio": ratio, "log_cycles": ratio}
        for number, (cell, other) in enumerate(asked)
        for ratio in np.log(values[cell[0]] / values[other[0]])
    ]
    floors = judged.floors.loc["p"]
    pairs = pd.DataFrame(
        {"noise_floor": floors["duration_ns"], "cycles_noise_floor": floors["cycles"]},
        index=range(3),
    )
    expected = compare(pd.DataFrame(rows), pairs, delta=0.02, looks=3)
    tested = [name for name in COLUMNS if not name.startswith("ratio")]
    pd.testing.assert_frame_equal(
        found[tested].reset_index(drop=True), expected[tested], check_names=False
    )


def test_the_ratio_is_the_quotient_of_the_medians_beside_it():
    """The median of quotients is another number: whoever divided what was shown found so."""
    first, other = [100.0, 110, 130, 90, 100, 120, 95, 105], [50.0, 50, 60, 40, 55, 50, 45, 52]
    (row,) = (
        judge(run({"b..p": first, "a..p": other})).compare([("b..p", "a..p")]).to_dict("records")
    )
    assert (row["median"], row["against_median"]) == (102.5, 50.0)
    assert row["ratio"] == 2.05
    assert np.median(np.divide(first, other)) != pytest.approx(2.05, rel=0.01)
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]


def test_blocks_are_paired_by_their_number_and_the_second_arm_never_is():
    drift = np.exp(np.arange(8.0))
    samples = run(
        {"a..p": around(1000) * drift, "b..p": around(900, OTHER) * drift},
        {"a..p": around(5000) * drift},
    )
    (row,) = judge(samples).compare([("b..p", "a..p")]).to_dict("records")
    assert row["ratio"] == pytest.approx(0.9, rel=0.01)
    shuffled = judge(samples.sample(frac=1, random_state=3)).compare([("b..p", "a..p")])
    assert shuffled.iloc[0].to_dict() == row


def test_only_common_blocks_count_and_a_missing_partner_is_no_data():
    samples = run({"a..p": around(1000), "b..p": around(900, OTHER)[:6], "b..q": around(900)})
    asked = [("b..p", "a..p"), ("c..p", "a..p"), ("b..p", "c..p"), ("b..q", "a..q"), ("x", "y")]
    found = judge(samples).compare(asked)
    assert list(found["blocks"]) == [6, 0, 0, 0, 0]
    assert list(found["verdict"][1:]) == [Verdict.NO_DATA] * 4
    assert list(found["reason"][1:]) == [Reason.NOT_MEASURED] * 4
    assert found["ratio"][1:].isna().all()


def test_nothing_asked_nothing_answered():
    found = judge(RACE).compare([])
    assert found.empty
    assert list(found.columns) == ["cell", "against", "problem", *COLUMNS, *MEDIANS]


def test_without_cycles_the_time_decides():
    samples = RACE.drop(columns="cycles")
    found = judge(samples).compare([("b..p", "a..p")])
    assert list(found["reason"]) == [Reason.DECIDED_BY_TIME]


@pytest.mark.parametrize("clocks", [{"a..p": 1.8, "b..p": 1.8}, {"a..p": 1.7, "b..p": 1.9}])
def test_the_clock_of_one_launch_neither_confirms_nor_denies_a_difference(clocks):
    samples = pd.concat([RACE.drop(columns="cycles"), counted(clocks)], ignore_index=True)
    row = judge(samples).with_baseline(CELLS).set_index("cell").loc["b..p"]
    assert (row["verdict"], row["reason"]) == (Verdict.FASTER, Reason.DECIDED_BY_TIME)


def test_a_difference_that_cycles_deny_is_a_clock():
    samples = RACE.copy()
    samples["cycles"] = 1800 * np.exp(np.tile(WIGGLE, 4))
    (row,) = judge(samples).compare([("b..p", "a..p")]).to_dict("records")
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, Reason.CLOCK)


def test_a_time_that_is_not_positive_was_not_measured():
    samples = run({"a..p": around(1000), "b..p": [0.0, *around(900, OTHER)[1:]]})
    (row,) = judge(samples).compare([("b..p", "a..p")]).to_dict("records")
    assert row["blocks"] == 7


def test_a_family_is_a_problem():
    values = {f"{one}..p": around(1000, np.roll(WIGGLE, n)) for n, one in enumerate("ab")}
    samples = run(
        {
            **values,
            "c..p": around(985, OTHER),
            "a..q": around(1000),
            "b..q": around(985, OTHER),
        }
    )
    asked = [("b..p", "a..p"), ("c..p", "a..p"), ("c..p", "b..p"), ("b..q", "a..q")]
    alone = np.array([judge(samples).compare([pair])["p_faster"].iloc[0] for pair in asked])
    assert alone[1] < 1
    together = judge(samples).compare(asked)["p_faster"].to_numpy()
    assert together[1] > alone[1]  # one of three
    assert together[3] == alone[3]  # the only one of its problem


# ---- against the baseline ------------------------------------------------------------------------


def test_every_cell_is_judged_against_the_baseline_of_its_problem():
    found = judge(RACE).with_baseline(CELLS).set_index("cell")
    assert list(found.index) == ["b..p", "c..p", "b..q", "c..q"]
    assert list(found["against"]) == ["a..p", "a..p", "a..q", "a..q"]
    verdicts = [Verdict.FASTER, Verdict.SAME, Verdict.NO_DATA, Verdict.NO_DATA]
    assert list(found["verdict"]) == verdicts


@pytest.mark.parametrize("baseline", [None, "nobody"])
def test_without_a_baseline_nothing_is_judged_against_it(baseline):
    assert judge(RACE, baseline=baseline).with_baseline(CELLS).empty


def test_a_problem_without_its_baseline_has_no_verdicts():
    cells = [cell for cell in CELLS if cell.id != "a..q"]
    assert set(judge(RACE).with_baseline(cells)["problem"]) == {"p"}


# ---- who may be the best -------------------------------------------------------------------------


def test_contenders_are_those_of_the_variants_that_are_not_slower_than_the_best():
    judged = judge(RACE, looks=3)
    found = judged.contenders({"b", "c"}).set_index("variant")
    assert dict(found["best"]) == {"b": True, "c": False}
    assert dict(found["contender"]) == {"b": True, "c": False}
    without = judged.contenders({"a", "c"}).set_index("variant")
    assert dict(without["contender"]) == {"a": True, "c": True}
    assert judged.contenders(()).empty


def test_contenders_are_those_of_find_contenders():
    judged = judge(RACE, looks=3, delta=0.05)
    first = judged.times[(judged.times["arm"] == 0) & (judged.times["variant"] != "a")]
    floors = judged.floors["duration_ns"]
    expected = find_contenders(first, floors, delta=0.05, looks=3)
    pd.testing.assert_frame_equal(judged.contenders({"b", "c"}), expected)


def test_within_the_margin_of_the_best_is_in_the_race():
    samples = run({"b..p": around(1000), "c..p": around(1040, OTHER)})
    assert not judge(samples).contenders({"b", "c"})["contender"].all()
    assert judge(samples, delta=0.06).contenders({"b", "c"})["contender"].all()


def test_below_six_blocks_nobody_leaves_the_race():
    samples = run({"b..p": around(1000)[:5], "c..p": around(9000)[:5]})
    assert judge(samples).contenders({"b", "c"})["contender"].all()


def test_who_left_after_a_look_keeps_the_verdict_of_that_look():
    """What others do in later blocks adds comparisons, and would undo it."""
    many = tuple(make_cell(variant, "p") for variant in "abcdef")
    rng = np.random.default_rng(7)

    def blocks(value, count):
        return value * np.exp(rng.normal(0, 0.001, count))

    slower = {f"{name}..p": blocks(1025, 8) for name in "bcd"}
    same = {f"{name}..p": blocks(1000, 32) for name in "aef"}
    left = {key: values for key, values in slower.items() if key == "b..p"}
    came_back = {f"{name}..p": blocks(1000, 32) for name in "cd"}
    again = {"a..p": blocks(1000, 32)}

    def verdict(values):
        times = visit_times(run(values, again), many, SessionKind.TIMING)
        found = Judge(times, "a", Rules(looks=3)).compare([(f"{x}..p", "a..p") for x in "bcdef"])
        return found.set_index("cell").loc["b..p", "verdict"]

    assert verdict(same | slower) is Verdict.SLOWER
    # Alone in its family after eight blocks it would not be: the smallest p is too large for that.
    assert verdict({k: v[:8] for k, v in (same | came_back | left).items()}) is Verdict.UNCLEAR
    first_eight = {k: np.concatenate([slower[k], came_back[k][8:]]) for k in came_back}
    assert verdict(same | left | first_eight) is Verdict.SLOWER


def test_the_lowest_of_equal_cells_reads_too_low_by_what_chance_gives_it():
    """The mean of the lowest of three medians of 15 normal values, 1 % each, is 0.27 % below."""
    generator = np.random.default_rng(3)
    biases = []
    for _ in range(40):
        noise = generator.normal(0, 0.01, (3, 15))
        # Equal or not: what is asked is what choosing among equal ones would add.
        levels = dict(zip(("a..p", "b..p", "c..p"), (1000, 1003, 997), strict=True))
        values = {
            cell: around(level, row)
            for (cell, level), row in zip(levels.items(), noise, strict=True)
        }
        biases.append(judge(run(values)).selection_bias(list(values)))
    expected = 0.846 * 1.2533 * 0.01 / math.sqrt(15)
    assert np.mean(biases) == pytest.approx(expected, rel=0.15)


def test_one_cell_or_few_blocks_have_no_selection_bias():
    assert math.isnan(judge(RACE).selection_bias(["a..p"]))
    few = run({"a..p": around(1000)[:5], "b..p": around(1000, OTHER)[:5]})
    assert math.isnan(judge(few).selection_bias(["a..p", "b..p"]))


# ---- offsets between sessions --------------------------------------------------------------------


def test_a_short_kernel_differs_only_beyond_what_sessions_differ_by():
    """3.5 times 0.6 % below 50 us; the same ratio of a long kernel is a difference."""
    verdicts = {}
    for factor in (1, 100):
        times = visit_times(
            run({"a..p": around(1000.0 * factor), "b..p": around(985.0 * factor, OTHER)}),
            CELLS,
            SessionKind.TIMING,
        )
        (row,) = Judge(times, "a").compare([("b..p", "a..p")]).to_dict("records")
        verdicts[factor] = row["verdict"], row["margin"]
        wide = (row["ratio_high"] / row["ratio_low"] - 1) / 2
        assert wide > 1.96 * PRIOR_SDS[0 if factor == 1 else 2]
    assert verdicts[1] == (Verdict.UNCLEAR, pytest.approx(np.expm1(3.5 * 0.006)))
    assert verdicts[100] == (Verdict.FASTER, pytest.approx(0.01))


def test_offsets_that_two_sessions_show_are_estimated_beside_what_is_known():
    """400 pairs with 2 %, and 20 of 0.6 % that are known: the root of the mean of the squares."""
    generator = np.random.default_rng(5)

    def session():
        offsets = np.repeat(generator.normal(0, 0.02, 400), 16)
        return pd.DataFrame(
            {
                "pair": np.repeat(np.arange(400), 16),
                "log_ratio": offsets + generator.normal(0, 0.01, offsets.size),
                "shorter_ns": 5000.0,
            }
        )

    sds = estimated_sds(session(), session())
    assert sds[0] == pytest.approx(math.sqrt((400 * 0.02**2 + 20 * 0.006**2) / 420), rel=0.1)
    assert sds[1:] == PRIOR_SDS[1:]
