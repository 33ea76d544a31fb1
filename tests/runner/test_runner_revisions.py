"""Workloads of several revisions of a file in one process."""

import sys

import pytest
import torch

from profiler.runner.protocol import LAUNCHER, REVISION
from profiler.runner.revisions.workload import merged_workload, share_memory

WORKLOAD = """
import factors
import torch

TOLERANCES = {"float32": (1e-3, 0.0)}


def make_inputs(problem, device, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(problem["n"], generator=generator), "shift": torch.zeros(SHIFT)}


def reference(problem, inputs):
    return FACTOR * inputs["x"].double()


def prepare(variant, problem, inputs, library):
    import late

    return lambda: factors.FACTOR * inputs["x"] + late.ZERO * variant["by"]


def flops(problem):
    return factors.FACTOR * problem["n"]
"""


def write(folder, factor, shift=1):
    folder.mkdir()
    text = WORKLOAD.replace("SHIFT", str(shift)).replace("FACTOR *", f"{factor} *", 1)
    (folder / "workload.py").write_text(text)
    (folder / "factors.py").write_text(f"FACTOR = {factor}\n")
    (folder / "late.py").write_text("ZERO = 0\n")
    return folder / "workload.py", None


@pytest.fixture
def merged(tmp_path):
    loaded = {*sys.modules}
    yield merged_workload({"old": write(tmp_path / "a", 2), "new": write(tmp_path / "b", 3)})
    for name in {*sys.modules} - loaded:
        del sys.modules[name]


def variant(revision):
    return {REVISION: revision, LAUNCHER: "1", "by": 1}


def test_each_revision_runs_with_modules_of_its_own(merged):
    problem = {"n": 4}
    inputs = merged["make_inputs"](problem, torch.device("cpu"), 7)
    results = [
        merged["prepare"](variant(revision), problem, inputs, None)() for revision in ("old", "new")
    ]
    torch.testing.assert_close(results[0] * 3, results[1] * 2)
    torch.testing.assert_close(merged["reference"](problem, inputs).float(), results[1])
    assert merged["flops"](problem) == 3 * 4, "the newest says how much work it is"
    assert merged["TOLERANCES"] == {"float32": (1e-3, 0.0)}
    assert not {"factors", "late"} & sys.modules.keys()


def test_inputs_that_hold_the_same_share_memory(merged):
    inputs = merged["make_inputs"]({"n": 4}, torch.device("cpu"), 7)
    old, new = (inputs[revision]["x"] for revision in ("old", "new"))
    assert old.data_ptr() == new.data_ptr()


def test_inputs_that_differ_do_not_share_memory():
    first, other = {"x": torch.zeros(2), "y": torch.zeros(2)}, {"x": torch.ones(2), "y": "none"}
    share_memory(first, other)
    assert first["x"].data_ptr() != other["x"].data_ptr()


def test_relative_imports_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "workload.py").write_text("from . import factors\n")
    with pytest.raises(ImportError, match="import by the full name of its package"):
        merged_workload({"abc": (tmp_path / "workload.py", None)})
