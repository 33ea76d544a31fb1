"""The fastest of both kernels as references, on an NVIDIA GPU (run with -m gpu)."""

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

REFERENCES = {
    f"{family}-{dtype}": {"implementation": family, "dtype": dtype}
    for family in ("hopper", "mma_sync")
    for dtype in ("BF16", "FP16")
}
SHORT = {"batch": 2, "seq_len": 128, "heads": 3}
UNEVEN = {"batch": 2, "seq_len": 1000, "heads": 5}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    variants = [Variant(name, "", params) for name, params in REFERENCES.items()]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    folder = tmp_path_factory.mktemp("build")
    results = build_variants(variants, recipes, arch="sm_90", build_root=folder)
    assert [result.error for result in results if not result.ok] == []
    return {result.variant: Path(result.library) for result in results}


def excess(name, problem, library):
    """Largest error over the largest allowed one; unwritten elements are infinitely wrong."""
    params = REFERENCES[name]
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=problem["seq_len"])
    launch = workload.prepare(params, problem, inputs, library)
    (output,) = launch.outputs
    output.fill_(math.nan)
    result = launch()
    torch.cuda.synchronize()
    expected, (bound, _) = workload.expected(params, problem, inputs)
    error = (result.double() - expected.double()).abs().nan_to_num(nan=math.inf).max()
    return error.item() / bound


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("problem", [SHORT, UNEVEN], ids=["short", "uneven"])
def test_a_reference_is_the_attention(libraries, name, problem):
    problem = {**problem, "precision": REFERENCES[name]["dtype"]}
    if space.check_cell(REFERENCES[name], problem) is not None:
        with pytest.raises(ValueError, match="1000 is no multiple of B_r = 128"):
            excess(name, problem, libraries[name])
        return
    assert excess(name, problem, libraries[name]) <= 1
