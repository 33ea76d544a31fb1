"""Verdicts on pairs whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse import verdicts
from profiler.analyse.verdicts import (
    COLUMNS,
    HELPED_BY_BLOCKS,
    LOOKS,
    Reason,
    compare,
    find_contenders,
    noise_floors,
    undecided_pairs,
)
from profiler.model import Verdict

WIGGLE = np.array([-3, 1, -1, 2, -2, 3, 0.5, -0.5]) / 1000
"""Eight blocks that scatter by 0.2 % around nothing, without ties."""


def frame(times, cycles=None):
    """Tidy blocks of log ratios per pair."""
    rows = [
        {"pair": pair, "block": block, "log_ratio": value}
        for pair, values in times.items()
        for block, value in enumerate(values)
    ]
    found = pd.DataFrame(rows, columns=["pair", "block", "log_ratio"])
    if cycles is not None:
        flat = [value for pair in times for value in cycles[pair]]
        found["log_cycles"] = flat
    return found


def pairs(count, **columns):
    return pd.DataFrame(columns, index=pd.RangeIndex(count, name="pair"))


def one(time, cycles=None, looks=1, **known):
    blocks = frame({0: time}, None if cycles is None else {0: cycles})
    return compare(blocks, pairs(1, **known), looks=looks).loc[0]


@pytest.mark.parametrize(
    ("shift", "verdict", "reason"),
    [
        (-0.05, Verdict.FASTER, Reason.DECIDED),
        (0.0, Verdict.SAME, Reason.WITHIN_MARGIN),
        (0.05, Verdict.SLOWER, Reason.DECIDED),
        (0.01, Verdict.UNCLEAR, Reason.MORE_BLOCKS_NEEDED),
    ],
)
def test_eight_blocks_decide_what_is_clear(shift, verdict, reason):
    found = one(WIGGLE + shift, WIGGLE / 2 + shift, looks=3)
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    assert isinstance(found["verdict"], Verdict)
    assert isinstance(found["reason"], Reason)


def test_the_numbers_beside_a_verdict():
    found = compare(frame({0: WIGGLE + np.log(1.05)}), pairs(1, noise_floor=[np.log(1.02)]))
    assert list(found.columns) == list(COLUMNS)
    assert found.index.name == "pair"
    row = found.loc[0]
    assert row["ratio"] == pytest.approx(1.05, rel=1e-3)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["margin"] == pytest.approx(0.02)
    assert row["noise_floor"] == pytest.approx(0.02)
    assert row["margin"] < row["detectable"] < 0.035
    assert row["blocks"] == len(WIGGLE)
    assert (row["p_faster"], row["p_slower"], row["p_same"]) == (1.0, 0.5**8, 1.0)


def test_without_a_known_floor_the_margin_is_delta():
    row = compare(frame({0: WIGGLE}), pairs(1), delta=0.03).loc[0]
    assert row["margin"] == pytest.approx(0.03)
    assert np.isnan(row["noise_floor"])


def test_a_difference_inside_the_noise_floor_is_no_difference():
    assert one(WIGGLE + 0.05)["verdict"] == Verdict.SLOWER
    assert one(WIGGLE + 0.05, noise_floor=[0.06])["verdict"] == Verdict.SAME


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_fewer_than_six_blocks_have_numbers_and_no_verdict(count):
    row = one([0.5] * count)
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, Reason.FEW_BLOCKS)
    assert row["blocks"] == count
    assert row["ratio"] == pytest.approx(np.exp(0.5))
    assert np.isnan(row["p_faster"])


def test_pairs_without_blocks_have_no_data():
    found = compare(frame({1: WIGGLE, 2: [np.nan] * 8, 3: [-np.inf, np.inf]}), pairs(4))
    for pair in (0, 2, 3):
        row = found.loc[pair]
        assert (row["verdict"], row["reason"]) == (Verdict.NO_DATA, Reason.NOT_MEASURED)
        assert np.isnan(row["ratio"])
        assert row["blocks"] == 0
    assert found.loc[1, "verdict"] == Verdict.SAME


def test_nothing_to_compare_is_an_empty_result():
    assert compare(frame({}), pairs(0)).empty
    assert compare(frame({}), pairs(2))["verdict"].tolist() == [Verdict.NO_DATA] * 2


def test_blocks_of_a_pair_that_is_not_listed_are_refused():
    with pytest.raises(ValueError, match="7"):
        compare(frame({7: WIGGLE}), pairs(1))


def test_labels_of_pairs_and_their_order_are_kept():
    blocks = frame({0: WIGGLE, 1: WIGGLE + 0.1}).assign(
        pair=lambda rows: rows["pair"].map({0: "b", 1: "a"})
    )
    found = compare(blocks, pd.DataFrame(index=["b", "a", "never"]))
    assert found["verdict"].to_dict() == {
        "b": Verdict.SAME,
        "a": Verdict.SLOWER,
        "never": Verdict.NO_DATA,
    }


def test_equal_blocks_without_any_scatter():
    for value, verdict in ((0.0, Verdict.SAME), (0.02, Verdict.SLOWER), (-0.02, Verdict.FASTER)):
        row = one([value] * 8, looks=3)
        assert row["verdict"] == verdict
        assert row["ratio_low"] == row["ratio_high"] == pytest.approx(np.exp(value))


def test_quantised_times_tie_and_are_still_decided():
    ticks = np.array([0, 1, 0, 0, -1, 1, 0, 0]) * 0.004
    assert one(ticks, looks=3)["verdict"] == Verdict.SAME
    assert one(ticks + 0.04, looks=3)["verdict"] == Verdict.SLOWER


def test_one_wild_block_moves_no_verdict():
    spiked = np.append(np.tile(WIGGLE, 2), 5.0)
    assert one(spiked, looks=3)["verdict"] == Verdict.SAME


class TestCycles:
    def test_cycles_that_say_otherwise_make_it_the_clock(self):
        for time, cycles in ((0.05, 0.0), (0.05, -0.05), (-0.05, 0.0), (0.0, 0.05), (0.0, -0.05)):
            row = one(WIGGLE + time, WIGGLE / 2 + cycles)
            assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, Reason.CLOCK)

    def test_cycles_that_do_not_say_yet_confirm_no_difference(self):
        unsure = WIGGLE * 20
        row = one(WIGGLE + 0.05, unsure)
        assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, Reason.CYCLES_UNCLEAR)
        row = one(WIGGLE, unsure)
        assert (row["verdict"], row["reason"]) == (Verdict.SAME, Reason.WITHIN_MARGIN)

    def test_too_few_cycles_confirm_nothing(self):
        few = np.append(WIGGLE[:5] + 0.05, [np.nan] * 3)
        assert one(WIGGLE + 0.05, few)["reason"] == Reason.CYCLES_UNCLEAR

    def test_without_cycles_time_decides_and_the_reason_says_so(self):
        assert one(WIGGLE + 0.05)["reason"] == Reason.DECIDED_BY_TIME
        assert one(WIGGLE)["reason"] == Reason.WITHIN_MARGIN_BY_TIME
        assert one(WIGGLE, [np.nan] * 8)["reason"] == Reason.WITHIN_MARGIN_BY_TIME

    def test_cycles_have_their_own_noise_floor(self):
        cycles = WIGGLE / 2 + 0.02
        assert one(WIGGLE + 0.05, cycles)["verdict"] == Verdict.SLOWER
        noisy = one(WIGGLE + 0.05, cycles, cycles_noise_floor=[0.03])
        assert noisy["reason"] == Reason.CLOCK
        inherited = one(WIGGLE + 0.05, cycles, noise_floor=[0.03], cycles_noise_floor=[np.nan])
        assert inherited["reason"] == Reason.CLOCK
        own = one(WIGGLE + 0.05, cycles, noise_floor=[0.03], cycles_noise_floor=[0.005])
        assert own["verdict"] == Verdict.SLOWER


class TestFamilies:
    """80 pairs; at 8 blocks no one-sided p value is below 1 / 256."""

    @staticmethod
    def verdicts_of(blocks, different, effect=0.05):
        generator = np.random.default_rng(5)
        rows = generator.normal(0, 0.001, size=(80, blocks))
        rows[:different] += np.where(np.arange(different) % 2, effect, -effect)[:, np.newaxis]
        return compare(frame(dict(enumerate(rows))), pairs(80), looks=3)

    def test_eight_blocks_decide_where_most_differ(self):
        found = self.verdicts_of(8, 60)
        assert set(found["verdict"][:60:2]) == {Verdict.FASTER}
        assert set(found["verdict"][1:60:2]) == {Verdict.SLOWER}
        assert set(found["verdict"][60:]) == {Verdict.SAME}

    def test_eight_blocks_do_not_decide_where_one_differs(self):
        found = self.verdicts_of(8, 1, effect=0.025)
        assert found.loc[0, "reason"] == Reason.MANY_COMPARISONS
        assert found.loc[0, "verdict"] == Verdict.UNCLEAR
        assert set(found["verdict"][1:]) == {Verdict.SAME}

    @pytest.mark.parametrize(
        ("blocks", "effect"), [(8, {}), *((blocks, {"effect": 0.025}) for blocks in LOOKS[1:])]
    )
    def test_later_looks_decide_where_one_differs_and_the_first_overwhelmingly(
        self, blocks, effect
    ):
        verdicts = self.verdicts_of(blocks, 1, **effect)
        assert verdicts.loc[0, "verdict"] == Verdict.FASTER
        assert set(verdicts["verdict"][1:]) == {Verdict.SAME}

    @pytest.mark.parametrize("blocks", LOOKS[1:])
    def test_ties_do_not_keep_one_of_many_from_being_decided(self, blocks):
        rows = {pair: [0.0, 0.004] * (blocks // 2) for pair in range(80)}
        rows[0] = [0.05, 0.054] * (blocks // 2)
        found = compare(frame(rows), pairs(80), looks=3)
        assert found.loc[0, "verdict"] == Verdict.SLOWER

    def test_a_pair_of_its_own_family_is_not_held_back(self):
        rows = {pair: WIGGLE + (0.05 if pair == 0 else 0) for pair in range(80)}
        apart = compare(frame(rows), pairs(80, family=["own"] + ["rest"] * 79), looks=3)
        assert apart.loc[0, "verdict"] == Verdict.SLOWER


def test_each_look_spends_its_share():
    # One of the 64 sign patterns of six blocks: 0.0156 is below 0.025 and above 0.05 / 3 / 2.
    assert one([0.02 + each / 1000 for each in range(6)])["verdict"] == Verdict.SLOWER
    assert one([0.02 + each / 1000 for each in range(6)], looks=3)["verdict"] == Verdict.UNCLEAR


def test_six_blocks_tell_the_slow_one_of_three_versions_at_each_of_six_problems():
    """An external program, 2.42 times slower, whose signed ranks could never pass the adjustment.

    `blocks: 6`, one look, no cycles; the other version is equal to the baseline.
    """
    generator = np.random.default_rng(1)
    rows = generator.normal(0, 0.004, size=(12, 6))
    rows[::2] += np.log(2.42)
    known = pairs(12, family=np.repeat(range(6), 2), noise_floor=0.006)
    found = compare(frame(dict(enumerate(rows))), known)
    assert set(found["verdict"][::2]) == {Verdict.SLOWER}
    assert not found["verdict"][1::2].isin([Verdict.SLOWER, Verdict.FASTER]).any()


@pytest.mark.parametrize("blocks", [6, 8])
def test_no_effect_is_overwhelming_with_a_block_that_says_otherwise(blocks):
    rows = [0.9, *[1.0 + each / 1000 for each in range(blocks - 1)]]
    assert one(rows, looks=100)["verdict"] == Verdict.SLOWER
    assert one([0.02, *rows[1:]], looks=100)["verdict"] == Verdict.UNCLEAR
    scattered = np.linspace(0.04, 2.0, blocks)
    assert one(scattered, looks=1000)["verdict"] == Verdict.UNCLEAR, "its scatter is as large"


def test_nothing_is_the_same_whose_interval_reaches_beyond_the_margin():
    """By ranks within 1 % (p 0.04), by its interval up to 1.6 %."""
    rows = [0.016, 0.0155, -0.001, 0.001, 0.002, -0.002, 0.003, -0.003]
    row = one(rows)
    assert row["p_same"] < verdicts.ALPHA
    assert row["ratio_high"] > 1 + row["margin"]
    assert (row["verdict"], row["reason"]) == (Verdict.UNCLEAR, Reason.MORE_BLOCKS_NEEDED)
    mirrored = one([-value for value in rows])
    assert mirrored["verdict"] == Verdict.UNCLEAR


def test_noise_floors_by_problem():
    values = pd.Series([*WIGGLE, *WIGGLE * 10, *[0.1] * 5, np.nan])
    problems = pd.Series(["a"] * 8 + ["b"] * 8 + ["c"] * 5 + ["d"], name="problem")
    floors = noise_floors(values, problems)
    assert floors.index.tolist() == ["a", "b", "c", "d"]
    assert floors.index.name == "problem"
    assert 0.001 < floors["a"] < 0.003
    assert floors["b"] == pytest.approx(10 * floors["a"])
    assert np.isnan(floors["c"])
    assert np.isnan(floors["d"])


def test_undecided_pairs_are_those_that_blocks_may_help():
    found = compare(
        frame({0: WIGGLE + 0.05, 1: WIGGLE + 0.01, 2: WIGGLE, 3: WIGGLE[:3], 4: WIGGLE + 0.01}),
        pairs(6),
    )
    assert undecided_pairs(found).tolist() == [1, 3, 4]


class TestRace:
    @staticmethod
    def times(speeds, blocks=8, noise=0.002):
        generator = np.random.default_rng(3)
        return pd.DataFrame(
            [
                {
                    "problem": problem,
                    "variant": variant,
                    "block": block,
                    "duration_ns": scale * speed * generator.lognormal(0, noise),
                }
                for problem, scale in (("small", 1e3), ("large", 1e6))
                for variant, speed in speeds.items()
                for block in range(blocks)
            ]
        )

    @staticmethod
    def contenders(found, problem="small"):
        return set(found.loc[(found["problem"] == problem) & found["contender"], "variant"])

    def test_slower_variants_leave(self):
        contenders = find_contenders(self.times({"slow": 1.1, "best": 1.0, "close": 1.003}))
        assert self.contenders(contenders) == {"best", "close"}
        assert self.contenders(contenders, "large") == {"best", "close"}
        assert contenders.groupby("problem")["best"].sum().tolist() == [1, 1]
        assert list(contenders.columns) == ["problem", "variant", "best", "contender"]

    def test_with_too_few_blocks_nobody_leaves(self):
        contenders = find_contenders(self.times({"slow": 9.0, "best": 1.0}, blocks=5))
        assert self.contenders(contenders) == {"slow", "best"}

    def test_a_noise_floor_keeps_more_of_them(self):
        times = self.times({"slow": 1.05, "best": 1.0})
        floors = pd.Series({"small": 0.08})
        contenders = find_contenders(times, floors)
        assert self.contenders(contenders) == {"slow", "best"}
        assert self.contenders(contenders, "large") == {"best"}

    def test_who_left_earlier_is_not_the_best_and_may_not_return(self):
        times = self.times({"left": 1.05, "best": 1.0, "close": 1.001}, blocks=16)
        # Everything became slower after the first look, which the one that left never saw.
        times.loc[times["block"] >= verdicts.LOOKS[0], "duration_ns"] *= 1.5
        times = times[(times["variant"] != "left") | (times["block"] < verdicts.LOOKS[0])]
        contenders = find_contenders(times)
        assert self.contenders(contenders) == {"best", "close"}
        assert "left" not in set(contenders.loc[contenders["best"], "variant"])

    def test_one_that_is_measured_longer_for_another_question_does_not_lead(self):
        times = self.times({"best": 1.0, "close": 1.001, "other": 1.2}, blocks=16)
        # Everything became quicker after the first look, which those in the race never saw.
        times.loc[times["block"] >= verdicts.LOOKS[0], "duration_ns"] *= 0.5
        times = times[(times["variant"] == "other") | (times["block"] < verdicts.LOOKS[0])]
        contenders = find_contenders(times)
        assert (
            self.contenders(contenders) == self.contenders(contenders, "large") == {"best", "close"}
        )
        assert set(contenders.loc[contenders["best"], "variant"]) <= {"best", "close"}

    def test_what_was_not_timed_is_no_contender(self):
        times = self.times({"best": 1.0, "failed": 1.0})
        times.loc[times["variant"] == "failed", "duration_ns"] = np.nan
        contenders = find_contenders(times)
        assert self.contenders(contenders) == {"best"}

    def test_no_times_at_all(self):
        assert find_contenders(self.times({"a": 1.0}).iloc[:0]).empty


def test_within_nothing_but_noise_nothing_is_the_same():
    noisy = {"noise_floor": np.log1p(0.3)}
    found = one(WIGGLE, **noisy)
    assert (found["verdict"], found["reason"]) == (Verdict.UNCLEAR, Reason.NOISE)
    assert found["margin"] == pytest.approx(0.3)
    assert Reason.NOISE in HELPED_BY_BLOCKS
    assert Reason.NOT_MEASURED not in HELPED_BY_BLOCKS
    clear = one(WIGGLE + 0.5, **noisy)
    assert clear["verdict"] == Verdict.SLOWER, "what is beyond the noise is beyond it"
    asked = compare(frame({0: WIGGLE}), pairs(1, **noisy), delta=0.5).loc[0]
    assert asked["verdict"] == Verdict.SAME, "a margin as wide was asked for"
    assert one(WIGGLE, noise_floor=np.log1p(0.09))["verdict"] == Verdict.SAME
