"""Visits under torch.profiler on a CUDA device: kernels, launches, and who launched what."""

from pathlib import Path

import pytest
from traced_parts import parts_of

from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys_attribution import NO_STACK, attribute

pytestmark = pytest.mark.gpu

PARTS = str(Path(__file__).parent / "workloads" / "parts.py")
LAUNCHES = 3
HOWS = ("marked", "pushed", "threaded", "graph")


@pytest.fixture(scope="module")
def visits(tmp_path_factory, workbench, select):
    """Journal record of the one visit of each cell, and its trace with what launched what."""
    bench = workbench(tmp_path_factory.mktemp("parts"))
    job = bench.job(
        HOWS,
        [{"size": 512}],
        workload=PARTS,
        device="cuda",
        collector="torch",
        launches=LAUNCHES,
        blocks=1,
    )
    finished, records = bench.run_process(job)
    assert finished.returncode == 0, finished.stderr
    assert not select(records, event="failed")
    measured = select(records, event="finished", phase="measure")
    return {
        how: (record, attribute(read_traces([bench.folder / record["trace"]])))
        for how, record in zip(HOWS, measured, strict=True)
    }


@pytest.mark.parametrize("how", HOWS)
def test_every_kernel_of_a_visit_lies_in_one_of_its_launches(visits, how):
    _, found = visits[how]
    kernels = found.operations[found.operations["kind"] == "kernel"]
    ranges = found.ranges["name"].astype(object)

    launched = kernels["launch"].notna()
    assert launched.all(), kernels.loc[~launched, "name"].tolist()
    depth = found.stacks["depth"]
    inside = [stack != NO_STACK and depth[stack] >= 2 for stack in kernels["stack"]]
    assert all(inside), kernels.loc[[not one for one in inside], "name"].tolist()
    assert ranges.tolist().count(f"cell={how}..p0;block=0") == 1
    for launch in range(LAUNCHES):
        assert parts_of(found, f"cell={how}..p0;block=0", launch)


@pytest.mark.parametrize(
    ("how", "backward"),
    [("marked", "backward"), ("pushed", "backward/gradient"), ("threaded", "backward")],
)
def test_forward_and_backward_have_their_kernels(visits, how, backward):
    _, found = visits[how]
    for launch in range(LAUNCHES):
        parts = parts_of(found, f"cell={how}..p0;block=0", launch)
        assert any("softmax" in name.lower() for name in parts["forward"]), parts
        assert any("softmax" in name.lower() for name in parts[backward]), parts
        assert set(parts) == {"forward", backward}


def test_only_the_thread_of_autograd_is_placed_by_time(visits):
    by_time = {how: visits[how][1].operations["by_time"] for how in HOWS}

    assert not by_time["marked"].any()
    assert not by_time["pushed"].any()
    assert by_time["threaded"].any()
    assert not by_time["threaded"].all()


def test_the_kernels_of_a_graph_belong_to_its_launch(visits):
    _, found = visits["graph"]
    kernels = found.operations[found.operations["kind"] == "kernel"]

    for launch in range(LAUNCHES):
        (path,) = parts_of(found, "cell=graph..p0;block=0", launch)
        assert path == "replay"
    calls = found.api["name"].astype(object)[kernels["launch"].astype(int).unique()]
    assert set(calls) == {"cudaGraphLaunch"}


def test_a_kernel_is_known_in_full(visits):
    operations = visits["marked"][1].operations
    kernels = operations[operations["kind"] == "kernel"]

    known = ("device", "context", "stream", "grid_x", "block_z", "registers", "correlation")
    assert kernels[[*known, "dynamic_shared_bytes"]].notna().all(axis=None)
    durations = kernels["end_ns"] - kernels["start_ns"]
    assert durations.between(500, 10_000_000).all()
    # Two clocks are put together here, and a kernel can seem to begin a moment before its call.
    assert (kernels["start_ns"] > kernels["launch_ns"]).mean() > 0.9
    assert not kernels["name"].astype(str).str.contains("[<(:]").any()


def test_launches_of_a_visit_do_the_same_work(visits):
    for how in ("marked", "pushed", "graph"):
        one, *others = [
            parts_of(visits[how][1], f"cell={how}..p0;block=0", launch)
            for launch in range(LAUNCHES)
        ]
        assert all(other == one for other in others)


def test_operators_have_the_time_of_their_kernels(visits):
    record, found = visits["marked"]
    total_us = (found.operations["end_ns"] - found.operations["start_ns"]).sum() / 1000
    operators = record["operators"]

    times = [operator["self_device_us"] for operator in operators]
    assert times == sorted(times, reverse=True)
    assert times[0] > 0
    assert sum(times) == pytest.approx(total_us, rel=0.02)
    assert not [o for o in operators if o["name"].startswith(("cuda", "cell=", "void "))]


@pytest.mark.parametrize("capture", ["visits", "program"])
def test_visits_for_nsys_run_without_nsys(bench, select, capture):
    job = bench.job(
        ["marked"],
        [{"size": 64}],
        workload=PARTS,
        device="cuda",
        collector="nsys",
        launches=2,
        capture=capture,
    )

    finished, records = bench.run_process(job)

    assert finished.returncode == 0, finished.stderr
    assert len(select(records, event="finished", phase="measure")) == 2
