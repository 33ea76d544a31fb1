"""Visits under torch.profiler, through the runner as a process: traces, ranges, operators."""

import gzip
import json
from pathlib import Path

import pytest
from studies import workload_of
from traced_parts import parts_of

from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys_attribution import attribute
from profiler.runner.protocol import OPERATOR_FIELDS, JobCell, JobVisit
from profiler.runner.visits import traces

PARTS = str(Path(__file__).parent / "workloads" / "parts.py")
SIZE = 64
LAUNCHES = 3


@pytest.fixture(scope="module")
def softmax(tmp_path_factory, workbench, fork_server):
    """The softmax workload, two cells and two blocks, as the orchestrator would run it."""
    bench = workbench(tmp_path_factory.mktemp("softmax"), fork_server)
    problem = {"rows": 16, "columns": 256, "dtype": "float32"}
    names = ["torch", "torch-naive"]
    job = bench.job(
        [],
        workload=workload_of("softmax"),
        collector="torch",
        launches=LAUNCHES,
        cells=tuple(JobCell(name, name, {"algorithm": name}, "p", problem) for name in names),
        visits=(
            *(JobVisit(name, block) for block in range(2) for name in names),
            JobVisit("torch", 1, 1),
        ),
    )
    code, err, records = bench.run_fork(job)
    assert code == 0, err
    return bench.folder, records


@pytest.fixture(scope="module")
def measured(softmax, select):
    return select(softmax[1], event="finished", phase="measure")


def test_each_visit_leaves_a_trace_beside_the_journal(softmax, measured):
    folder, _ = softmax
    names = [record["trace"] for record in measured]

    assert names == [f"trace.{number}.json.gz" for number in range(5)]
    assert sorted(path.name for path in folder.glob("trace.*")) == names
    for record in measured:
        assert "durations_ns" not in record


def test_a_trace_holds_the_visit_and_each_launch(softmax, measured):
    folder, _ = softmax
    visits = [
        "cell=torch;block=0",
        "cell=torch-naive;block=0",
        "cell=torch;block=1",
        "cell=torch-naive;block=1",
        "cell=torch;block=1;arm=1",
    ]
    for record, visit in zip(measured, visits, strict=True):
        found = attribute(read_traces([folder / record["trace"]]))
        ours = found.ranges[found.ranges["domain"] == "profiler"]
        assert ours["name"].tolist() == [visit, *(f"launch={n}" for n in range(LAUNCHES))]


def test_operators_of_each_launch_are_found_in_it(softmax, measured):
    folder, _ = softmax
    found = attribute(read_traces([folder / record["trace"] for record in measured]))
    for launch in range(LAUNCHES):
        (operators,) = parts_of(found, "cell=torch;block=1", launch).values()
        assert "aten::softmax" in operators
        (operators,) = parts_of(found, "cell=torch-naive;block=1", launch).values()
        assert "aten::softmax" not in operators
        assert len(operators) > 1
    kinds = set(found.operations["kind"])
    assert kinds == {"cpu_op"}


def test_operators_are_told_with_their_stack_and_nothing_private(measured):
    for record in measured:
        operators = record["operators"]
        assert all(tuple(operator) == OPERATOR_FIELDS for operator in operators)
        times = [operator["self_cpu_us"] for operator in operators]
        assert times == sorted(times, reverse=True)
        assert len(operators) <= 30
        assert all(operator["self_device_us"] == 0 for operator in operators)
    softmax = next(op for op in measured[0]["operators"] if op["name"] == "aten::_softmax")
    assert softmax["calls"] == LAUNCHES
    assert any("(workload.py:" in frame for frame in softmax["stack"])
    names = {operator["name"] for record in measured for operator in record["operators"]}
    assert not {name for name in names if name.startswith(("cell=", "launch=", "cuda"))}
    assert not {name for name in names if ".py(" in name or name.startswith("<")}
    for record in measured:
        for operator in record["operators"]:
            for frame in operator["stack"]:
                assert "/" not in frame.rpartition(" (")[2]
                assert "(visits.py:" not in frame


@pytest.mark.parametrize(
    ("how", "backward"), [("marked", "backward"), ("pushed", "backward/gradient")]
)
def test_ranges_of_a_workload_lie_inside_its_launches(bench, select, how, backward):
    job = bench.job([how], [{"size": 16}], workload=PARTS, collector="torch", launches=2, blocks=1)

    (record,) = select(bench.run(job), event="finished", phase="measure")

    found = attribute(read_traces([bench.folder / record["trace"]]))
    for launch in range(2):
        parts = parts_of(found, f"cell={how}..p0;block=0", launch)
        assert list(parts) == ["forward", backward]
        assert parts["forward"][:3] == ["aten::matmul", "aten::div", "aten::softmax"]
        assert any("SoftmaxBackward0" in name for name in parts[backward])


def test_a_visit_that_fails_leaves_no_trace_and_the_next_one_does(bench, select):
    job = bench.job(
        ["breaks", "marked"],
        [{"size": 8}],
        workload=PARTS,
        collector="torch",
        launches=2,
        blocks=1,
    )

    records = bench.run(job)

    (failure,) = select(records, event="failed")
    assert (failure["cell"], failure["phase"]) == ("breaks..p0", "measure")
    assert "no more" in failure["cause"]
    (record,) = select(records, event="finished", phase="measure")
    assert (record["cell"], record["trace"]) == ("marked..p0", "trace.0.json.gz")
    assert [path.name for path in bench.folder.glob("trace.*")] == ["trace.0.json.gz"]


def test_a_journal_that_is_continued_keeps_its_traces(bench, select):
    job = bench.job(["marked"], [{"size": 8}], workload=PARTS, collector="torch", blocks=1)

    bench.run(job)
    records = bench.run(job)

    visits = select(records, event="finished", phase="measure")
    assert [record["trace"] for record in visits] == ["trace.0.json.gz", "trace.1.json.gz"]


def test_a_trace_has_stacks_and_no_shapes(bench, select):
    job = bench.job(["marked"], [{"size": 8}], workload=PARTS, collector="torch", blocks=1)

    (record,) = select(bench.run(job), event="finished", phase="measure")

    content = json.loads(gzip.decompress((bench.folder / record["trace"]).read_bytes()))
    assert content["with_stack"] == 1
    assert not [e for e in content["traceEvents"] if "Input Dims" in e.get("args", {})]


def test_a_visit_whose_stacks_torch_cannot_read_keeps_its_trace(bench, select, monkeypatch):
    def refuse(*_, **__):
        return b"\xff".decode()

    monkeypatch.setattr(traces.profile, "key_averages", refuse)
    job = bench.job(["marked"], [{"size": 8}], workload=PARTS, collector="torch", blocks=1)

    (record,) = select(bench.run(job), event="finished", phase="measure")

    assert record["operators"] == []
    assert len(read_traces([bench.folder / record["trace"]]).operations)


def test_frames_become_readable_and_end_at_the_runner():
    frames = [
        "/home/somebody/mine.py(12): step",
        "<built-in method softmax of type object at 0x7f00>",
        "nn.Module: Linear_0",
        "torch/some.py(0): \x18\x02",
        "my folder/mine.py(7): <lambda>",
        "/somewhere/runner/visits/traces.py(110): launch_in_ranges",
        "runpy.py(88): _run_code",
    ]

    assert traces.readable_stack(frames) == ["step (mine.py:12)", "<lambda> (mine.py:7)"]
    assert traces.readable_stack([]) == []
