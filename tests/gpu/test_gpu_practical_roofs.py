"""Practical roofs on a real GPU under the real ncu; `python -m pytest -m gpu`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from live_run import ROOT, run_live

HERE = Path(__file__).parent

pytestmark = pytest.mark.gpu


def test_plain_kernels_come_near_the_roofs_and_cells_have_shares_of_both(tmp_path):
    spec = {
        "name": "roofs",
        "workload": {"module": str(HERE / "workload.py"), "space": str(HERE / "space.py")},
        "variants": {
            "list": [
                {"name": "torch", "params": {"mode": "torch"}},
                {"name": "right", "params": {"mode": "right", "block_size": 256}},
            ]
        },
        "problems": {"matrix": {"n": [2**26]}},
        "collect": {
            "blocks": 4,
            "final_blocks": 0,
            "metrics": ["duration_ns", "cycles", "roofline"],
            "explain": True,
        },
    }
    path = tmp_path / "roofs.yaml"
    path.write_text(json.dumps(spec))
    run_live(path, tmp_path, "--explain", "all")
    (run,) = (tmp_path / "roofs").glob("2*")
    roofs = {
        roof["name"]: roof["share_pct"]
        for roof in json.loads((run / "summary.json").read_text("utf-8"))["practical_roofs"]
    }
    assert set(roofs) == {"dram", "tensor_bf16", "tensor_fp16", "tensor_tf32", "fp32"}
    # Wide on purpose: a wrong unit, peak or clock is off by a factor.
    assert 70 < roofs["dram"] <= 100
    assert all(40 < roofs[name] <= 100 for name in roofs if name != "dram")

    explained = subprocess.run(
        [sys.executable, "-m", "profiler", "explain", str(run), "--json", "-"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shares = {roof["name"]: roof for roof in json.loads(explained.stdout)["tree"]["roofs"]}
    dram = shares["dram"]
    assert dram["practical_pct"] == pytest.approx(100 * dram["share_pct"] / roofs["dram"], rel=1e-3)
    assert dram["practical_pct"] < 105, "no kernel is faster than a copy by more than noise"
