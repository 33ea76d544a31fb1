"""The fastest of both kernels as references, on an NVIDIA GPU of compute capability 9.0."""

import pytest
import torch
from attention_on_gpu import build_libraries, error_and_bound

from attention_families import space, workload

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
def libraries(shared_folder):
    return build_libraries(REFERENCES, space, "sm_90", shared_folder / "build")


def excess(params, problem, library):
    """Largest error over the largest allowed one; unwritten elements are infinitely wrong."""
    assert space.check_cell(params, problem) is None
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=problem["seq_len"])
    error, bound = error_and_bound(workload, inputs, params, problem, library)
    return error / bound


@pytest.mark.parametrize("dtype", ["BF16", "FP16"])
@pytest.mark.parametrize("problem", [SHORT, UNEVEN, EVEN, LONG_UNEVEN], ids=str)
def test_the_fastest_for_hopper_is_the_attention(libraries, problem, dtype):
    assert excess(HOPPER, {**problem, "precision": dtype}, libraries["hopper"]) <= 1


@pytest.mark.parametrize("dtype", ["BF16", "FP16"])
@pytest.mark.parametrize("problem", [SHORT, EVEN], ids=str)
def test_the_fastest_of_mma_sync_is_the_attention(libraries, problem, dtype):
    name = f"mma_sync-{dtype}"
    assert excess(REFERENCES[name], {**problem, "precision": dtype}, libraries[name]) <= 1
