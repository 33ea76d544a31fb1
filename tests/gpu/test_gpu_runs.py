"""Whole runs on a real GPU under the real ncu; `python -m pytest -m gpu`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

pytestmark = pytest.mark.gpu

SPEC = """\
name: modes
workload: {{module: {here}/workload.py, space: {here}/space.py}}
variants:
  list:
    - {{name: torch, params: {{mode: torch}}}}
    - {{name: too-big, params: {{mode: too_big}}}}
  matrix:
    mode: {modes}
    block_size: [128, 256]
problems: {{matrix: {{n: {sizes}}}}}
baseline: torch
collect: {{blocks: {blocks}, time_limit_s: {limit}, metrics: [default]}}
"""


def write_spec(folder, *, modes, sizes="[1048576, 16777216]", blocks=6, limit=20.0):
    path = folder / "modes.yaml"
    text = SPEC.format(here=HERE, modes=modes, sizes=sizes, blocks=blocks, limit=limit)
    path.write_text(text)
    return path


def command(spec, *flags):
    return [
        sys.executable,
        "-m",
        "profiler",
        str(spec),
        "--live",
        "--out",
        str(spec.parent),
        *flags,
    ]


def run(spec, *flags):
    return subprocess.run(
        command(spec, *flags), cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )


def summary(spec):
    (path,) = spec.parent.glob("modes/*/summary.json")
    return json.loads(path.read_text("utf-8"))


def timing_blocks(cell):
    """Samples of a cell in the timing blocks, whether or not it was confirmed after them."""
    return (cell["blocks"] or cell["metrics"])["duration_ns"]["n"]


def test_every_way_of_going_wrong_costs_its_own_cells(tmp_path):
    # Every cell that hangs takes its whole time limit, and a new start of ncu after it.
    modes = "[right, wrong, illegal, hangs, breaks]"
    spec = write_spec(tmp_path, modes=modes, sizes="[1048576]", limit=6.0)
    done = run(spec)
    assert done.returncode == 4, done.stderr
    outcomes: dict[str, set[str]] = {}
    for cell in summary(spec)["cells"]:
        mode = cell["variant_params"]["mode"]
        outcomes.setdefault(mode, set()).add(cell["outcome"])
        if cell["outcome"] == "measured":
            assert timing_blocks(cell) == 6
            assert cell["metrics"]["l2_hit_pct"]["median"] is not None
            assert cell["missing_metrics"] == []
    assert outcomes == {
        "torch": {"measured"},
        "right": {"measured"},
        "too_big": {"out_of_memory"},
        "wrong": {"wrong_result"},
        "illegal": {"illegal_address"},
        "hangs": {"timed_out"},
        "breaks": {"compile_failed"},
    }


def finished_visits(spec):
    journals = spec.parent.glob("modes/*/raw/ncu-timing.*/journal.jsonl")
    return sum(
        '"event":"finished"' in line and '"phase":"measure"' in line
        for journal in journals
        for line in journal.read_text("utf-8").splitlines()
    )


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    spec = write_spec(tmp_path, modes="[right]", blocks=100)
    with subprocess.Popen(command(spec), cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while finished_visits(spec) < 60 and time.monotonic() < deadline:
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
    before = finished_visits(spec)
    assert 60 <= before < 800, "killed too early or too late to prove anything"
    done = run(spec)
    assert done.returncode == 4, done.stderr  # the variant that is too big stays too big
    cells = [c for c in summary(spec)["cells"] if c["outcome"] == "measured"]
    assert {timing_blocks(cell) for cell in cells} == {100}
    # The visit that was under way may be made twice, and nothing else.
    assert finished_visits(spec) <= 800 + 2  # the baseline twice in every block


COMMAND_SPEC = """\
name: program
workload:
  command: ./scaler {kernel} {size}
  kernel: regex:scale.*
  launch_skip: 1
  launch_count: 3
variants:
  list:
    - {name: scale, params: {kernel: scale}}
    - {name: strided, params: {kernel: strided}}
    - {name: nonsense, params: {kernel: nothing}}
problems: {matrix: {size: [1048576, 4194304]}}
baseline: scale
collect: {blocks: 2, metrics: [timing, l2_hit_pct]}
"""


def test_a_program_is_measured_as_it_is(tmp_path):
    source = HERE / "program.cu"
    subprocess.run(["nvcc", "-o", str(tmp_path / "scaler"), str(source)], check=True)
    spec = tmp_path / "program.yaml"
    spec.write_text(COMMAND_SPEC)
    done = run(spec)
    assert done.returncode == 4, done.stderr
    (path,) = tmp_path.glob("program/*/summary.json")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    by_outcome: dict[str, set[str]] = {}
    for cell in cells:
        by_outcome.setdefault(cell["outcome"], set()).add(cell["variant"])
        if cell["outcome"] == "measured":
            assert cell["metrics"]["duration_ns"]["median"] > 0
            assert cell["metrics"]["duration_ns"]["n"] == 2
    assert by_outcome == {"measured": {"scale", "strided"}, "no_kernel": {"nonsense"}}
    assert not any("nothing" in cell["id"] and cell["metrics"] for cell in cells)


def test_several_kernels_of_a_program_are_told_apart(tmp_path):
    source = HERE / "program.cu"
    subprocess.run(["nvcc", "-o", str(tmp_path / "scaler"), str(source)], check=True)
    spec = tmp_path / "program.yaml"
    text = COMMAND_SPEC.replace("launch_count: 3", "launch_count: 4")
    for name, kernel in (("strided", "strided"), ("nonsense", "nothing")):
        text = text.replace(f"    - {{name: {name}, params: {{kernel: {kernel}}}}}\n", "")
    spec.write_text(text.replace("params: {kernel: scale}", "params: {kernel: both}"))
    done = run(spec)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("program/*/summary.json")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert len(cells) == 4, [cell["id"] for cell in cells]
    assert {cell["variant"] for cell in cells} == {"scale"}
    # 1048576 / 256 blocks and 4194304 / 256 blocks of one kernel, 264 of the other.
    shapes = {(c["problem_params"]["size"], c["problem_params"]["launch_grid"]) for c in cells}
    assert shapes == {
        (1048576, "4096x1x1"),
        (1048576, "264x1x1"),
        (4194304, "16384x1x1"),
        (4194304, "264x1x1"),
    }


def test_the_program_of_the_docs_is_compared_size_by_size(tmp_path):
    page = (ROOT / "docs" / "own-programs.md").read_text("utf-8")
    source, spec = tmp_path / "sgemm.cu", tmp_path / "sgemm.yaml"
    source.write_text(page.split("```cuda\n")[1].partition("```")[0])
    spec.write_text(page.split("```yaml\n")[1].partition("```")[0])
    subprocess.run(["nvcc", "-O3", "-o", str(tmp_path / "sgemm"), str(source)], check=True)
    reports = tmp_path / "reports"  # beside the spec lies the program, which has the run's name
    done = run(spec, "--out", str(reports), "--set", "collect.blocks=2")
    assert done.returncode == 0, done.stderr
    (path,) = reports.glob("sgemm/*/summary.json")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    sizes = {(cell["variant"], cell["problem_params"]["size"]) for cell in cells}
    kernels = ("kernel=naive", "kernel=tiled")
    assert sizes == {(kernel, size) for kernel in kernels for size in (256, 512, 1024)}
    assert {cell["outcome"] for cell in cells} == {"measured"}
    for cell in cells:
        assert cell["metrics"]["duration_ns"]["n"] == 2
        assert cell["metrics"]["duration_ns"]["ratio"] is not None


def test_a_program_with_other_launches_than_its_parts_say(tmp_path):
    source = HERE / "program.cu"
    subprocess.run(["nvcc", "-o", str(tmp_path / "scaler"), str(source)], check=True)
    spec = tmp_path / "program.yaml"
    text = COMMAND_SPEC.replace("  launch_skip: 1\n  launch_count: 3\n", "  parts: PARTS\n")
    text = text.replace("    - {name: nonsense, params: {kernel: nothing}}\n", "")
    spec.write_text(text.replace("PARTS", "{half: [first, second], launches: 2}"))
    done = run(spec)
    assert done.returncode == 0, done.stderr
    spec.write_text(text.replace("PARTS", "{third: [a, b, c], launches: 1}"))
    done = run(spec)
    assert done.returncode == 4, done.stderr
    newest = max(tmp_path.glob("program/*/summary.json"))
    cells = json.loads(newest.read_text("utf-8"))["cells"]
    assert {cell["outcome"] for cell in cells} == {"parts_differ"}
    assert {cell["cause"] for cell in cells} == {
        "it should make 3 matching launches (3 parts of 1); it made at least 4"
    }
