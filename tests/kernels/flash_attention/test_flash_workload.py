from dataclasses import replace
from pathlib import Path

import pytest
import torch
from studies import workload_of

from attention.problem import flops
from flash_attention import workload
from flash_attention.config import Config
from profiler.runner.workload import load_workload

CPU = torch.device("cpu")
PROBLEM = {"seq_len": 64, "batch": 2, "heads": 3, "head_dim": 64}
CONFIG = Config(d_head=64)


def test_our_kernels_say_that_they_cannot_run_on_the_cpu():
    inputs = workload.make_inputs(PROBLEM, CPU, seed=3)
    with pytest.raises(RuntimeError, match="needs a CUDA device and cannot run on cpu"):
        workload.prepare(CONFIG.params(), PROBLEM, inputs, Path("library.so"))


def test_the_runner_finds_all_functions():
    loaded = load_workload(workload_of("flash_attention"))
    assert loaded.reference is None
    assert loaded.expected is workload.expected
    assert loaded.flops is not None
    assert loaded.flops({"seq_len": 512}) == flops({"seq_len": 512})
    assert loaded.bytes is not None
    assert loaded.bytes({"seq_len": 512}) == 4 * 2 * 16 * 512 * 16 * 128


@pytest.mark.parametrize(
    ("length", "config", "words"),
    [
        (96, CONFIG, "a length of 96 is no multiple of B_r = 64"),
        (64, replace(CONFIG, B_c=128), "a length of 64 is no multiple of B_c = 128"),
    ],
)
def test_guards_of_the_length(length, config, words):
    with pytest.raises(ValueError, match=words):
        workload.guard_length(config, length)
    workload.guard_length(config, 128)


def test_a_device_with_just_enough_passes():
    workload.guard_device(CONFIG, workload.DeviceLimits((8, 0), CONFIG.shared_bytes))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (workload.DeviceLimits((7, 5), 65536), "needs compute capability 8.0, the device has 7.5"),
        (workload.DeviceLimits((8, 6), 24000), "need 24576 bytes of shared memory; .* have 24000"),
    ],
)
def test_guards_of_the_device(limits, words):
    with pytest.raises(ValueError, match=words):
        workload.guard_device(CONFIG, limits)
