"""A described workload in a session: what torch can do of it, checked as any other."""

from dataclasses import replace

import pytest

from profiler.planning.spec import load_spec
from profiler.runner.protocol import (
    FAILED,
    FINISHED,
    JobCell,
    JobVisit,
    Tolerance,
    read_job,
    write_job,
)

SPEC = """\
name: sums
workload:
  source: sums.cu
  arguments: {x: {shape: [rows, 64]}, y: {shape: rows, output: true, fill: uniform}, scale: 1 / 4}
  grid: 1
  block: 1
  reference: sums.py:reference
  bytes: rows * 65 * size_of('float32')
variants: {list: [sum]}
"""

REFERENCE = """\
def reference(problem, inputs):
    assert inputs["x"].shape == (problem["rows"], 64)
    return inputs["y"].double() + inputs["x"].double().sum(dim=1) / 4
"""

VARIANTS = {
    "sum": {"torch": "y + scale * x.sum(dim=1)"},
    "product": {"torch": "torch.addmm(y[:, None], x, full((64, 1), scale))[:, 0]"},
    "wrong": {"torch": "y + x.sum(dim=1)"},
    "unknown": {"torch": "y + z"},
    "kernel": {"kernel": "sums"},
}


@pytest.fixture
def journal(bench):
    """Records of a session of all variants, by cell and phase."""
    (bench.folder / "sums.yaml").write_text(SPEC)
    (bench.folder / "sums.py").write_text(REFERENCE)
    loaded = load_spec(bench.folder / "sums.yaml")
    workload = loaded.experiment.workload
    problem = {"rows": 16}
    job = bench.job(
        (),
        workload=workload.target(loaded.base),
        description=workload.document(loaded.base),
        cells=tuple(JobCell(n, n, params, "p", problem) for n, params in VARIANTS.items()),
        visits=tuple(JobVisit(name, 0) for name in VARIANTS),
        tolerances={"float32": Tolerance(1e-5, 1e-5)},
    )
    write_job(job, bench.folder / "job.json")
    again = read_job(bench.folder / "job.json")
    assert replace(again, description=None) == replace(job, description=None)
    return {
        (record["cell"], record["phase"]): record
        for record in bench.run(again)
        if record["event"] in (FINISHED, FAILED)
    }


def test_expressions_are_checked_and_measured(journal):
    for name in ("sum", "product"):
        assert journal[name, "check"]["event"] == FINISHED
        assert journal[name, "describe"]["bytes"] == 16 * 65 * 4
        assert len(journal[name, "measure"]["durations_ns"]) == 3
        assert journal[name, "recheck"]["event"] == FINISHED
    assert journal["wrong", "check"]["outcome"] == "wrong_result"
    assert "elements are wrong; worst at " in journal["wrong", "check"]["cause"]
    assert "there is no 'z'; known: " in journal["unknown", "check"]["cause"]
    assert "a CUDA kernel cannot run on cpu" in journal["kernel", "prepare"]["cause"]
