"""The kernel on an NVIDIA GPU: right values, and a grid that is what the problem asks for."""

import pytest
import torch

from profiler.model import Variant
from profiler.runner.checks import check
from profiler.sessions.builds.libraries import build_variants
from waves import space, workload

pytestmark = pytest.mark.gpu

VARIANTS = [
    {"blocks_per_sm": 1},
    {"blocks_per_sm": 2},
    {"blocks_per_sm": 4},
    {"blocks_per_sm": 4, "chains": 4},
    {"blocks_per_sm": 8, "block_size": 256},
    {"blocks_per_sm": 16, "chains": 8},
]


@pytest.fixture(scope="module")
def libraries(shared_folder):
    major, minor = torch.cuda.get_device_capability()
    variants = [Variant(space.variant_name(params), "", params) for params in VARIANTS]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    results = build_variants(
        variants, recipes, arch=f"sm_{major}{minor}", build_root=shared_folder / "build"
    )
    assert [result.error for result in results if not result.ok] == []
    return {result.variant: result.library for result in results}


def prepared(libraries, params, waves):
    problem = {"waves": waves}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    launch = workload.prepare(params, problem, inputs, libraries[space.variant_name(params)])
    return launch, workload.expected(params, problem, inputs)


@pytest.mark.parametrize("waves", [0.25, 0.99, 1, 1.01, 3.5])
@pytest.mark.parametrize("params", VARIANTS, ids=space.variant_name)
def test_every_thread_of_every_grid_is_right(libraries, params, waves):
    launch, (right, (absolute, relative)) = prepared(libraries, params, waves)
    (got,) = check.as_tensors(check.poisoned_result(launch), "the result")
    torch.cuda.synchronize()
    assert got.shape == right.shape
    assert bool(((got.double() - right).abs() <= absolute + relative * right.abs()).all())


@pytest.mark.parametrize("params", VARIANTS, ids=space.variant_name)
def test_the_shape_is_that_of_the_gpu(libraries, params):
    launch, _ = prepared(libraries, params, 2)
    properties = torch.cuda.get_device_properties(0)
    assert launch.shape.multiprocessors == properties.multi_processor_count
    assert launch.shape.blocks_per_sm == params["blocks_per_sm"]
    assert launch.blocks == 2 * properties.multi_processor_count * params["blocks_per_sm"]


def test_an_impossible_launch_is_an_error(libraries):
    launch, _ = prepared(libraries, VARIANTS[0], 1)
    launch._arguments = (*launch._arguments[:4], 0, *launch._arguments[5:])
    with pytest.raises(RuntimeError, match="invalid argument"):
        launch()
