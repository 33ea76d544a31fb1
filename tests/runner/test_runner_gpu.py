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
