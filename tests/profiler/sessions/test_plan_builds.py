"""Builds of a plan: parameters that act at launch, and those without effect."""

from pathlib import Path

from profiler.errors import SpecError
from profiler.kernels.recipe import Recipe
from profiler.model import BuildResult, Variant
from profiler.sessions.builds.plan_builds import launch_params, without_effect

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


def told(*programs_and_params):
    variants = [
        Variant(str(n), str(n), params) for n, (_, params) in enumerate(programs_and_params)
    ]
    builds = [
        BuildResult(str(n), ok=program is not None, program=program)
        for n, (program, _) in enumerate(programs_and_params)
    ]
    return [note.split("'")[1] for note in without_effect(variants, builds)]


def test_a_parameter_that_changes_no_program_is_named():
    rows = [("a", {"TILE": 16, "PAD": 0}), ("a", {"TILE": 16, "PAD": 1}), ("b", {"TILE": 32})]
    assert told(*rows, ("b", {"TILE": 32, "PAD": 1})) == ["PAD"]


def test_one_pair_that_differs_is_enough():
    rows = [("a", {"TILE": 16, "PAD": 0}), ("a", {"TILE": 16, "PAD": 1})]
    assert told(*rows, ("b", {"TILE": 32, "PAD": 0}), ("c", {"TILE": 32, "PAD": 1})) == []


def test_what_was_not_built_or_has_no_pair_says_nothing():
    assert told((None, {"TILE": 16}), (None, {"TILE": 32})) == []
    assert told(("a", {"TILE": 16})) == []
    assert told(("a", {"TILE": 16}), ("a", {"PAD": 1, "OTHER": 2})) == []
