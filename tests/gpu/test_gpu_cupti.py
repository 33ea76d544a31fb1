"""CUPTI in the runner against ncu, on the same kernels of torch in one go."""

import json
from collections import defaultdict

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

_UNRELATED = defaultdict(float, {"dram_read_bytes": 2**15, "l2_bytes": 2**16})
"""Bytes that each kernel adds and that have nothing to do with it: what reads them differs from
launch to launch, and between tools. Of softmaxes of 64 rows, ncu counted 0.08 MB of L2 traffic more
than CUPTI for one kernel and up to 0.18 MB for five, of system memory and of units beside the SMs.
That of the SMs is compared by itself, in runs of their own: beside the other metrics ncu would
replay the kernels for it, and those then find their inputs in no cache."""
OF_THE_SMS = "lts__t_sectors_srcunit_tex.sum"

pytestmark = pytest.mark.gpu


def _measured_by_both(folder, problems, metrics):
    """Metrics of the cells by collector, by id."""
    (folder / "workload.py").write_text(WORKLOAD)
    spec = {
        "name": "softmaxes",
        "workload": "./workload.py",
        "variants": {
            "list": [{"name": form, "params": {"form": form}} for form in ("torch", "by hand")]
        },
        "problems": {"list": [{"name": f"p{p['rows']}", "params": p} for p in problems]},
        "collect": {"blocks": 8, "explain": False, "metrics": metrics},
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


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return _measured_by_both(
        tmp_path_factory.mktemp("cupti"), PROBLEMS, [*COUNTED, "cycles", "kernels"]
    )


def test_durations_and_cycles_are_those_of_ncu(cells):
    assert len(cells["ncu"]) == 4
    for cell, measured in cells["ncu"].items():
        for metric in ("duration_ns", "cycles"):
            ours, theirs = cells["cupti"][cell][metric]["median"], measured[metric]["median"]
            assert ours == pytest.approx(theirs, rel=0.04), (cell, metric)


def test_counts_and_facts_are_those_of_ncu(cells):
    for cell, measured in cells["ncu"].items():
        assert cells["cupti"][cell]["kernels"]["median"] == measured["kernels"]["median"]
        kernels = measured["kernels"]["median"]
        for metric in COUNTED:
            ours, theirs = cells["cupti"][cell][metric]["median"], measured[metric]["median"]
            unrelated = max(2 * _UNRELATED[metric], kernels * _UNRELATED[metric])
            assert ours == pytest.approx(theirs, rel=0.03, abs=unrelated), (cell, metric)


def test_l2_sectors_of_the_sms_are_those_of_ncu(tmp_path):
    by_collector = _measured_by_both(tmp_path, PROBLEMS[:1], [OF_THE_SMS])
    assert len(by_collector["ncu"]) == 2
    for cell, measured in by_collector["ncu"].items():
        ours = by_collector["cupti"][cell][OF_THE_SMS]["median"]
        assert ours == pytest.approx(measured[OF_THE_SMS]["median"], rel=0.005), cell


def test_the_verdicts_are_those_of_ncu(cells):
    for cell, measured in cells["ncu"].items():
        verdict = measured["duration_ns"].get("verdict")
        assert cells["cupti"][cell]["duration_ns"].get("verdict") == verdict, cell


ENDINGS = """\
import torch


def make_inputs(problem, device, seed):
    return torch.randn(problem["rows"], 256, device=device)


def reference(problem, inputs):
    return inputs.double() + 300


def prepare(variant, problem, inputs, library):
    def once():
        return inputs + 300

    def many():
        result = inputs.clone()
        for _ in range(300):
            result += 1
        return result

    def with_fills():
        return torch.zeros_like(inputs).add_(inputs).add_(300)

    def fault():
        launches.append(1)
        if len(launches) > 6:  # after check and warm-ups
            inputs[torch.full((1,), 1 << 20, device=inputs.device)]
        return once()

    launches = []
    if variant["how"] == "graph":
        graph = torch.cuda.CUDAGraph()
        once()
        with torch.cuda.graph(graph):
            result = once()
        return lambda: (graph.replay(), result)[1]
    return {"once": once, "many": many, "fills": with_fills, "fault": fault}[variant["how"]]


TOLERANCES = {"float32": (1e-3, 1e-4)}
"""


def test_what_cannot_be_counted_costs_its_cell_alone(tmp_path):
    (tmp_path / "endings.py").write_text(ENDINGS)
    names = ("once", "many", "fills", "graph", "fault")
    spec = {
        "name": "endings",
        "workload": "./endings.py",
        "variants": {"list": [{"name": name, "params": {"how": name}} for name in names]},
        "problems": {"list": [{"name": "p", "params": {"rows": 512}}]},
        "collect": {"blocks": 8, "metrics": ["cycles", "kernels", "instructions"]},
    }
    path = tmp_path / "endings.yaml"
    path.write_text(json.dumps(spec))
    said = run_live(path, tmp_path / "out", "--fast", "--no-explain", code=4)
    assert "a launch replays a CUDA graph" in said
    (summary,) = (tmp_path / "out").glob("endings/2*/summary.json")
    document = json.loads(summary.read_text())
    cells = {cell["variant"]: cell for cell in document["cells"]}
    assert {name for name, cell in cells.items() if cell["outcome"] == "measured"} == {
        *("once", "many", "fills")
    }
    assert cells["many"]["metrics"]["kernels"]["median"] == 300
    (copies,) = [n["text"] for n in document["notices"] if n["kind"] == "copies_not_timed"]
    assert "many at p: 1 in a launch, 0.5243 MB" in copies, "clone() is no kernel"
    processes = {
        json.loads(journal.read_text().partition("\n")[0])["pid"]
        for journal in summary.parent.glob("raw/cupti*/journal.jsonl")
    }
    assert len(processes) == 2, "one until the fault, and one after it"
