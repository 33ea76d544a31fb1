"""Starts that overlap, under the real ncu; `python -m pytest -m gpu`."""

import json
from itertools import pairwise

import pytest
from live_run import ROOT, run_live

SOFTMAX = ROOT / "benchmarks/speed/torch_softmax.py"
AT_IMPORT = "torch.zeros(1, device='cuda')\n"

pytestmark = pytest.mark.gpu


def run(folder, workload):
    """What a run with three sessions said, and the journal of each."""
    results = ("half", "float", "double")  # two variants would have no confirmation
    spec = {
        "name": "overlap",
        "workload": str(workload),
        "variants": {"list": [{"name": name, "params": {"result": name}} for name in results]},
        "problems": {"matrix": {"rows": [4096], "columns": [2048, 4096]}},
        "collect": {
            "blocks": 6,
            "final_blocks": 6,
            "explain": False,
            "metrics": ["duration_ns", "cycles", "dram_read_bytes"],
        },
    }
    path = folder / "overlap.yaml"
    path.write_text(json.dumps(spec))
    said = run_live(path, folder)
    journals = {
        file.parent.name: [json.loads(line) for line in file.read_text().splitlines()]
        for file in folder.glob("overlap/*/raw/*/journal.jsonl")
    }
    (summary,) = folder.glob("overlap/*/summary.json")
    cells = json.loads(summary.read_text("utf-8"))["cells"]
    assert {cell["outcome"] for cell in cells} == {"measured"}
    return said, journals


def in_order(journals):
    """Stamps of each session, and its last launch, in the order of their first visits."""
    sessions = [(r[0]["stamps"], r[-1]["monotonic"]) for r in journals.values()]
    return sorted(sessions, key=lambda session: session[0]["visits"])


@pytest.mark.parametrize("attempt", range(5))
def test_no_context_is_created_before_the_last_launch_of_the_session_before(tmp_path, attempt):
    _, journals = run(tmp_path, SOFTMAX)
    sessions = in_order(journals)
    assert len(sessions) >= 3
    pairs = list(pairwise(sessions))
    assert all(last_launch <= stamps["turn"] for (_, last_launch), (stamps, _) in pairs)
    assert any(stamps["python"] < last_launch for (_, last_launch), (stamps, _) in pairs)


def test_a_workload_that_creates_a_context_at_import_runs_without_overlap(tmp_path):
    workload = tmp_path / "workload.py"
    workload.write_text(SOFTMAX.read_text().replace("RESULTS =", f"{AT_IMPORT}RESULTS =", 1))
    said, journals = run(tmp_path, workload)
    assert "Importing the workload creates a CUDA context" in said
    assert all(records[0]["context_at_import"] for records in journals.values())
