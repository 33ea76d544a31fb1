"""Parameters that only act at launch keep variants apart whose machine code is the same."""

from pathlib import Path

from profiler.errors import SpecError
from profiler.kernels.recipe import Recipe
from profiler.model import Variant
from profiler.sessions.builds.plan_builds import launch_params

SOURCE = (Path("k.cu"),)


def variants(*params):
    return [Variant(str(number), str(number), each) for number, each in enumerate(params)]


def compile_tile(params):
    if params.get("tile") == 64 and params.get("stages") == 3:
        raise SpecError("too much shared memory")
    return Recipe(SOURCE, {"TILE": params.get("tile", 32)})


def test_a_parameter_that_reaches_no_recipe_acts_at_launch():
    found = launch_params(variants({"tile": 32, "grid": 1}, {"tile": 64, "grid": 2}), compile_tile)
    assert found == {"0": {"grid": 1}, "1": {"grid": 2}}


def test_a_parameter_that_is_compiled_does_not():
    found = launch_params(variants({"tile": 32}, {"tile": 64}), compile_tile)
    assert found == {"0": {}, "1": {}}


def test_a_parameter_that_one_variant_leaves_out():
    found = launch_params(variants({"tile": 64}, {}), compile_tile)
    assert found == {"0": {}, "1": {}}
    found = launch_params(variants({"tile": 64, "grid": 1}, {"tile": 64}), compile_tile)
    assert found["0"] == {"tile": 64, "grid": 1}
    assert found["1"] == {"tile": 64}


def test_a_refused_combination_says_nothing():
    found = launch_params(
        variants({"tile": 64, "stages": 2}, {"tile": 32, "stages": 3}), compile_tile
    )
    assert found["0"] == {"stages": 2}
    assert found["1"] == {"stages": 3, "tile": 32}


def test_values_of_different_types_are_different():
    found = launch_params(variants({"flag": 1}, {"flag": True}), lambda params: None)
    assert found == {"0": {"flag": 1}, "1": {"flag": True}}
