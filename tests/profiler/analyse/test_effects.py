"""Effects of parameters: who is paired with whom, and what the pairs say."""

import math
from dataclasses import replace

import pytest
from analyse_frames import samples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyse.effects import counter_changes, effects, judge_steps, over_problems, steps
from profiler.analyse.intervals import NO_OFFSETS
from profiler.analyse.judge import Judge, Rules, visit_times
from profiler.analyse.verdicts import Reason
from profiler.model import Cell, Problem, SessionKind, Variant, Verdict, cell_id

small = st.fixed_dictionaries(
    {"tile": st.sampled_from([32, 64, 128]), "async": st.booleans()},
    optional={"swizzle": st.sampled_from([None, "xor", "none"])},
)
spaces = st.lists(small, min_size=1, max_size=10, unique_by=lambda one: str(sorted(one.items())))


def named(params):
    name = ",".join(f"{key}={value}" for key, value in params.items())
    return Variant(name, name, params)


def blocks(values):
    return {(name, "p"): dict(enumerate(row)) for name, row in values.items()}


@given(spaces)
def test_the_two_of_a_pair_differ_in_their_parameter_only(space):
    for step in steps([named(params) for params in space]):
        for before, after in step.pairs:
            keys = {*before.params, *after.params}
            differing = {key for key in keys if before.params.get(key) != after.params.get(key)}
            assert differing == {step.parameter}
            assert before.params.get(step.parameter) == step.before
            assert after.params.get(step.parameter) == step.after


@given(spaces)
def test_every_pair_that_differs_in_one_parameter_is_found_once(space):
    variants = [named(params) for params in space]
    found = [frozenset((a.id, b.id)) for step in steps(variants) for a, b in step.pairs]
    wanted = {
        frozenset((one.id, other.id))
        for one in variants
        for other in variants
        if len({*one.params.items()} ^ {*other.params.items()}) == 2
        and one.params.keys() == other.params.keys()
    }
    assert len(found) == len(set(found))
    assert wanted <= set(found)


def test_values_go_up_and_what_is_not_set_comes_first():
    space = [{"k": 128}, {"k": 32}, {}, {"k": 64}]
    found = [(step.before, step.after) for step in steps([named(variant) for variant in space])]
    assert found == [(None, 32), (None, 64), (None, 128), (32, 64), (32, 128), (64, 128)]


def test_only_the_parameters_that_were_asked_for():
    space = [{"a": x, "b": y} for x in (1, 2) for y in (1, 2)]
    variants = [named(variant) for variant in space]
    assert [step.parameter for step in steps(variants, ["b", "nowhere"])] == ["b"]


@settings(max_examples=25)
@given(
    st.floats(0.2, 5.0),
    st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8),
    st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8),
)
def test_drift_that_both_of_a_pair_share_cancels_out(factor, first, second):
    space = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(variant) for variant in space]
    rows = (first, [x * factor for x in first], second, [x * factor for x in second])
    values = blocks({one.id: list(row) for one, row in zip(variants, rows, strict=True)})
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.pairs == 2
    for number in (effect.ratio, effect.low, effect.high, effect.smallest, effect.largest):
        assert number == pytest.approx(factor, rel=1e-9)


def test_the_mean_is_geometric_and_the_range_is_that_of_the_pairs():
    space = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(variant) for variant in space]
    values = {(one.id, "p"): {0: time} for one, time in zip(variants, (10, 5, 10, 40), strict=True)}
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.ratio == pytest.approx(math.sqrt(0.5 * 4.0))
    assert (effect.smallest, effect.largest) == (pytest.approx(0.5), pytest.approx(4.0))
    assert math.isnan(effect.low)


def test_ratios_are_quotients_of_the_medians_of_the_pairs():
    """One pair is slow in blocks of its own: the median of ratios is none of durations."""
    space = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(variant) for variant in space]
    before, after = [10.0, 11.0, 12.0, 13.0, 14.0], [15.0, 9.0, 14.0, 11.0, 12.0]
    rows = (before, after, before, before)
    values = blocks({one.id: row for one, row in zip(variants, rows, strict=True)})
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.smallest == 1.0
    assert effect.largest == 1.0
    assert effect.ratio == 1.0
    assert effect.low <= 1.0 <= effect.high
    values |= {(variants[1].id, "p"): dict(enumerate([15.0, 10.0, 14.0, 11.0, 13.0]))}
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.largest == pytest.approx(13 / 12)
    assert effect.ratio == pytest.approx(math.sqrt(13 / 12))


def test_a_pair_that_lacks_a_value_or_a_common_block_does_not_count():
    space = [{"on": on, "tile": tile} for tile in (1, 2, 3) for on in (False, True)]
    variants = [named(variant) for variant in space]
    rows = ({0: 2.0}, {0: 4.0}, {0: 2.0}, {}, {0: 2.0}, {1: 9.0})
    values = {(one.id, "p"): row for one, row in zip(variants, rows, strict=True)}
    found = effects(steps(variants, ["on"]), values, ["p", "q"])
    assert [(effect.problem, effect.pairs) for effect in found[0]] == [("p", 1), ("q", 0)]
    assert math.isnan(found[0][1].ratio)
    whole = over_problems(found[0])
    assert (whole.pairs, whole.ratio) == (1, pytest.approx(2.0))
    assert over_problems(found[0][1:]).pairs == 0


def test_no_steps_no_effects():
    assert effects((), {}, ["p"]) == ()
    assert effects(steps([named({"a": 1}), named({"a": 2})]), {}, []) == ((),)


def test_counters_are_compared_by_their_means():
    space = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(variant) for variant in space]
    (step,) = steps(variants, ["on"])
    medians = {(one.id, "p"): number for one, number in zip(variants, (0.0, 4, 8, 0), strict=True)}
    there, nowhere = counter_changes(step, medians, ["p", "q"])
    assert (there.pairs, there.before, there.after) == (2, 4.0, 2.0)
    assert (nowhere.pairs, math.isnan(nowhere.before)) == (0, True)


# ---- verdicts ------------------------------------------------------------------------------------

STEADY = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0]


def judge_of(values, variants):
    """Durations by variant id at the problem p, with cycles that agree."""
    problem = Problem("p", "p")
    cells = [Cell(cell_id(one, problem), one, problem) for one in variants]
    frame = samples_of({f"{name}..p": row for name, row in values.items()})
    times = visit_times(frame.assign(cycles=frame["duration_ns"] * 1.8), cells, SessionKind.TIMING)
    return Judge(times, None, Rules(), NO_OFFSETS)


def ids_of(variants):
    return {(one.id, "p"): f"{one.id}..p" for one in variants}


def test_a_step_of_one_pair_has_the_verdict_of_that_pair():
    variants = [named({"k": 1}), named({"k": 2}), named({"k": 3})]
    values = {
        "k=1": STEADY,
        "k=2": [0.9 * time for time in STEADY],
        "k=3": [0.901 * time for time in STEADY],
    }
    judge = judge_of(values, variants)
    step_verdicts = judge_steps(steps(variants), judge, ids_of(variants), ["p"])
    assert step_verdicts["verdict"].tolist() == [Verdict.FASTER, Verdict.FASTER, Verdict.SAME]
    pairs = [("k=2..p", "k=1..p"), ("k=3..p", "k=1..p"), ("k=3..p", "k=2..p")]
    alone = judge.compare(pairs)
    for name in ("verdict", "reason", "blocks"):
        assert step_verdicts[name].tolist() == alone[name].tolist()
    for name in ("ratio", "ratio_low", "ratio_high"):
        assert step_verdicts[name].tolist() == pytest.approx(alone[name].tolist())
    several_kernels = judge.times.assign(kernels=1.0 + 2 * (judge.times["variant"] == "k=2"))
    judge = replace(judge, times=several_kernels)
    step_verdicts = judge_steps(steps(variants), judge, ids_of(variants), ["p"])
    assert step_verdicts["reason"].tolist() == judge.compare(pairs)["reason"].tolist()
    assert step_verdicts["reason"].tolist() == [Reason.GAPS, Reason.DECIDED, Reason.GAPS]


def test_pairs_of_a_step_are_judged_by_their_mean():
    variants = [named({"k": k, "j": j}) for j in (1, 2) for k in (1, 2)]
    values = {one.id: STEADY for one in variants}
    values["k=2,j=1"] = [0.9 * time for time in STEADY]
    values["k=2,j=2"] = [time / 0.9 for time in STEADY]
    judge = judge_of(values, variants)
    (step,) = steps(variants, ["k"])
    row = judge_steps([step], judge, ids_of(variants), ["p"]).iloc[0]
    assert row["ratio"] == pytest.approx(1.0)
    assert row["verdict"] == Verdict.SAME
    effect = effects([step], blocks(values), ["p"])[0][0]
    assert effect.ratio == pytest.approx(row["ratio"])


def test_blocks_that_lack_a_pair_are_left_out():
    variants = [named({"k": k, "j": j}) for j in (1, 2) for k in (1, 2)]
    values = {one.id: STEADY for one in variants}
    values["k=2,j=2"] = STEADY[:6]
    (step,) = steps(variants, ["k"])
    row = judge_steps([step], judge_of(values, variants), ids_of(variants), ["p"]).iloc[0]
    assert row["blocks"] == 6


def test_a_pair_without_any_block_does_not_count():
    variants = [named({"k": k, "j": j}) for j in (1, 2) for k in (1, 2)]
    values = {one.id: STEADY for one in variants if one.id != "k=2,j=2"}
    cells = ids_of(variants)
    (step,) = steps(variants, ["k"])
    row = judge_steps([step], judge_of(values, variants), cells, ["p"]).iloc[0]
    assert row["blocks"] == 8
    del cells["k=2,j=1", "p"]
    row = judge_steps([step], judge_of(values, variants), cells, ["p"]).iloc[0]
    assert (row["verdict"], row["reason"]) == (Verdict.NO_DATA, Reason.NOT_MEASURED)
