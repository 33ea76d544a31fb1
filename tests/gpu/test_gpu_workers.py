"""Two GPUs of one host, a problem to each; `python -m pytest -m gpu`."""

import json
import subprocess

import pytest
from test_gpu_runs import command, write_spec

from profiler.machine.environment import visible_gpus

pytestmark = pytest.mark.gpu

SIZES = "[1048576, 4194304, 16777216, 67108864]"
CLOSE = 0.1
"""Relative: two chips of one model, and kernels of some tens of microseconds."""


def run(spec, *flags):
    return subprocess.run(
        [*command(spec, *flags), "--set", "collect.explain=true"],
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )


def newest(spec):
    return max(spec.parent.glob("modes/[0-9]*"))


def ratios(folder):
    """Duration ÷ that of the baseline by cell id."""
    cells = json.loads((folder / "summary.json").read_text())["cells"]
    return {cell["id"]: cell["metrics"]["duration_ns"]["ratio"] for cell in cells}


@pytest.mark.skipif(len(visible_gpus()) < 2, reason="needs two GPUs")
def test_two_gpus_of_a_host_find_what_one_finds(tmp_path):
    spec = write_spec(tmp_path, modes="[right]", sizes=SIZES)
    alone = run(spec, "--only", "mode=torch|right")
    assert alone.returncode == 0, alone.stderr
    of_one = ratios(newest(spec))
    done = run(spec, "--only", "mode=torch|right", "--fresh", "--workers", "local:2")
    assert done.returncode == 0, done.stderr
    folder = newest(spec)
    workers = [json.loads(file.read_text()) for file in folder.glob("raw/*/worker.json")]
    assert {worker["name"] for worker in workers} == {"worker-1", "worker-2"}
    assert len({worker["gpu_uuid"] for worker in workers}) == 2
    of_two = ratios(folder)
    assert of_two.keys() == of_one.keys()
    for cell, ratio in of_one.items():
        assert of_two[cell] == pytest.approx(ratio, rel=CLOSE), cell
    again = run(spec, "--only", "mode=torch|right", "--workers", "local:2")
    assert again.stderr.count("nothing is missing") == 4
