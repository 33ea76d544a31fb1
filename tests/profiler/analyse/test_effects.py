"""Effects of parameters: who is paired with whom, and what the pairs say."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyse.effects import effects, moves, over_problems, steps
from profiler.model import Params, Variant

small = st.fixed_dictionaries(
    {"tile": st.sampled_from([32, 64, 128]), "async": st.booleans()},
    optional={"swizzle": st.sampled_from([None, "xor", "none"])},
)
spaces = st.lists(small, min_size=1, max_size=10, unique_by=lambda one: str(sorted(one.items())))


def named(params: Params) -> Variant:
    name = ",".join(f"{key}={value}" for key, value in params.items())
    return Variant(name, name, params)


def blocks(values: Mapping[str, list[float]]) -> dict[tuple[str, str], dict[int, float]]:
    return {(name, "p"): dict(enumerate(row)) for name, row in values.items()}


@given(spaces)
def test_the_two_of_a_pair_differ_in_their_parameter_only(space: list[Params]) -> None:
    for step in steps([named(params) for params in space]):
        for before, after in step.pairs:
            keys = {*before.params, *after.params}
            differing = {key for key in keys if before.params.get(key) != after.params.get(key)}
            assert differing == {step.parameter}
            assert before.params.get(step.parameter) == step.before
            assert after.params.get(step.parameter) == step.after


@given(spaces)
def test_every_pair_that_differs_in_one_parameter_is_found_once(space: list[Params]) -> None:
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


def test_values_go_up_and_what_is_not_set_comes_first() -> None:
    space: list[Params] = [{"k": 128}, {"k": 32}, {}, {"k": 64}]
    found = [(step.before, step.after) for step in steps([named(one) for one in space])]
    assert found == [(None, 32), (None, 64), (None, 128), (32, 64), (32, 128), (64, 128)]


def test_only_the_parameters_that_were_asked_for() -> None:
    space: list[Params] = [{"a": x, "b": y} for x in (1, 2) for y in (1, 2)]
    variants = [named(one) for one in space]
    assert [step.parameter for step in steps(variants, ["b", "nowhere"])] == ["b"]


@settings(deadline=None, max_examples=25)
@given(
    st.floats(0.2, 5.0),
    st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8),
    st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8),
)
def test_drift_that_both_of_a_pair_share_cancels_out(
    factor: float, first: list[float], second: list[float]
) -> None:
    space: list[Params] = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(one) for one in space]
    rows = (first, [x * factor for x in first], second, [x * factor for x in second])
    values = blocks({one.id: list(row) for one, row in zip(variants, rows, strict=True)})
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.pairs == 2
    for number in (effect.ratio, effect.low, effect.high, effect.smallest, effect.largest):
        assert number == pytest.approx(factor, rel=1e-9)


def test_the_mean_is_geometric_and_the_range_is_that_of_the_pairs() -> None:
    space: list[Params] = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(one) for one in space]
    values = {(one.id, "p"): {0: time} for one, time in zip(variants, (10, 5, 10, 40), strict=True)}
    ((effect,),) = effects(steps(variants, ["on"]), values, ["p"])
    assert effect.ratio == pytest.approx(math.sqrt(0.5 * 4.0))
    assert (effect.smallest, effect.largest) == (pytest.approx(0.5), pytest.approx(4.0))
    assert math.isnan(effect.low)


def test_a_pair_that_lacks_a_value_or_a_common_block_does_not_count() -> None:
    space: list[Params] = [{"on": on, "tile": tile} for tile in (1, 2, 3) for on in (False, True)]
    variants = [named(one) for one in space]
    rows = ({0: 2.0}, {0: 4.0}, {0: 2.0}, {}, {0: 2.0}, {1: 9.0})
    values = {(one.id, "p"): row for one, row in zip(variants, rows, strict=True)}
    found = effects(steps(variants, ["on"]), values, ["p", "q"])
    assert [(effect.problem, effect.pairs) for effect in found[0]] == [("p", 1), ("q", 0)]
    assert math.isnan(found[0][1].ratio)
    whole = over_problems(found[0])
    assert (whole.pairs, whole.ratio) == (1, pytest.approx(2.0))
    assert over_problems(found[0][1:]).pairs == 0


def test_no_steps_no_effects() -> None:
    assert effects((), {}, ["p"]) == ()
    assert effects(steps([named({"a": 1}), named({"a": 2})]), {}, []) == ((),)


def test_counters_are_compared_by_their_means() -> None:
    space: list[Params] = [{"on": on, "tile": tile} for tile in (1, 2) for on in (False, True)]
    variants = [named(one) for one in space]
    (step,) = steps(variants, ["on"])
    medians = {(one.id, "p"): number for one, number in zip(variants, (0.0, 4, 8, 0), strict=True)}
    there, nowhere = moves(step, medians, ["p", "q"])
    assert (there.pairs, there.before, there.after) == (2, 4.0, 2.0)
    assert (nowhere.pairs, math.isnan(nowhere.before)) == (0, True)
