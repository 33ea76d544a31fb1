"""CUPTI in the runner against ncu, on the same kernels of torch in one go."""

import json

import pytest
from live_run import run_live

WORKLOAD = """\
import torch


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    shape = (problem["rows"], problem["columns"])
    return torch.randn(shape, device=device, generator=generator)


def reference(problem, inputs):
    return torch.softmax(inputs.double(), -1)


def by_hand(inputs):
    shifted = (inputs - inputs.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def prepare(variant, problem, inputs, library):
    if variant["form"] == "by hand":
        return lambda: by_hand(inputs)
    return lambda: torch.softmax(inputs, -1)


TOLERANCES = {"float32": (1e-6, 1e-4)}
"""
COUNTED = ("instructions", "dram_read_bytes", "l2_bytes", "registers", "grid_size", "block_size")
PROBLEMS = [{"rows": 64, "columns": 1024}, {"rows": 8192, "columns": 4096}]

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Metrics of the cells by collector, by id."""
    folder = tmp_path_factory.mktemp("cupti")
    (folder / "workload.py").write_text(WORKLOAD)
    spec = {
        "name": "softmaxes",
        "workload": "./workload.py",
        "variants": {
            "list": [{"name": form, "params": {"form": form}} for form in ("torch", "by hand")]
        },
        "problems": {"list": [{"name": f"p{p['rows']}", "params": p} for p in PROBLEMS]},
        "collect": {"blocks": 8, "explain": False, "metrics": [*COUNTED, "cycles", "kernels"]},
    }
    path = folder / "softmaxes.yaml"
    path.write_text(json.dumps(spec))
    by_collector = {}
    for collector, flags in (("cupti", ["--fast"]), ("ncu", [])):
        run_live(path, folder / collector, *flags)
        (summary,) = (folder / collector).glob("softmaxes/2*/summary.json")
        document = json.loads(summary.read_text())
        by_collector[collector] = {cell["id"]: cell["metrics"] for cell in document["cells"]}
    return by_collector


def test_durations_and_cycles_are_those_of_ncu(cells):
    assert len(cells["ncu"]) == 4
    for cell, measured in cells["ncu"].items():
        for metric in ("duration_ns", "cycles"):
            ours, theirs = cells["cupti"][cell][metric]["median"], measured[metric]["median"]
            assert ours == pytest.approx(theirs, rel=0.04), (cell, metric)


def test_counts_and_facts_are_those_of_ncu(cells):
    for cell, measured in cells["ncu"].items():
        assert cells["cupti"][cell]["kernels"]["median"] == measured["kernels"]["median"]
        for metric in COUNTED:
            ours, theirs = cells["cupti"][cell][metric]["median"], measured[metric]["median"]
            assert ours == pytest.approx(theirs, rel=0.03), (cell, metric)


def test_the_verdicts_are_those_of_ncu(cells):
    for cell, measured in cells["ncu"].items():
        verdict = measured["duration_ns"].get("verdict")
        assert cells["cupti"][cell]["duration_ns"].get("verdict") == verdict, cell
