"""The check after the last visit: what it finds, and whom it leaves in peace."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import pytest
import torch
from studies import workload_of

from profiler.runner import protocol
from profiler.runner.arguments import Arguments
from profiler.runner.checks import renewal
from profiler.runner.checks.check import Tolerance
from profiler.runner.checks.renewal import (
    NotRenewableError,
    Renewal,
    Sample,
    other_seed,
    require_same,
    shuffled_values,
    zeroed_inputs,
)
from profiler.runner.device import CpuDevice
from profiler.runner.protocol import JobCell, JobVisit
from profiler.runner.seal import ImplausibleError, Seal

CHEATS = Path(__file__).parent / "workloads/cheats.py"
HONEST = ("honest", "honest, into its output")
FOUND = {
    "cached output": "implausible",
    "skipped work on seen inputs": "implausible",
    "copy of the reference": "implausible",
    "half the rows": "implausible",
    "lower precision": "wrong_result",
    "work on another thread": "wrong_result",
    "replaced timer": "implausible",
    "constant output": "implausible",
    "output written before": "implausible",
    "reads the poison": "implausible",
}
PROBLEM = {"rows": 64, "columns": 32}


@pytest.fixture(scope="module")
def records(tmp_path_factory, workbench):
    """Journal of one session with all ways to cheat, and honest variants among them."""
    bench = workbench(tmp_path_factory.mktemp("cheats"))
    hows = [HONEST[0], *FOUND, HONEST[1]]
    return bench.run(bench.job(hows, [PROBLEM], workload=str(CHEATS)))


def how_of(record):
    return record["cell"].partition("..")[0].replace("_", " ")


def test_ten_of_ten_ways_to_cheat_are_found(records, select):
    found = {how_of(record): record["outcome"] for record in select(records, event="failed")}
    assert found == FOUND


def test_honest_variants_between_them_are_measured_and_checked_again(records, select):
    again = select(records, event="finished", phase=protocol.RECHECK)
    assert [how_of(record) for record in again] == list(HONEST)
    assert not select(records, event=protocol.NOT_RECHECKED)
    measured = [how_of(record) for record in select(records, phase="measure", event="finished")]
    assert {measured.count(how) for how in HONEST} == {2}


def test_the_reason_of_a_replaced_timer_names_it_and_it_is_put_back(records, select):
    (failure,) = [r for r in select(records, event="failed") if how_of(r) == "replaced timer"]
    assert failure["cause"] == ("the workload replaced time.perf_counter_ns, Event.elapsed_time")
    assert failure["phase"] == "prepare"
    assert time.perf_counter_ns.__module__ == "time"


def test_a_workload_that_replaces_timers_when_it_is_imported_has_no_numbers(bench, select):
    path = bench.folder / "patches.py"
    path.write_text("from cheats import *\nimport time\ntime.perf_counter_ns = time.time_ns\n")
    sys.path.insert(0, str(CHEATS.parent))
    try:
        records = bench.run(bench.job(HONEST, [PROBLEM], workload=str(path)))
    finally:
        sys.path.remove(str(CHEATS.parent))
    assert {r["outcome"] for r in select(records, event="failed")} == {"implausible"}
    assert len(select(records, event="failed")) == len(HONEST)


def test_what_replaces_its_own_check_is_found():
    seal = Seal()
    original = renewal.check.compare
    renewal.check.compare = lambda *_: None
    with pytest.raises(ImplausibleError, match=r"runner\.checks\.check\.compare"):
        seal.require_whole()
    assert renewal.check.compare is original
    seal.require_whole()


def test_only_cells_that_were_checked_here_and_are_not_trusted_are_checked_again(bench, select):
    job = bench.job(HONEST, [PROBLEM], workload=str(CHEATS))
    first, second = job.cells
    for cells in (
        (dataclasses.replace(first, check=False), second),
        (dataclasses.replace(first, recheck=False), second),
    ):
        Path(job.journal).unlink(missing_ok=True)
        records = bench.run(dataclasses.replace(job, cells=cells))
        again = select(records, event="finished", phase=protocol.RECHECK)
        assert [record["cell"] for record in again] == [second.id]


INPUTS_OF_ONE_VALUE = """\
from cheats import *
def make_inputs(problem, device, seed):
    return {"matrix": torch.ones(8, 4), "vector": torch.arange(4.0)}
"""
NO_SECOND_INPUTS = """\
from cheats import *
made = []
def make_inputs(problem, device, seed, first=make_inputs):
    made.append(seed)
    if len(made) > 1:
        raise ValueError("the file was read already")
    return first(problem, device, seed)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (INPUTS_OF_ONE_VALUE, "inputs of another seed are the same"),
        (NO_SECOND_INPUTS, "ValueError: the file was read already (mine.py:6 in make_inputs)"),
    ],
)
def test_where_there_are_no_other_inputs_cells_are_passed_over_and_that_is_said(
    bench, select, monkeypatch, text, cause
):
    monkeypatch.syspath_prepend(str(CHEATS.parent))
    (bench.folder / "mine.py").write_text(text)
    job = bench.job(HONEST, [PROBLEM], workload=str(bench.folder / "mine.py"))
    records = bench.run(job)
    passed = select(records, event=protocol.NOT_RECHECKED)
    assert [(record["cell"], record["cause"]) for record in passed] == [
        (cell.id, cause) for cell in job.cells
    ]
    assert not select(records, event="failed")


def test_without_memory_for_the_launch_a_cell_is_passed_over(bench, select, monkeypatch):
    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(Renewal, "sample", exhaust)
    records = bench.run(bench.job(HONEST, [PROBLEM], workload=str(CHEATS)))
    assert len(select(records, event=protocol.NOT_RECHECKED)) == len(HONEST)
    assert not select(records, event="failed")


# ---- the workloads of the repository -------------------------------------------------------------

OWN = [
    (workload_of("softmax"), {"algorithm": "torch"}, {"rows": 8, "columns": 16}),
    (
        workload_of("fusion"),
        {"implementation": "eager"},
        {"operator": "softmax", "dim0": 8, "dim1": 16},
    ),
    (
        workload_of("mlp"),
        {"implementation": "eager"},
        {"optimizer": "adam", "layers": 2, "width": 16, "batch": 8},
    ),
    (
        workload_of("flash_attention"),
        {"implementation": "sdpa_flash"},
        {"precision": "BF16", "batch": 1, "seq_len": 64, "heads": 2, "head_dim": 32},
    ),
]


@pytest.mark.parametrize(("workload", "variant", "problem"), OWN)
def test_workloads_of_the_repository_are_checked_again_and_right(
    bench, select, workload, variant, problem
):
    if "softmax" in workload:
        problem = {**problem, "dtype": "float32"}
    cell = JobCell("a..p", "a", variant, "p", problem)
    visits = tuple(JobVisit(cell.id, block) for block in range(2))
    records = bench.run(bench.job([], workload=workload, cells=(cell,), visits=visits))
    assert not select(records, event="failed")
    assert not select(records, event=protocol.NOT_RECHECKED)
    assert select(records, event="finished", phase=protocol.RECHECK)


# ---- the parts -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fields:
    values: torch.Tensor
    scale: float = 1.0


class Attributes:
    def __init__(self, seed, extra=None):
        self.seed = seed
        self.layer = torch.nn.Linear(2, 2)
        self.parts = [torch.full((2,), float(seed)), {"deep": torch.full((3,), float(seed))}]
        if extra is not None:
            self.kept = extra


def test_zeroed_inputs_keep_their_whole_numbers_and_flags():
    inputs = {"x": torch.ones(3), "of": [torch.ones(2, dtype=torch.bfloat16)]}
    not_real = {"n": torch.arange(3), "mask": torch.ones(2, dtype=torch.bool)}
    assert zeroed_inputs(inputs | not_real)["x"] is inputs["x"]
    assert not inputs["x"].any()
    assert not inputs["of"][0].any()
    assert not_real["n"].sum() == 3
    assert not_real["mask"].all()


TWICE = """
import torch

def make_inputs(problem, device, seed):
    assert set(problem) == {"rows"}
    return torch.randn(problem["rows"], generator=torch.Generator(device).manual_seed(seed))

def reference(problem, inputs):
    return inputs.double().sum()

def prepare(variant, problem, inputs, library):
    return lambda: 2 * inputs.sum()
"""


def test_a_cell_on_zeros_gets_zeros_whose_result_is_right_where_that_of_others_is_wrong(
    bench, select, tmp_path
):
    (tmp_path / "twice.py").write_text(TWICE, encoding="utf-8")
    cells = tuple(
        JobCell(f"a..{name}", "a", {}, name, {"rows": 64}, on_zeros=on_zeros)
        for name, on_zeros in (("p", False), ("q", True))
    )
    visits = tuple(JobVisit(cell.id, block) for cell in cells for block in range(2))
    workload = str(tmp_path / "twice.py")
    records = bench.run(bench.job([], workload=workload, cells=cells, visits=visits))
    assert {record["cell"] for record in select(records, event="failed")} == {"a..p"}


def test_every_tensor_of_nested_inputs_is_overwritten_and_what_was_kept_is_left():
    seeds = (1, other_seed(1))
    old = Attributes(1, extra=torch.ones(1))
    parts = [old.parts[0], old.parts[1]["deep"]]
    weight = old.layer.weight.detach().clone()
    versions = [tensor._version for tensor in parts]

    def launch():
        return tuple(parts)

    Renewal(old, Attributes(seeds[1]), seeds).sample(launch, CpuDevice())

    assert [float(tensor[0]) for tensor in parts] == [parts[0].new_tensor(float(seeds[1]))] * 2
    assert [tensor._version for tensor in parts] == versions, "nothing tells that they are new"
    assert float(old.kept) == 1.0
    assert not torch.equal(old.layer.weight, weight)


def test_objects_of_a_file_that_inputs_load_each_time_are_overwritten():
    def loaded(value):
        class Model:
            def __init__(self):
                self.scale = torch.full((2,), value)

        return Model()

    old = loaded(1.0)
    Renewal(old, loaded(2.0), (1, 2)).sample(lambda: old.scale, CpuDevice())
    assert old.scale.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (torch.ones(2), torch.zeros(3), "another shape"),
        (
            Arguments((0, {"a": torch.ones(2)}), {}, ()),
            Arguments((0, {"a": torch.ones(3)}), {}, ()),
            r"inputs\[1\]\['a'\] has another shape",
        ),
        (torch.ones(2), [torch.ones(2)], "another type"),
        ([torch.ones(2)], [torch.ones(2)] * 2, "another length"),
        (Fields(torch.ones(2)), Fields(torch.zeros(2), 3.0), r"inputs\.scale is no tensor and"),
        ((torch.ones(2), iter(())), (torch.zeros(2), iter(())), r"\[1\] is tuple_iterator"),
        ((torch.ones(2), {"a"}), (torch.zeros(2), {"b"}), r"\[1\] is no tensor and depends"),
        (torch.ones(1).expand(4), torch.zeros(1).expand(4), "share memory"),
    ],
)
def test_inputs_that_cannot_be_overwritten_say_why(old, new, words):
    with pytest.raises(NotRenewableError, match=words):
        Renewal(old, new, (1, 2))


def test_shuffled_results_look_like_results_and_are_others():
    values = torch.arange(6.0).view(2, 3)
    assert shuffled_values(values).sort().values.equal(values.sort().values.flip(0))
    assert not shuffled_values(values).equal(values)
    assert shuffled_values(torch.tensor(3)) == 4
    assert shuffled_values(torch.tensor([True])).tolist() == [False]
    for dtype in (torch.uint16, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2):
        assert shuffled_values(torch.tensor([1.0, 2.0, 3.0]).to(dtype)).double().tolist() == [
            3,
            2,
            1,
        ]
        assert shuffled_values(torch.tensor([3.0]).to(dtype)).double().tolist() == [4]


def test_of_a_large_result_the_same_elements_of_both_sides_are_compared():
    result = torch.arange(float(2 * renewal.SAMPLED)).view(2, -1)
    state = Renewal([torch.ones(1)], [torch.zeros(1)], (1, 2))
    (got,) = state.take((result,))
    (expected,) = state.take((result.double(),))
    assert len(got.values) == renewal.SAMPLED
    assert got.values.double().equal(expected.values)
    require_same((got,), (expected,), {"default": Tolerance(0.0, 0.0)})


def test_a_few_elements_beyond_the_bound_are_no_objection_and_more_are():
    bound = {"default": Tolerance(0.1, 0.0)}
    right = Sample((1000,), torch.zeros(1000))
    off = torch.zeros(1000)
    off[:10] = 1.0
    require_same((Sample((1000,), off),), (right,), bound)
    require_same((Sample((1000,), torch.full((1000,), 0.39)),), (right,), bound)
    off[10] = 1.0
    with pytest.raises(ImplausibleError, match="11 of 1000 elements"):
        require_same((Sample((1000,), off),), (right,), bound)
    with pytest.raises(ImplausibleError, match="shapes"):
        require_same((Sample((10, 100), torch.zeros(1000)),), (right,), bound)


class BusyDevice(CpuDevice):
    """A device on which some work runs while the stream of the launches is busy."""

    def __init__(self, work):
        super().__init__()
        self.delay = lambda _: work()


def test_work_that_does_not_wait_for_the_stream_reads_no_new_inputs():
    values, result = torch.ones(8), torch.zeros(8)

    def beside():
        result.copy_(2 * values)

    state = Renewal([values], [torch.full((8,), 3.0)], (1, 2))
    (got,) = state.sample(result.clone, BusyDevice(beside))
    (right,) = state.take((torch.full((8,), 6.0),))
    with pytest.raises(ImplausibleError, match="8 of 8"):
        require_same((got,), (right,))


def test_a_library_with_streams_of_its_own_launches_when_the_new_inputs_are_complete():
    values = torch.ones(8)

    class WaitedFor(CpuDevice):
        complete = values

        def wait(self):
            self.complete = values.clone()

    device = WaitedFor()

    def launch():  # as JAX, which sees what the device has done when it launches
        return 2 * device.complete

    state = Renewal([values], [torch.full((8,), 3.0)], (1, 2))
    right = state.take((torch.full((8,), 6.0),))
    with pytest.raises(ImplausibleError, match="8 of 8"):
        require_same(state.sample(launch, device), right)
    launch.on_own_streams = True
    require_same(state.sample(launch, device), right)


def test_positions_are_spread_over_all_dimensions_and_repeat():
    values = torch.arange(3 * 70000 * 2).reshape(3, 70000, 2)
    positions = renewal._positions(values)
    taken = values[positions]
    assert taken.shape == (renewal.SAMPLED,)
    assert len(set(taken.tolist())) > 0.8 * renewal.SAMPLED
    assert [len(set(index.tolist())) for index in (positions[0], positions[2])] == [3, 2]
    assert torch.equal(taken, values[renewal._positions(values)])


def test_samples_are_compared_on_one_thread_whose_number_is_not_set(monkeypatch):
    """torch takes others for 32,768 elements and more; after it is told how many, MKL errs."""
    sizes = []
    count = renewal.check.count_wrong

    def watched(got, *arguments, **named):
        sizes.append(len(got))
        return count(got, *arguments, **named)

    monkeypatch.setattr(renewal.check, "count_wrong", watched)
    monkeypatch.setattr(torch, "set_num_threads", None)
    values = torch.arange(70000.0)
    require_same((Sample((70000,), values),), (Sample((70000,), values),))
    assert sum(sizes) == 70000
    assert max(sizes) < 32768
    late = torch.where(values < 69000, values, 0)
    with pytest.raises(ImplausibleError, match="1000 of 70000"):
        require_same((Sample((70000,), late),), (Sample((70000,), values),))
    assert renewal._positions(values) is not None
