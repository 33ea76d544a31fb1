import itertools

import pytest

from softmax import space


def test_every_default_variant_is_accepted():
    for algorithm in space.DEFAULTS:
        assert space.check_variant({"algorithm": algorithm}) is None


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "algorithm must be one of"),
        ({"algorithm": "fused"}, "'fused'"),
        ({"algorithm": "torch", "block_size": 256}, "block_size has no effect"),
        ({"algorithm": "warp", "block_size": 256}, "block_size has no effect"),
        ({"algorithm": "naive", "vector_width": 4}, "vector_width has no effect"),
        ({"algorithm": "naive", "block_size": 100}, "block_size must be one of"),
        ({"algorithm": "naive", "block_size": "256"}, "block_size must be one of"),
        ({"algorithm": "warp", "rows_per_block": True}, "rows_per_block must be one of"),
        ({"algorithm": "online", "vector_width": None}, "vector_width must be one of"),
        (
            {"algorithm": "vector", "block_size": 128, "rows_per_block": 8},
            "16 threads, less than one warp",
        ),
        (
            {"algorithm": "vector", "block_size": 1024, "min_blocks_per_sm": 4},
            "more than 2048 threads",
        ),
    ],
)
def test_a_combination_that_cannot_act_is_refused_with_its_reason(params, words):
    reason = space.check_variant(params)
    assert reason is not None
    assert words in reason


def test_refused_combinations_have_no_recipe():
    with pytest.raises(ValueError, match="no effect"):
        space.recipe({"algorithm": "torch", "block_size": 256})


def test_every_parameter_that_acts_reaches_the_compiler():
    for algorithm, defaults in space.DEFAULTS.items():
        recipe = space.recipe({"algorithm": algorithm})
        if not defaults:
            assert recipe is None
            continue
        assert recipe.defines == {name.upper(): value for name, value in defaults.items()}
        (source,) = recipe.sources
        assert source.is_absolute()
        text = "".join(path.read_text() for path in (source, *source.parent.glob("*.cuh")))
        for name in recipe.defines:
            assert name in text


def test_a_parameter_left_out_is_its_default():
    short = space.recipe({"algorithm": "vector"})
    long = space.recipe({"algorithm": "vector", **space.DEFAULTS["vector"]})
    assert short == long


def test_names_tell_variants_apart():
    variants = [
        {"algorithm": "vector", "block_size": block, "rows_per_block": rows, "vector_width": width}
        for block, rows, width in itertools.product((128, 256), (1, 4), (1, 8))
    ]
    names = {space.variant_name(params) for params in variants}
    assert len(names) == len(variants)
    assert "vector-b256-r4-v8" in names
    assert space.variant_name({"algorithm": "torch"}) == "torch"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"rows": 0, "columns": 4, "dtype": "float16"}, "rows must be a positive"),
        ({"rows": 4, "dtype": "float16"}, "columns must be a positive"),
        ({"rows": True, "columns": 4, "dtype": "float16"}, "rows must be a positive"),
        ({"rows": 4, "columns": 4, "dtype": "int8"}, "dtype must be one of"),
    ],
)
def test_problems_that_make_no_sense(params, words):
    assert words in (space.check_problem(params) or "")


def test_columns_must_be_a_multiple_of_the_vector_width():
    problem = {"rows": 4, "columns": 1001, "dtype": "float16"}
    assert space.check_problem(problem) is None
    assert space.check_cell({"algorithm": "naive"}, problem) is None
    reason = space.check_cell({"algorithm": "vector", "vector_width": 8}, problem)
    assert reason == "1001 columns are no multiple of the vector width 8"
    assert space.check_cell({"algorithm": "vector"}, {**problem, "columns": 1000}) is None
