"""What holds for any data: sides, units, order and missing values."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyse.verdicts import COLUMNS, Reason, compare, find_contenders
from profiler.model import FEWEST_BLOCKS, Verdict

FLIPPED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}

LOOKS = st.sampled_from([1, 3])
FLOORS = st.one_of(st.just(np.nan), st.floats(0, 0.1))
# Whole nanoseconds, as tools give them, so that ties are common; a shift makes decisions common.
TICKS = st.integers(900, 1000)


@st.composite
def measured(draw, fewest=0, most=20):
    """Durations and cycles of both sides of a few pairs, block by block."""
    rows = []
    for pair in range(draw(st.integers(1, 4))):
        blocks = draw(st.integers(fewest, most))
        shift, spread = draw(st.sampled_from([0.9, 0.98, 1.0, 1.02, 1.1])), draw(st.integers(1, 20))
        for block in range(blocks):
            before, after = (900 + draw(TICKS) % spread for _ in range(2))
            cycles = 1500 + draw(TICKS) % spread
            rows.append((pair, block, before, round(after * shift), 1500, round(cycles * shift)))
    columns = ["pair", "block", "before", "after", "cycles_before", "cycles_after"]
    return pd.DataFrame(rows, columns=columns)


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
    pairs = pd.DataFrame({"noise_floor": floor}, index=pd.RangeIndex(4, name="pair"))
    return compare(blocks, pairs, looks=looks)


@settings(max_examples=30)
@given(measured(), FLOORS, LOOKS, st.booleans())
def test_swapping_the_sides_flips_the_verdict(times, floor, looks, cycles):
    there = judged(times, floor, looks, cycles=cycles)
    names = {"before": "after", "cycles_before": "cycles_after"}
    swapped = times.rename(columns=names | {new: old for old, new in names.items()})
    back = judged(swapped, floor, looks, cycles=cycles)
    assert [FLIPPED.get(each, each) for each in there["verdict"]] == back["verdict"].tolist()
    assert there["reason"].tolist() == back["reason"].tolist()
    np.testing.assert_allclose(back["ratio"], 1 / there["ratio"])
    np.testing.assert_allclose(back["p_faster"], there["p_slower"])


@settings(max_examples=30)
@given(measured(), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), FLOORS, LOOKS)
def test_the_unit_of_time_changes_nothing(times, factor, cycles_factor, floor, looks):
    scaled = times.copy()
    scaled[["before", "after"]] *= factor
    scaled[["cycles_before", "cycles_after"]] *= cycles_factor
    one, other = judged(times, floor, looks), judged(scaled, floor, looks)
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


@settings(max_examples=25)
@given(measured(), FLOORS, LOOKS)
def test_identical_data_is_the_same_or_unclear(times, floor, looks):
    times = times.assign(after=times["before"], cycles_after=times["cycles_before"])
    found = judged(times, floor, looks)
    measured_ones = found[found["blocks"] > 0]
    assert set(measured_ones["verdict"]) <= {Verdict.SAME, Verdict.UNCLEAR}
    assert (measured_ones["ratio"] == 1).all()


@settings(max_examples=25)
@given(measured(most=FEWEST_BLOCKS - 1), st.floats(0.01, 100), LOOKS)
def test_few_blocks_never_give_a_verdict(times, factor, looks):
    found = judged(times.assign(after=times["after"] * factor), looks=looks)
    assert set(found["verdict"]) <= {Verdict.UNCLEAR, Verdict.NO_DATA}
    assert set(found["reason"]) <= {Reason.FEW_BLOCKS, Reason.NOT_MEASURED}


@settings(max_examples=25)
@given(measured(), st.integers(0, 2**32 - 1), FLOORS, LOOKS)
def test_the_order_of_the_blocks_changes_nothing(times, seed, floor, looks):
    shuffled = times.sample(frac=1, random_state=seed)
    one, other = judged(times, floor, looks), judged(shuffled, floor, looks)
    pd.testing.assert_frame_equal(one, other)


@settings(max_examples=30)
@given(
    measured(fewest=1),
    st.lists(st.sampled_from([np.nan, 0.0, np.inf]), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_missing_and_zero_values_are_blocks_that_were_not_measured(times, bad, seed):
    generator = np.random.default_rng(seed)
    times = times.astype(float)
    times["pair"] = times["pair"].astype(int)
    for value in bad:
        row = generator.integers(len(times))
        times.iloc[row, generator.integers(2, times.shape[1])] = value
    found = judged(times)
    good = times[np.isfinite(times[["before", "after"]]).all(axis=1)]
    good = good[(good[["before", "after"]] > 0).all(axis=1)]
    counts = good.groupby("pair").size().reindex(found.index, fill_value=0)
    assert found["blocks"].tolist() == counts.tolist()
    assert (found["verdict"].isin([Verdict.NO_DATA]) == (counts == 0)).all()
    assert not np.isinf(found[list(COLUMNS[2:])].to_numpy(dtype=float)).any()


@settings(max_examples=25)
@given(measured(fewest=1), st.integers(-20, 20).map(lambda power: 2.0**power))
def test_the_race_has_one_best_that_contends_in_any_unit(times, factor):
    arms = pd.DataFrame(
        {
            "problem": "p",
            "variant": times["pair"],
            "block": times["block"],
            "duration_ns": times["after"].astype(float),
        }
    )
    contenders = find_contenders(arms)
    assert contenders["best"].sum() == 1
    assert contenders.loc[contenders["best"], "contender"].all()
    again = find_contenders(arms.assign(duration_ns=arms["duration_ns"] * factor))
    pd.testing.assert_frame_equal(contenders, again)
