"""The runner without a tool, and what its last words say about the machine."""

import sys

import pytest

from profiler.collect.timer import RUNNER, Timer, diagnose_runner


def test_command_is_the_runner(tmp_path):
    command = Timer().session_command(tmp_path / "job.json", tmp_path, ())
    assert command.argv == (sys.executable, "-P", str(RUNNER), str(tmp_path / "job.json"))
    assert (dict(command.env), dict(command.files)) == ({}, {})


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "pip install torch"),
        ("RuntimeError: No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver"),
        ("AssertionError: Torch not compiled with CUDA enabled", "CUDA build"),
    ],
)
def test_missing_parts_have_a_remedy(words, remedy):
    assert remedy in diagnose_runner(f"Traceback\n{words}\n").remedy


def test_other_errors_and_old_words_are_not_the_machine():
    assert diagnose_runner("ValueError: no module of mine") is None
    assert diagnose_runner("No module named 'torch'\n" + "later\n" * 50) is None
    assert diagnose_runner("ModuleNotFoundError: No module named 'torchvision'") is None


def test_diagnosis_is_only_for_sessions_that_failed(tmp_path):
    (tmp_path / "stderr.txt").write_text("No CUDA GPUs are available\n")
    assert Timer().diagnose(tmp_path, 0) is None
    assert Timer().diagnose(tmp_path, 1) is not None
    assert Timer().cell_fault(tmp_path) is None
    assert Timer().recover_command(tmp_path) is None
