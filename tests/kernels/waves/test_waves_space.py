import itertools
import math

import pytest

from waves import space


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"threads": 128}, "threads is no parameter"),
        ({"blocks_per_sm": 3}, "blocks_per_sm must be one of 1, 2, 4, 8, 16, not 3"),
        ({"chains": True}, "chains must be one of"),
        ({"block_size": 512, "blocks_per_sm": 8}, "4096 threads are more than the 2048"),
    ],
)
def test_what_is_no_kernel_says_why(params, words):
    assert words in space.check_variant(params)
    with pytest.raises(ValueError, match=r"parameter|must be|more than"):
        space.steps_of(params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"waves": 0}, "above 0 and at most 64, not 0"),
        ({"waves": 65}, "above 0 and at most 64, not 65"),
        ({"waves": "1"}, "waves must be a number, not '1'"),
        ({"waves": True}, "waves must be a number, not True"),
        ({"waves": 1, "blocks": 4}, "blocks is no parameter of a grid"),
        ({}, "waves must be a number, not None"),
    ],
)
def test_what_is_no_number_of_waves_says_why(params, words):
    assert words in space.check_problem(params)
    with pytest.raises(ValueError, match="waves"):
        space.waves_of(params)


def test_every_kernel_does_the_same_work_in_a_wave():
    for values in itertools.product(*space.CHOICES.values()):
        params = dict(zip(space.CHOICES, values, strict=True))
        if space.check_variant(params) is None:
            assert space.steps_of(params) * math.prod(values) == space.WORK, params


@pytest.mark.parametrize(
    ("waves", "per_wave", "blocks"),
    [
        (0.25, 132, 33),
        (1, 132, 132),
        (0.99, 132, 130),
        (1.01, 132, 134),
        (2.01, 528, 1062),
        (0.99, 20, 19),
        (1.01, 20, 21),
        (0.01, 20, 1),
        (0.1, 30, 3),
        (0.7, 10, 7),
        (1.1, 70, 77),
    ],
)
def test_grids_round_away_from_whole_waves(waves, per_wave, blocks):
    assert space.blocks_of(waves, per_wave) == blocks


def test_a_grid_is_never_on_the_other_side_of_a_whole_wave():
    for per_wave in range(1, 300):
        for whole in (1, 2, 7):
            assert space.blocks_of(whole, per_wave) == whole * per_wave
            assert space.blocks_of(whole + 0.01, per_wave) > whole * per_wave
            below = space.blocks_of(whole - 0.01, per_wave)
            assert below < whole * per_wave or below == 1


def test_names_and_recipes_hold_everything():
    params = {"blocks_per_sm": 4, "chains": 2}
    assert space.variant_name(params) == "4x128-c2"
    recipe = space.recipe(params)
    assert recipe.defines == {"BLOCK_SIZE": 128, "BLOCKS_PER_SM": 4, "CHAINS": 2}
    assert [source.name for source in recipe.sources] == ["waves.cu"]
    assert recipe.sources[0].is_file()
    assert math.prod(recipe.defines.values()) * space.steps_of(params) == space.WORK
