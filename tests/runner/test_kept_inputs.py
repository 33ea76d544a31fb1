"""Inputs are compared with copies, by memory and byte by byte."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from profiler.runner.arrays import as_tensor
from profiler.runner.checks.check import WrongResultError
from profiler.runner.checks.kept_inputs import KeptInputs, MemorySums
from profiler.runner.experiment import FUNCTION


def test_what_was_written_is_named_and_undone_whatever_its_shape():
    whole = torch.arange(24.0).reshape(4, 6)
    inputs = {
        "view": whole.T[::2],
        "other view": whole[1:],
        "nan": torch.tensor([float("nan"), 1.0]),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "empty": torch.empty(0),
        "expanded": torch.ones(1).expand(3),
        "complex": torch.ones(3, dtype=torch.complex64),
        "sparse": torch.eye(3).to_sparse(),
        "flags": torch.tensor([True, False]),
    }
    kept = KeptInputs(inputs)
    assert kept.written_names() == ()
    whole[0, 0] = -1
    inputs["flags"][1] = True
    assert set(kept.written_names()) == {"view", "other view", "flags"}
    with pytest.raises(
        WrongResultError, match=r"it writes into inputs \(view, other view, flags\)"
    ):
        kept.refuse_written()
    assert kept.written_names() == ()
    assert whole[0, 0] == 0
    assert inputs["flags"].tolist() == [True, False]


def test_arrays_that_begin_anywhere_and_values_that_only_move_are_seen():
    array = np.arange(9, dtype="float32")[1:]
    kept = KeptInputs({"x": as_tensor(array)})
    array.sort()
    assert kept.written_names() == ()
    array[:] = array[::-1].copy()  # the same values in another order
    assert kept.written_names() == ("x",)
    kept.restore()
    assert array.tolist() == [*range(1, 9)]


def test_results_in_the_memory_of_an_input_are_copied_and_outputs_are_not_kept():
    x, out = torch.ones(3), torch.zeros(3)
    kept = KeptInputs({"x": x, "out": out})
    aside, fresh = kept.copied_if_shared((x[:2], torch.full((2,), 5.0)))
    x.zero_()
    assert aside.tolist() == [1, 1]
    assert fresh.tolist() == [5, 5]
    kept.forget((out,))
    out.fill_(7)
    assert kept.written_names() == ("x",)


TAKEN = {
    "set": lambda x: x.set_(torch.empty(0)),
    "data": lambda x: setattr(x, "data", torch.zeros(2, 3)),
    "resize": lambda x: x.resize_(1, 2),
    "transpose": lambda x: x.t_(),
    "storage": lambda x: x.untyped_storage().resize_(0),
    "larger storage": lambda x: x.untyped_storage().resize_(1000),
}


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_memory_that_was_taken_away_from_an_input_is_given_back(take):
    inputs = {"x": torch.arange(6.0).reshape(2, 3)}
    kept = KeptInputs(inputs)
    take(inputs["x"])
    assert kept.written_names() == ("x",)
    kept.restore()
    assert inputs["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert kept.written_names() == ()


def test_sums_tell_later_writes_without_copies_and_leave_outputs_alone():
    inputs = {"x": torch.zeros(8), "out": torch.zeros(8, dtype=torch.bfloat16)}
    sums = MemorySums(inputs, (inputs["out"],))
    inputs["out"].fill_(1)
    assert sums.changed_names() == ()
    inputs["x"][3] = 1
    assert sums.changed_names() == ("x",)


LATE = """\
import profiler, torch
calls = []
e = profiler.Experiment("late", problems={"n": [1000]})
@e.inputs
def inputs(n): return torch.randn(n)
@e.variant(baseline=True)
def plain(x): return torch.relu(x)
@e.variant
def late(x):
    calls.append(1)
    result = torch.relu(x)
    if len(calls) > 3:
        x.copy_(result)
    return result
"""


def test_inputs_that_are_overwritten_after_the_check_are_said(bench, select, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    job = bench.job(["plain", "late"], [{"n": 1000}], workload=str(tmp_path / "late.py"))
    cells = tuple(replace(cell, variant_params={FUNCTION: cell.variant}) for cell in job.cells)
    records = bench.run(replace(job, cells=cells))
    passed_over = select(records, event="not_rechecked")
    assert {record["cell"] for record in passed_over} == {"plain..p0", "late..p0"}
    assert passed_over[0]["cause"] == "a variant overwrote x while it was measured"


EMPTIED = """\
import dataclasses, profiler, torch
@dataclasses.dataclass
class Weights:
    of_layers: list
e = profiler.Experiment("emptied", problems={"n": [100]})
@e.inputs
def inputs(n):
    parts = Weights([torch.randn(n)]), {"b": torch.ones(n)}
    return {"x": torch.randn(n), "parts": parts}
@e.variant(baseline=True)
def plain(x, parts): return x * parts[0].of_layers[0] + parts[1]["b"]
@e.variant
def takes(x, parts): return x * parts[0].of_layers.pop() + parts[1].pop("b")
@e.variant
def other(x, parts): return torch.addcmul(parts[1]["b"], x, parts[0].of_layers[0])
"""


def test_what_a_variant_takes_out_of_the_containers_of_its_inputs_is_gone_for_it_alone(
    bench, select, tmp_path
):
    (tmp_path / "emptied.py").write_text(EMPTIED)
    names = ["takes", "plain", "other"]
    job = bench.job(names, [{"n": 100}], workload=str(tmp_path / "emptied.py"))
    cells = tuple(replace(cell, variant_params={FUNCTION: cell.variant}) for cell in job.cells)
    records = bench.run(replace(job, cells=cells))
    assert {record["cell"] for record in select(records, event="failed")} == {"takes..p0"}


MODULE = """\
import torch
from dataclasses import dataclass, field
calls = []
@dataclass
class Inputs:
    values: torch.Tensor
    result: torch.Tensor
    workspace: dict = field(default_factory=dict)
def make_inputs(problem, device, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(problem["n"], generator=generator)
    return Inputs(values, torch.empty_like(values), {"partial": torch.zeros(4)})
def reference(problem, inputs):
    return torch.relu(inputs.values)
class Launch:
    def __init__(self, variant, inputs):
        self.late, self.inputs, self.outputs = variant["late"], inputs, (inputs.result,)
    def __call__(self):
        calls.append(1)
        self.inputs.workspace["partial"].fill_(len(calls))
        torch.clamp(self.inputs.values, min=0, out=self.inputs.result)
        if self.late and len(calls) > 4:
            self.inputs.values.copy_(self.inputs.result)
        return self.inputs.result
def prepare(variant, problem, inputs, library):
    return Launch(variant, inputs)
"""


LAZY = (
    MODULE.replace(
        "def make_inputs",
        """    @functools.cached_property
    def packed(self): return self.values.flip(0)
    @functools.cached_property
    def scratch(self): return torch.zeros(4)
def make_inputs""",
    )
    .replace("import torch\n", "import functools, torch\n", 1)
    .replace(
        "            self.inputs.values.copy_(self.inputs.result)\n",
        "            self.inputs.packed.add_(1)\n",
    )
    .replace(
        "        if self.late",
        "        self.inputs.packed, self.inputs.scratch.add_(1)\n        if self.late",
    )
)


def said_of_inputs(bench, select, folder, module, *, late):
    """Causes by which cells of a workload were not checked again; `late`: one writes into them."""
    (folder / "module.py").write_text(module)
    job = bench.job(["plain", "late"], [{"n": 1000}], workload=str(folder / "module.py"))
    cells = tuple(
        replace(cell, variant_params={"late": late and cell.variant == "late"})
        for cell in job.cells
    )
    records = bench.run(replace(job, cells=cells))
    return {record["cause"] for record in select(records, event="not_rechecked")}


@pytest.mark.parametrize("late", [True, False])
def test_so_are_inputs_that_are_made_when_they_are_needed(bench, select, tmp_path, late):
    """What launches write anyway is a workspace: `scratch`."""
    causes = said_of_inputs(bench, select, tmp_path, LAZY.replace("> 4", "> 6"), late=late)
    written = "a variant overwrote inputs.packed while it was measured"
    assert causes == ({written} if late else set())


@pytest.mark.parametrize("late", [True, False])
def test_so_are_those_of_a_workload_module_but_not_what_launches_write_anyway(
    bench, select, tmp_path, late
):
    causes = said_of_inputs(bench, select, tmp_path, MODULE, late=late)
    written = "a variant overwrote inputs.values while it was measured"
    assert causes == ({written} if late else set())
