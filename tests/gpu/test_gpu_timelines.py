"""Timelines on a real GPU, under the real nsys and torch.profiler; `python -m pytest -m gpu`."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiler.collect.nsys import find_nsys
from profiler.errors import EnvironmentUnusable

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SECRET = "a-word-that-nobody-shall-see"  # noqa: S105 - it is there to be looked for

pytestmark = pytest.mark.gpu

SPEC = f"""\
name: timelines
workload: {{module: {HERE}/workload.py, space: {HERE}/space.py}}
variants:
  list:
    - {{name: torch, params: {{mode: torch}}}}
  matrix:
    mode: [right]
    block_size: [128, 256]
problems: {{matrix: {{n: [1048576, 16777216]}}}}
baseline: torch
collect:
  blocks: 6
  metrics: [duration_ns]
  collectors: [ncu, nsys, torch]
  timeline: {{launches: 4}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a finished run under ncu, nsys and torch.profiler."""
    try:
        find_nsys()
    except EnvironmentUnusable as error:
        pytest.skip(error.message)
    folder = tmp_path_factory.mktemp("timelines")
    spec = folder / "timelines.yaml"
    spec.write_text(SPEC)
    done = subprocess.run(
        [sys.executable, "-m", "profiler", str(spec), "--live", "--out", str(folder)],
        cwd=ROOT,
        env={**os.environ, "A_SECRET": SECRET},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("timelines/*/")
    return found


def content(file):
    found = file.read_bytes()
    return gzip.decompress(found) if file.suffix == ".gz" else found


@pytest.mark.parametrize("collector", ["nsys", "torch"])
def test_every_launch_has_its_kernel(run, collector):
    with (run / "samples.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["collector"] == collector]
    assert len(rows) == 6 * 4
    for row in rows:
        assert float(row["kernels"]) >= 1
        assert float(row["duration_ns"]) > 0


def test_timelines_agree_with_ncu_within_the_effect_of_caches_and_clocks(run):
    summary = json.loads((run / "summary.json").read_text())
    for cell in summary["cells"]:
        metrics = {name: each["median"] for name, each in cell["metrics"].items()}
        for name in ("nsys_duration_ns", "torch_duration_ns"):
            assert 0.2 < metrics[name] / metrics["duration_ns"] < 3, (cell["id"], name)


@pytest.mark.parametrize("session", ["nsys", "torch"])
def test_only_visits_are_in_the_cleaned_files(run, session):
    (attempt,) = (run / "raw").glob(f"{session}.*")
    with gzip.open(attempt / "ranges.csv.gz", "rt") as stream:
        names = [row["name"] for row in csv.DictReader(stream) if row["domain"] == "profiler"]
    assert sum(name.startswith("cell=") for name in names) == 6
    assert sum(name.startswith("launch=") for name in names) == 6 * 4
    assert json.loads((attempt / "timeline.json").read_text())["device"] == "cuda"


def test_the_environment_is_in_private_files_only(run):
    found = {
        file.relative_to(run)
        for file in run.rglob("*")
        if file.is_file() and SECRET.encode() in content(file)
    }
    assert {file.parent.name for file in found if "nsys" in str(file)} == {"private"}
    assert not [
        file
        for file in found
        if file.name != "report.ncu-rep.gz" and (file.parent.name != "private")
    ]
