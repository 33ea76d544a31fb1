"""Every CUDA variant against the reference, on an NVIDIA GPU (run with -m gpu)."""

import pytest
import torch

from profiler.model import Variant
from profiler.sessions.builds.libraries import build_variants
from softmax import space, workload

pytestmark = pytest.mark.gpu

VARIANTS = [
    *({"algorithm": "naive", "block_size": block} for block in (128, 256, 512, 1024)),
    *(
        {"algorithm": algorithm, "block_size": block, "vector_width": width}
        for algorithm in ("shared", "online")
        for block in (128, 1024)
        for width in (1, 2, 8)
    ),
    *(
        {"algorithm": "warp", "rows_per_block": rows, "vector_width": width}
        for rows in (1, 4, 32)
        for width in (1, 8)
    ),
    *(
        {"algorithm": "vector", "block_size": block, "rows_per_block": rows, "vector_width": width}
        for block, rows in ((128, 1), (256, 1), (256, 4), (256, 8), (1024, 1), (1024, 32))
        for width in (1, 4, 8)
    ),
    {"algorithm": "vector", "min_blocks_per_sm": 4},
]

# Full rows, a last block that is not full, rows shorter than a block, rows for the long way.
SHAPES = [(1, 8), (33, 1000), (5, 1024), (513, 4096), (7, 16384), (3, 65544)]


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


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_variant_is_correct(libraries, shape, dtype):
    problem = {"rows": shape[0], "columns": shape[1], "dtype": dtype}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    inputs.values[0, shape[1] // 2] = -torch.inf
    expected = workload.reference(problem, inputs).double()
    absolute, relative = workload.TOLERANCES[dtype]
    wrong = []
    for params in VARIANTS:
        name = space.variant_name(params)
        launch = workload.prepare(params, problem, inputs, libraries[name])
        inputs.output.fill_(torch.nan)
        error = (launch().double() - expected).abs()
        torch.cuda.synchronize()
        if not bool((error <= absolute + relative * expected).all()):
            wrong.append((name, error.max().item()))
    assert wrong == []


def test_an_impossible_launch_is_an_error(libraries):
    problem = {"rows": 2, "columns": 1001, "dtype": "float16"}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    params = {"algorithm": "warp", "rows_per_block": 4, "vector_width": 8}
    launch = workload.prepare(params, problem, inputs, libraries[space.variant_name(params)])
    with pytest.raises(RuntimeError, match="invalid argument"):
        launch()
