from pathlib import Path

import pytest

from profiler.planning.matrix import expand
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from softmax import space

SPEC = Path(__file__).parents[2] / "experiments" / "softmax.yaml"


@pytest.fixture(scope="module")
def expanded():
    loaded = load_spec(SPEC)
    return expand(loaded, space_of(loaded))


def test_the_experiment_has_many_distinct_programs(expanded):
    recipes = [space.recipe(variant.params) for variant in expanded.variants]
    tunings = {
        (recipe.sources, tuple(sorted(recipe.defines.items()))) for recipe in recipes if recipe
    }
    assert len(tunings) == sum(recipe is not None for recipe in recipes) >= 24
    algorithms = {variant.params["algorithm"] for variant in expanded.variants}
    assert algorithms == set(space.DEFAULTS)


def test_the_experiment_covers_the_sizes(expanded):
    problems = [problem.params for problem in expanded.problems]
    half = {(each["columns"], each["rows"]) for each in problems if each["dtype"] == "float16"}
    single = {(each["columns"], each["rows"]) for each in problems if each["dtype"] == "float32"}
    assert half == {(c, r) for c in (1024, 4096, 16384) for r in (512, 8192, 65536)}
    assert single == {(c, 8192) for c in (1024, 4096, 16384)}


def test_what_was_left_out_says_why(expanded):
    reasons = {each.reason: each.count for each in expanded.excluded}
    assert sum(reasons.values()) == 12
    assert all(reasons)
