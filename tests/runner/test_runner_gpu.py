"""What only a CUDA device can show: events, and errors that take the context with them."""

import pytest

from profiler.runner import protocol

pytestmark = pytest.mark.gpu

SIZE = 1 << 24


@pytest.fixture
def device_job(bench):
    from pathlib import Path

    workload = str(Path(__file__).parent / "workloads" / "on_device.py")
    return lambda hows, **changes: bench.job(
        hows, [{"size": SIZE}], device="cuda", workload=workload, **changes
    )


def test_events_time_a_copy_within_what_a_memory_can_do(bench, device_job, select):
    finished, records = bench.run_process(device_job(["twice"], repeats=5))

    assert finished.returncode == 0, finished.stderr
    for record in select(records, event="finished", phase="measure"):
        assert len(record["durations_ns"]) == 5
        for duration in record["durations_ns"]:
            bytes_per_ns = 8 * SIZE / duration
            assert 10 < bytes_per_ns < 20_000


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ("astray", ("illegal_address", "illegal memory access")),
        ("assert", ("raised", "device-side assert")),
    ],
)
def test_a_lost_context_ends_the_process_and_names_the_failing_cell(
    bench, device_job, select, how, ending
):
    finished, records = bench.run_process(device_job(["twice", how, "exhaust"]))

    assert finished.returncode == protocol.EXIT_CONTEXT_LOST
    outcome, words = ending
    (failure,) = select(records, event="failed")
    assert (failure["cell"], failure["outcome"]) == (f"{how}..p0", outcome)
    assert words in failure["cause"]
    assert records[-1] == failure


@pytest.mark.parametrize(("how", "outcome"), [("refused", "raised"), ("exhaust", "out_of_memory")])
def test_an_error_that_leaves_the_context_whole_costs_one_cell(
    bench, device_job, select, how, outcome
):
    finished, records = bench.run_process(device_job([how, "twice"], collector="ncu"))

    assert finished.returncode == 0, finished.stderr
    (failure,) = select(records, event="failed")
    assert (failure["cell"], failure["outcome"]) == (f"{how}..p0", outcome)
    assert len(select(records, event="finished", phase="measure", cell="twice..p0")) == 2


def test_what_cannot_be_captured_leaves_the_device_as_it_was():
    import torch

    from profiler.runner.device import CudaDevice
    from profiler.runner.visits.bursts import captured_graph

    device, before = CudaDevice(), torch.cuda.current_stream()
    x = torch.ones(1000, device="cuda")

    def waits():
        return (x + torch.rand(1000, device="cuda")).sum().item()

    def elsewhere():
        with torch.cuda.stream(torch.cuda.default_stream()):
            return x + 1

    for launch in (waits, elsewhere):
        assert captured_graph([launch], 10) is None
        device.pending_error()
        assert torch.cuda.current_stream() == before
        assert torch.rand(10, device="cuda").sum() > 0
        assert device.pending_error() is None
        pool = torch.cuda.MemPool()
        del pool  # aborts the process where the allocator takes a capture for one that goes on
    graph = captured_graph([lambda: x.add_(1)], 10)
    graph.replay()
    assert x.max() == 11
    torch.cuda.empty_cache()


def test_launches_back_to_back_have_a_duration_and_an_energy(bench, device_job, select):
    job = device_job(["twice"], collector="sustained", longest_s=1.5)
    finished, records = bench.run_process(job)

    assert finished.returncode == 0, finished.stderr
    visits = select(records, event="finished", phase="measure")
    assert len(visits) == 2
    for visit in visits:
        facts = visit["sustained"]
        assert 10 < 8 * SIZE / visit["durations_ns"][0] < 20_000
        assert 1 <= facts["seconds"] < 2
        assert facts["sets"] > 1
        for power in (facts["power_w"], facts["sampled_power_w"]):
            assert power is None or 20 < power < 2000
