from pathlib import Path

import pytest
import torch
from studies import workload_of

from attention_families import workload
from flash_attention import workload as mma_workload
from flash_attention_hopper import workload as hopper_workload
from profiler.runner.checks import check
from profiler.runner.protocol import Tolerance
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 128, "batch": 2, "heads": 3}


@pytest.fixture(scope="module")
def inputs():
    return workload.make_inputs(PROBLEM, CPU, seed=3)


def test_it_is_a_workload():
    loaded = load_workload(workload_of("attention_families"))
    assert loaded.expected is workload.expected
    assert loaded.flops(PROBLEM) == 2 * 3 * 4 * 128**3
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


@pytest.fixture
def launched(monkeypatch):
    """Prefix of the function that a variant launches, on a card that can do all of them."""
    for family in (mma_workload, hopper_workload):
        monkeypatch.setattr(family, "built_library", lambda device, library: library)
        monkeypatch.setattr(family, "guard_device", lambda *arguments: None)
        monkeypatch.setattr(family, "LibraryLaunch", lambda path, prefix, *arguments: prefix)
    monkeypatch.setattr(mma_workload, "device_limits", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))

    def prefix(variant, problem):
        return workload.prepare(variant, problem, workload.make_inputs(problem, CPU, 3), Path())

    return prefix


@pytest.mark.parametrize(
    ("variant", "prefix"),
    [
        ({"implementation": "mma_sync", "dtype": "FP16"}, "flash_attention"),
        ({"n_warps": 4}, "flash_attention"),
        ({"consumers": 3}, "flash_attention_hopper"),
        ({"implementation": "hopper"}, "flash_attention_hopper_bf16_128x128"),
        ({"implementation": "hopper", "dtype": "FP16"}, "flash_attention_hopper_fp16_128x128"),
    ],
)
def test_a_variant_is_launched_by_its_own_kernel(launched, variant, prefix):
    assert launched(variant, PROBLEM) == prefix


@pytest.mark.parametrize(
    ("seq_len", "precision", "name"),
    [(1000, "FP16", "fp16_128x128"), (1025, "FP16", "fp16_192x80"), (2048, "BF16", "bf16_192x80")],
)
def test_the_fastest_for_hopper_follows_the_problem(launched, seq_len, precision, name):
    problem = {"seq_len": seq_len, "batch": 1, "heads": 1, "precision": precision}
    assert launched({"implementation": "hopper"}, problem) == f"flash_attention_hopper_{name}"


@pytest.mark.parametrize("variant", [{"implementation": "hopper"}, {"n_warps": 4}])
def test_our_kernels_say_that_they_cannot_run_on_the_cpu(inputs, tmp_path, variant):
    with pytest.raises(RuntimeError, match="needs a CUDA device and cannot run on cpu"):
        workload.prepare(variant, PROBLEM, inputs, tmp_path)
