"""Programs of benchmarks/clients that need a GPU; `python -m pytest -m gpu`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "benchmarks/clients"

pytestmark = pytest.mark.gpu


def measured(file, out, *flags):
    argv = [sys.executable, "-m", "profiler", str(file), "--out", str(out), "--blocks", "7", *flags]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    (path,) = out.glob("*/*/summary.json")
    return done, json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("flag", ["--no-explain", "--fast"])
def test_kernels_of_two_streams_are_not_added_in_silence(tmp_path, flag):
    _, summary = measured(CLIENTS / "side_stream.py", tmp_path, flag)
    outcomes = {cell["variant"]: cell["outcome"] for cell in summary["cells"]}
    assert outcomes["one_stream"] == outcomes["two_streams"] == "measured"
    (notice,) = [n for n in summary["notices"] if n["kind"] == "concurrent_kernels"]
    assert "two_streams" in notice["text"] or "not_joined" in notice["text"]
    (overlapping,) = [cell for cell in summary["cells"] if cell["variant"] == "two_streams"]
    assert overlapping["metrics"]["duration_ns"]["verdict"] == "unclear"


def test_a_kernel_that_begins_before_the_last_has_ended_is_not_added_in_silence(tmp_path):
    _, summary = measured(CLIENTS / "dependent_launch.py", tmp_path, "--fast", "--no-explain")
    (notice,) = [n for n in summary["notices"] if n["kind"] == "concurrent_kernels"]
    assert "dependent" in notice["text"]
    cells = {cell["variant"]: cell for cell in summary["cells"]}
    assert {cell["outcome"] for cell in cells.values()} == {"measured"}
    assert cells["dependent"]["metrics"]["duration_ns"]["verdict"] == "unclear"


def test_the_project_with_a_makefile_is_compared_at_both_sizes(tmp_path):
    folder = shutil.copytree(CLIENTS / "makefile_project", tmp_path / "project")
    subprocess.run(["make", "-s"], cwd=folder, check=True)
    done, summary = measured(folder / "histogram.yaml", tmp_path / "reports", "--no-explain")
    assert done.returncode == 0, done.stderr
    shared = [cell for cell in summary["cells"] if cell["variant"] == "shared"]
    assert {cell["problem_params"]["n"] for cell in shared} == {2**20, 2**24}
    assert all(cell["metrics"]["duration_ns"]["ratio"] < 0.5 for cell in shared)
