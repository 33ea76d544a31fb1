"""Replay modes of the real ncu: rows of ranges find their cells, and dependent kernels end."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

DEPENDENT = """\
import torch

import profiler

handshake = profiler.Experiment(
    "handshake",
    problems={"n": [1 << 20, 1 << 22]},
    collect={"blocks": 2, "final_blocks": 0, "metrics": ["duration_ns", "l2_hit_pct"],
             "replay_mode": "range", "time_limit_s": 20},
)


@handshake.inputs
def inputs(n):
    return torch.randn(n)


@handshake.variant(baseline=True)
def one_stream(x):
    return (x * 2) + (x * 3)


@handshake.variant
def two_streams(x):
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        doubled = x * 2
    tripled = x * 3
    torch.cuda.current_stream().wait_stream(other)
    return doubled + tripled
"""


def test_rows_of_replayed_ranges_belong_to_their_cells(tmp_path):
    (tmp_path / "handshake.py").write_text(DEPENDENT)
    command = [sys.executable, "-m", "profiler", "handshake.py", "--live", "--json", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "out.json").read_text())["cells"]
    assert len(cells) == 4
    for cell in cells:
        assert cell["outcome"] == "measured", cell
        assert cell["metrics"]["duration_ns"]["median"] > 0
        assert 0 <= cell["metrics"]["l2_hit_pct"]["median"] <= 100
