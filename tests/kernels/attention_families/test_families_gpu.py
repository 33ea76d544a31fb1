"""The fastest of both kernels as references, on an NVIDIA GPU of compute capability 9.0."""

import math
from pathlib import Path

import pytest
import torch

from profiler.kernels.attention_families import space, workload
from profiler.model import Variant
from profiler.sessions.build import build_variants

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs compute capability 9.0",
    ),
]

HOPPER = {"implementation": "hopper"}
REFERENCES = {
    "hopper": HOPPER,
    "mma_sync-BF16": {"implementation": "mma_sync", "dtype": "BF16"},
    "mma_sync-FP16": {"implementation": "mma_sync", "dtype": "FP16"},
}
SHORT = {"batch": 2, "seq_len": 128, "heads": 3}
EVEN = {"batch": 2, "seq_len": 2048, "heads": 2}
UNEVEN = {"batch": 2, "seq_len": 1000, "heads": 5}
LONG_UNEVEN = {"batch": 1, "seq_len": 2049, "heads": 3}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    variants = [Variant(name, "", params) for name, params in REFERENCES.items()]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    folder = tmp_path_factory.mktemp("build")
    results = build_variants(variants, recipes, arch="sm_90", build_root=folder)
    assert [result.error for result in results if not result.ok] == []
    return {result.variant: Path(result.library) for result in results}


def excess(params, problem, library):
    """Largest error over the largest allowed one; unwritten elements are infinitely wrong."""
    assert space.check_cell(params, problem) is None
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=problem["seq_len"])
    launch = workload.prepare(params, problem, inputs, library)
    (output,) = launch.outputs
    output.fill_(math.nan)
    result = launch()
    torch.cuda.synchronize()
    expected, (bound, _) = workload.expected(params, problem, inputs)
    error = (result.double() - expected.double()).abs().nan_to_num(nan=math.inf).max()
    return error.item() / bound


@pytest.mark.parametrize("dtype", ["BF16", "FP16"])
@pytest.mark.parametrize("problem", [SHORT, UNEVEN, EVEN, LONG_UNEVEN], ids=str)
def test_the_fastest_for_hopper_is_the_attention(libraries, problem, dtype):
    assert excess(HOPPER, {**problem, "precision": dtype}, libraries["hopper"]) <= 1


@pytest.mark.parametrize("dtype", ["BF16", "FP16"])
@pytest.mark.parametrize("problem", [SHORT, EVEN], ids=str)
def test_the_fastest_of_mma_sync_is_the_attention(libraries, problem, dtype):
    name = f"mma_sync-{dtype}"
    assert excess(REFERENCES[name], {**problem, "precision": dtype}, libraries[name]) <= 1
