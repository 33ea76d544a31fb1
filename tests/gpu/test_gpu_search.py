"""Searches on a real GPU: kernels that are built meanwhile, and kernels that end the process."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from studies import workload_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

pytestmark = pytest.mark.gpu

SOFTMAX = """\
name: softmax_search
workload: WORKLOAD
variants:
  list: [{name: torch, params: {algorithm: torch}}]
  matrix:
    algorithm: vector
    block_size: [128, 256, 512, 1024]
    rows_per_block: [1, 2, 4, 8]
    vector_width: [1, 4, 8]
    min_blocks_per_sm: [1, 2]
problems: {matrix: {rows: 8192, columns: [1024, 4096], dtype: float16}}
baseline: torch
search: {budget: 12, seed: 1}
collect: {blocks: 6, final_blocks: 0, explain: false, metrics: [timing]}
page: {kind: autotune}
""".replace("WORKLOAD", workload_of("softmax"))

MODES = f"""\
name: modes_search
workload: {{module: {HERE}/workload.py, space: {HERE}/space.py}}
variants:
  list: [{{name: torch, params: {{mode: torch}}}}]
  matrix: {{mode: [right, wrong, illegal, breaks], block_size: [128, 256]}}
problems: {{matrix: {{n: [1048576]}}}}
baseline: torch
search: {{strategy: exhaustive, budget: 8}}
collect: {{blocks: 6, final_blocks: 0, explain: false, metrics: [timing], time_limit_s: 20.0}}
"""


def run(folder, text):
    spec = folder / "spec.yaml"
    spec.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "profiler", str(spec), "--live", "--out", str(folder / "reports")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    (summary,) = (folder / "reports").glob("*/*/summary.json")
    return done, summary.parent


def test_a_search_of_softmax_hands_its_finalists_to_ncu(tmp_path):
    began = time.monotonic()
    done, folder = run(tmp_path, SOFTMAX)
    assert done.returncode == 0, done.stderr
    document = json.loads((folder / "summary.json").read_text("utf-8"))
    search = document["search"]
    assert search["tried"] == 12
    assert search["outcomes"] == {"measured": 12}
    assert len(list((folder / "search").glob("runner.*"))) == 1, "one process measures them all"
    cells = document["cells"]
    assert {cell["outcome"] for cell in cells} <= {"measured", "duplicate"}
    judged = {cell["variant"] for cell in cells if cell["variant"] != "torch"}
    assert 3 <= len(judged) < 12
    # The timer and ncu agree on how far the best is from torch.softmax.
    by_ncu = [
        min(
            cell["metrics"]["duration_ns"]["ratio"]
            for cell in cells
            if cell["problem"] == problem and cell["variant"] != "torch"
        )
        for problem in dict.fromkeys(cell["problem"] for cell in cells)
    ]
    geometric_mean = (by_ncu[0] * by_ncu[1]) ** 0.5
    assert search["best"]["ratio"] == pytest.approx(geometric_mean, rel=0.25)
    assert time.monotonic() - began < 60


def test_kernels_that_break_the_context_cost_themselves(tmp_path):
    done, folder = run(tmp_path, MODES)
    assert done.returncode == 0, done.stderr
    search = json.loads((folder / "summary.json").read_text("utf-8"))["search"]
    outcomes: dict[str, set[str]] = {}
    for trial in search["evaluations"]:
        outcomes.setdefault(trial["params"]["mode"], set()).add(trial["outcome"])
    assert outcomes == {
        "right": {"measured"},
        "wrong": {"wrong_result"},
        "illegal": {"illegal_address"},
        "breaks": {"compile_failed"},
    }
    # A new one after each illegal address, if another proposal came behind it.
    assert 2 <= len(list((folder / "search").glob("runner.*"))) <= 3
    assert all("right" in finalist for finalist in search["finalists"])
