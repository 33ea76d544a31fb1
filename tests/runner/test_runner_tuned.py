"""What a compiler's autotuner tried for a launch goes into the journal, where there is any."""

from dataclasses import replace

import pytest

WORKLOAD = """
import torch

def make_inputs(problem, device, seed):
    return torch.ones(problem["rows"], problem["columns"], device=device)

def reference(problem, inputs):
    return inputs.double().sum(dim=1)

class Launch:
    def __init__(self, inputs, tuned):
        self.inputs, self.tuned = inputs, tuned
    def __call__(self):
        return self.inputs.sum(dim=1)

def prepare(variant, problem, inputs, library):
    tuned = ({"operation": "triton_red_0", "config": {"XBLOCK": 8}, "best": True},)
    return Launch(inputs, tuned if variant["how"] == "tuned" else ())
"""


@pytest.fixture
def records(bench, tmp_path):
    (tmp_path / "own.py").write_text(WORKLOAD)
    job = replace(bench.job(["tuned", "plain"]), workload=str(tmp_path / "own.py"))
    return bench.run(job)


def test_the_description_of_a_cell_holds_what_was_tried(records, select):
    told = {
        record["cell"]: record.get("tuned")
        for record in select(records, event="finished", phase="describe")
    }
    assert told == {
        "tuned..p0": [{"operation": "triton_red_0", "config": {"XBLOCK": 8}, "best": True}],
        "plain..p0": None,
    }
