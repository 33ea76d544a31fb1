import pytest
import torch

from profiler.kernels.attention_families import workload
from profiler.kernels.flash_attention import workload as mma_workload
from profiler.kernels.flash_attention_hopper import workload as hopper_workload
from profiler.runner import check
from profiler.runner.protocol import Tolerance
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 128, "batch": 2, "heads": 3}


@pytest.fixture(scope="module")
def inputs():
    return workload.make_inputs(PROBLEM, CPU, seed=3)


def test_it_is_a_workload():
    loaded = load_workload("profiler.kernels.attention_families.workload")
    assert loaded.expected is workload.expected
    assert loaded.flops(PROBLEM) == 2 * 3 * (4 * 128**3 + 6 * 128**2)
    assert loaded.bytes(PROBLEM) == 4 * 2 * 128 * 3 * 128 * 2


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_torchs_own_attention_passes_the_check_of_all(inputs, dtype):
    variant = {"implementation": "sdpa_flash", "dtype": dtype}
    launch = workload.prepare(variant, PROBLEM, inputs, None)
    expected, bounds = workload.expected(variant, PROBLEM, inputs)
    check.compare((launch(),), (expected,), {"default": Tolerance(*bounds)})
    for family in ("mma_sync", "hopper"):
        reference = {"implementation": family, "dtype": dtype}
        assert workload.expected(reference, PROBLEM, inputs)[0] is expected


@pytest.mark.parametrize(
    ("variant", "family"),
    [
        ({"implementation": "mma_sync", "dtype": "FP16"}, mma_workload),
        ({"n_warps": 4}, mma_workload),
        ({"implementation": "hopper", "dtype": "FP16"}, hopper_workload),
        ({"consumers": 3}, hopper_workload),
    ],
)
def test_a_variant_is_launched_by_its_own_kernel(inputs, monkeypatch, variant, family, tmp_path):
    with pytest.raises(RuntimeError, match="needs a CUDA device and cannot run on cpu"):
        workload.prepare(variant, PROBLEM, inputs, tmp_path)

    monkeypatch.setattr(family, "built_library", lambda device, library: library)
    monkeypatch.setattr(family, "guard_device", lambda *arguments: None)
    monkeypatch.setattr(mma_workload, "device_limits", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(family, "LibraryLaunch", lambda path, prefix, *arguments: prefix)
    prefix = workload.prepare(variant, PROBLEM, inputs, tmp_path)
    assert prefix == family.__name__.split(".")[-2]
