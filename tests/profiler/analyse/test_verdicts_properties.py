"""What holds for any data: sides, units, order and missing values."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.verdicts import COLUMNS, Reason, compare, find_contenders
from profiler.model import FEWEST_BLOCKS, Verdict

FLIPPED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}

FLOORS = (np.nan, 0.0, 0.03)
LOOKS = (1, 3)


def measured(fewest=0, most=20, pairs=80):
    """Durations and cycles of both sides of pairs, block by block.

    In whole nanoseconds, as tools give them, so that ties are common; a shift makes decisions
    common.
    """
    generator, rows = np.random.default_rng(4), []
    for pair in range(pairs):
        shift, spread = generator.choice([0.9, 0.98, 1.0, 1.02, 1.1]), generator.integers(1, 21)
        for block in range(generator.integers(fewest, most + 1)):
            before, after, counted = generator.integers(spread, size=3)
            sides = (900 + before, round((900 + after) * shift))
            rows.append((pair, block, *sides, 1500, round((1500 + counted) * shift)))
    columns = ["pair", "block", "before", "after", "cycles_before", "cycles_after"]
    return pd.DataFrame(rows, columns=columns)


TIMES = measured()


def judged(times, floor=np.nan, looks=1, *, cycles=True):
    with np.errstate(all="ignore"):
        blocks = pd.DataFrame(
            {
                "pair": times["pair"],
                "block": times["block"],
                "log_ratio": np.log(times["after"] / times["before"]),
                "log_cycles": np.log(times["cycles_after"] / times["cycles_before"]),
            }
        )
    if not cycles:
        blocks = blocks.drop(columns="log_cycles")
    pairs = pd.DataFrame({"noise_floor": floor}, index=pd.RangeIndex(80, name="pair"))
    return compare(blocks, pairs, looks=looks)


of_floors_and_looks = pytest.mark.parametrize(
    ("floor", "looks"), [(floor, looks) for floor in FLOORS for looks in LOOKS]
)


@of_floors_and_looks
@pytest.mark.parametrize("cycles", [True, False])
def test_swapping_the_sides_flips_the_verdict(floor, looks, cycles):
    there = judged(TIMES, floor, looks, cycles=cycles)
    names = {"before": "after", "cycles_before": "cycles_after"}
    swapped = TIMES.rename(columns=names | {new: old for old, new in names.items()})
    back = judged(swapped, floor, looks, cycles=cycles)
    assert [FLIPPED.get(each, each) for each in there["verdict"]] == back["verdict"].tolist()
    assert there["reason"].tolist() == back["reason"].tolist()
    np.testing.assert_allclose(back["ratio"], 1 / there["ratio"])
    np.testing.assert_allclose(back["p_faster"], there["p_slower"])


@of_floors_and_looks
@pytest.mark.parametrize(("factor", "cycles_factor"), [(1e-6, 0.7), (0.7, 1e6)])
def test_the_unit_of_time_changes_nothing(factor, cycles_factor, floor, looks):
    scaled = TIMES.astype(float)
    scaled[["before", "after"]] *= factor
    scaled[["cycles_before", "cycles_after"]] *= cycles_factor
    one, other = judged(TIMES, floor, looks), judged(scaled, floor, looks)
    assert one["verdict"].tolist() == other["verdict"].tolist()
    assert one["reason"].tolist() == other["reason"].tolist()
    for column in COLUMNS[2:]:
        np.testing.assert_allclose(one[column], other[column], rtol=1e-9, atol=1e-12)


def test_equal_ratios_stay_equal_in_any_unit():
    """0.99 three times: in another unit they differ in last digits, which moved the interval."""
    before = [1000.0, 1000.0, 1000.0, 900.0, 900.0, 900.0]
    after = [970.0, 990.0, 990.0, 891.0, 918.0, 882.0]
    cycles = {"cycles_before": 1500.0, "cycles_after": 1500.0}
    times = pd.DataFrame({"pair": 0, "block": range(6), "before": before, "after": after} | cycles)
    scaled = times.assign(before=times["before"] * 0.7, after=times["after"] * 0.7)
    one, other = judged(times).iloc[0], judged(scaled).iloc[0]
    assert one["ratio_low"] < one["ratio_high"]
    for name in ("ratio", "ratio_low", "ratio_high"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12)


@of_floors_and_looks
def test_identical_data_is_the_same_or_unclear(floor, looks):
    times = TIMES.assign(after=TIMES["before"], cycles_after=TIMES["cycles_before"])
    found = judged(times, floor, looks)
    measured_ones = found[found["blocks"] > 0]
    assert set(measured_ones["verdict"]) == {Verdict.SAME, Verdict.UNCLEAR}
    assert (measured_ones["ratio"] == 1).all()


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("factor", [0.01, 1, 100])
def test_few_blocks_never_give_a_verdict(factor, looks):
    times = measured(most=FEWEST_BLOCKS - 1)
    found = judged(times.assign(after=times["after"] * factor), looks=looks)
    assert set(found["verdict"]) == {Verdict.UNCLEAR, Verdict.NO_DATA}
    assert set(found["reason"]) == {Reason.FEW_BLOCKS, Reason.NOT_MEASURED}


@of_floors_and_looks
def test_the_order_of_the_blocks_changes_nothing(floor, looks):
    in_order = judged(TIMES, floor, looks)
    shuffled = judged(TIMES.sample(frac=1, random_state=1), floor, looks)
    pd.testing.assert_frame_equal(in_order, shuffled)


def test_missing_and_zero_values_are_blocks_that_were_not_measured():
    generator = np.random.default_rng(6)
    times = measured(fewest=1).astype(float).astype({"pair": int})
    for value in [np.nan, 0.0, np.inf] * 60:
        times.iloc[generator.integers(len(times)), generator.integers(2, times.shape[1])] = value
    found = judged(times)
    good = times[np.isfinite(times[["before", "after"]]).all(axis=1)]
    good = good[(good[["before", "after"]] > 0).all(axis=1)]
    counts = good.groupby("pair").size().reindex(found.index, fill_value=0)
    assert found["blocks"].tolist() == counts.tolist()
    assert (found["verdict"].isin([Verdict.NO_DATA]) == (counts == 0)).all()
    assert not np.isinf(found[list(COLUMNS[2:])].to_numpy(dtype=float)).any()


def test_the_race_has_one_best_that_contends_in_any_unit():
    """Four variants at each of many problems, as the pairs of any data."""
    times = measured(fewest=1)
    arms = pd.DataFrame(
        {
            "problem": times["pair"] // 4,
            "variant": times["pair"] % 4,
            "block": times["block"],
            "duration_ns": times["after"].astype(float),
        }
    )
    contenders = find_contenders(arms)
    assert (contenders.groupby(contenders["problem"])["best"].sum() == 1).all()
    assert contenders.loc[contenders["best"], "contender"].all()
    for factor in (2.0**-20, 2.0**20):
        again = find_contenders(arms.assign(duration_ns=arms["duration_ns"] * factor))
        pd.testing.assert_frame_equal(contenders, again)
