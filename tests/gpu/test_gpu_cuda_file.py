"""A `.cu` file from YAML alone, on a real GPU; `python -m pytest -m gpu`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"

pytestmark = pytest.mark.gpu

WRONG = """\
    - {name: wrong, kernel: transpose_naive, block: "32, 32", arguments: "x, out, rows, 69"}
    - {name: shared, kernel: transpose_naive, block: [32, 32], shared: 100 * 1024}
    - {name: too-much, kernel: transpose_naive, block: [32, 32], shared: 1024 * 1024}
"""


def measured(spec, *flags):
    argv = [sys.executable, "-m", "profiler", str(spec), "--live", "--out", str(spec.parent)]
    done = subprocess.run(
        [*argv, *flags], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    (path,) = spec.parent.glob("*/*/summary.json")
    return done, json.loads(path.read_text("utf-8"))["cells"]


@pytest.mark.parametrize("collector", ["ncu", "cuda_events"])
def test_kernels_of_a_file_are_launched_checked_and_measured(tmp_path, collector):
    for name in ("transpose.cu", "transpose.yaml"):
        shutil.copy(EXPERIMENTS / name, tmp_path)
    spec = tmp_path / "transpose.yaml"
    text = spec.read_text().replace("problems:", f"{WRONG}problems:")
    spec.write_text(text.replace("rows: [4096, 16384], columns: [4096]", "rows: 1000, columns: 70"))
    flags = ("--set", f"collect.collectors={collector}")
    done, cells = measured(spec, "--blocks", "6", *flags)
    assert done.returncode == 4, done.stderr
    assert {cell["variant"]: cell["outcome"] for cell in cells} == {
        **dict.fromkeys(("torch", "naive", "tiled", "padded", "shared"), "measured"),
        "wrong": "wrong_result",
        "too-much": "raised",
    }
    for cell in cells:
        if cell["outcome"] == "measured":
            assert cell["metrics"]["duration_ns"]["median"] > 0


def example(heading, folder, source):
    """The experiment under a heading of the document, with its source beside it."""
    page = (ROOT / "docs/cuda-file.md").read_text("utf-8").partition(f"## {heading}")[2]
    (folder / source).write_text(page.split("```cuda\n")[1].partition("```")[0])
    spec = folder / "example.yaml"
    spec.write_text(page.split("```yaml\n")[1].partition("```")[0])
    return spec


HOST = """
#include <cstdio>
#include <cstdlib>
void exits(const float* x, float* out, int rows, int columns, cudaStream_t) {
    std::printf("no such size\\n");
    std::exit(3);
}
void too_large(const float* x, float* out, int rows, int columns, cudaStream_t stream) {
    max_of_row<128><<<rows, 2048, 0, stream>>>(x, out, columns);
}
void forgets(const float* x, float* out, int rows, int columns, cudaStream_t stream) {
    max_of_row<128><<<rows / 2, 128, 0, stream>>>(x, out, columns);
}
void waits(const float* x, float* out, int rows, int columns, cudaStream_t) {
    max_of_row<128><<<rows, 128>>>(x, out, columns);
    cudaDeviceSynchronize();
}
"""
HOST_CAUSES = {
    "exits": ("crashed", "exited with code 3 (last printed: no such size), in check"),
    "too_large": ("raised", "the host function left an error of a call behind: invalid "),
    "forgets": ("wrong_result", "nan"),
}


@pytest.mark.parametrize("collector", ["ncu", "cupti", "cuda_events"])
def test_host_functions_are_called_checked_and_measured(tmp_path, collector):
    spec = example("Host functions", tmp_path, "row_max.cu")
    with (tmp_path / "row_max.cu").open("a") as source:
        source.write(HOST)
    names = (*HOST_CAUSES, "waits")
    entries = "".join(f"    - {{name: {name}, function: {name}}}\n" for name in names)
    text = spec.read_text().replace("problems:", f"{entries}problems:")
    spec.write_text(text.replace("columns: [1024, 16384]", "columns: 1024"))
    flags = ("--set", f"collect.collectors={collector}", "--no-explain")
    done, cells = measured(spec, "--blocks", "6", *flags)
    assert done.returncode == 4, done.stderr
    cell_of = {cell["variant"]: cell for cell in cells}
    for name in ("torch", "as it is", "small blocks", "waits"):
        assert cell_of[name]["outcome"] == "measured", cell_of[name]
        assert cell_of[name]["metrics"]["duration_ns"]["median"] > 0
    for name, (outcome, cause) in HOST_CAUSES.items():
        assert cell_of[name]["outcome"] == outcome, cell_of[name]
        assert cause in cell_of[name]["cause"]


def test_the_example_of_several_launches_is_right_and_both_kernels_are_in_its_samples(tmp_path):
    spec = example("Several launches", tmp_path, "column_sums.cu")
    done, cells = measured(spec, "--blocks", "6")
    assert done.returncode == 0, done.stderr
    assert {cell["outcome"] for cell in cells} == {"measured"}
    two = [cell for cell in cells if cell["variant"] == "two launches"]
    assert {cell["metrics"]["kernels"]["median"] for cell in two} == {2}


BATCHED = """\
#include <cooperative_groups.h>

__global__ void add_tensors(const float* const* x, float* sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = x[0][i] + x[1][i] + x[2][i];
}

__global__ void __cluster_dims__(16) add_in_clusters(const float* const* x, float* sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = x[0][i] + x[1][i] + x[2][i];
}

__global__ void __launch_bounds__(256) add_bounded(const float* const* x, float* sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = x[0][i] + x[1][i] + x[2][i];
}

__global__ void add_in_turn(const float* const* x, float* sum, int n) {
    auto grid = cooperative_groups::this_grid();
    for (int part = 0; part < 3; ++part) {
        for (int i = grid.thread_rank(); i < n; i += grid.size())
            sum[(i + part) % n] = (part ? sum[(i + part) % n] : 0) + x[part][(i + part) % n];
        grid.sync();
    }
}
"""

BATCHED_SPEC = """\
name: batched
workload:
  source: batched.cu
  arguments: {x: {shape: [3, n], pointers: true}, sum: {shape: n, output: true}, n}
  block: 256
  reference: x.sum(0)
baseline: plain
variants:
  list:
    - {name: plain, kernel: add_tensors, grid: "ceil_div(n, 256)"}
    - {name: clusters, kernel: add_in_clusters, grid: "16 * ceil_div(n, 4096)"}
    - {name: bounded, kernel: add_bounded, grid: "ceil_div(n, 512)", block: 512}
    - {name: in turn, kernel: add_in_turn, grid: 264, cooperative: true}
    - {name: too many, kernel: add_in_turn, grid: 1000000, cooperative: true}
problems: {matrix: {n: [1000000]}}
"""


def test_tensors_of_pointers_clusters_and_cooperative_launches_run(tmp_path):
    (tmp_path / "batched.cu").write_text(BATCHED)
    spec = tmp_path / "batched.yaml"
    spec.write_text(BATCHED_SPEC)
    done, cells = measured(spec, "--blocks", "6", "--fast", "--no-explain")
    assert done.returncode == 4, done.stderr
    outcomes = {cell["variant"]: cell["outcome"] for cell in cells}
    assert outcomes == {
        **dict.fromkeys(("plain", "clusters", "in turn"), "measured"),
        **dict.fromkeys(("bounded", "too many"), "raised"),
    }
    causes = {cell["variant"]: cell["cause"] for cell in cells}
    assert "too many blocks for a cooperative launch" in causes["too many"]
    assert "512 threads, where the kernel can have at most 256" in causes["bounded"]


def test_the_example_with_cub_is_right(tmp_path):
    spec = example("CUB, Thrust", tmp_path, "row_sums.cu")
    done, cells = measured(spec, "--blocks", "6", "--fast", "--no-explain")
    assert done.returncode == 0, done.stderr
    assert {cell["outcome"] for cell in cells} == {"measured"}
