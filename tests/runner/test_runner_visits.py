"""Visits of timelines: which ranges, how many launches, what is waited for and switched on."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from profiler.runner.device import CpuDevice, open_device
from profiler.runner.orders import LeavingError
from profiler.runner.protocol import JobVisit
from profiler.runner.timing import host_clock
from profiler.runner.visits import kinds as visits
from profiler.runner.visits.kinds import RecordedVisits, TimedVisits, TracedVisits, make_visits

PARTS = str(Path(__file__).parent / "workloads" / "parts.py")
VISIT = JobVisit("a..p0", 3, 1)


@pytest.fixture
def device(steps, monkeypatch):
    """A device that launches are waited for, and whose CUDA runtime only writes down its calls."""

    class Device(CpuDevice):
        def __init__(self):
            super().__init__()
            self.torch_device = torch.device("cuda")

        def wait(self):
            steps.append("wait")

        def empty_caches(self):
            steps.append("flush")

    def called(name):
        return lambda: steps.append(name) or 0

    runtime = SimpleNamespace(cudaProfilerStart=called("on"), cudaProfilerStop=called("off"))
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "check_error", lambda code: None)
    return Device()


ONE_VISIT = [
    "push cell=a..p0;block=3;arm=1",
    *("push launch=0", "launch", "pop"),
    *("push launch=1", "launch", "pop"),
    "wait",
    "pop",
]


def test_launches_under_nsys_have_ranges_of_their_own_and_one_wait(bench, device, steps):
    job = bench.job(["plain"], collector="nsys", launches=2, capture="program")

    assert make_visits(job, device).make(VISIT, lambda: steps.append("launch")) == {}

    assert steps == ONE_VISIT


def test_caches_are_empty_before_the_range_of_a_visit_begins(bench, device, steps):
    plain, flushed = (bench.job(["plain"], collector="ncu", flush=flush) for flush in (False, True))
    one_visit = ["push cell=a..p0;block=3;arm=1", "launch", "wait", "pop"]

    make_visits(plain, device).make(VISIT, lambda: steps.append("launch"))
    assert steps == one_visit
    steps.clear()
    make_visits(flushed, device).make(VISIT, lambda: steps.append("launch"))
    assert steps == ["flush", "flush", *one_visit], "once to take its memory before all others"


def test_a_cpu_has_no_caches_of_its_own_to_empty(bench):
    job = bench.job(["plain"], collector="ncu", flush=True)
    assert make_visits(job, CpuDevice()).make(VISIT, lambda: None) == {}


def test_recording_is_on_from_the_first_visit_to_the_end(bench, device, steps):
    recorded = make_visits(bench.job(["plain"], collector="nsys", launches=2), device)
    for _ in range(2):
        recorded.make(VISIT, lambda: steps.append("launch"))
    recorded.close()
    recorded.close()

    assert steps == ["on", *ONE_VISIT, *ONE_VISIT, "off"]


@pytest.mark.parametrize("capture", ["program", "epoch", "epoch@mine"])
def test_recording_is_left_to_nsys_where_it_does_not_begin_with_a_visit(
    bench, device, steps, capture
):
    recorded = RecordedVisits(bench.job(["plain"], collector="nsys", capture=capture), device)
    recorded.make(VISIT, lambda: None)
    recorded.close()

    assert not {"on", "off"} & set(steps)


def test_a_session_without_visits_switches_nothing(bench, device, steps):
    RecordedVisits(bench.job(["plain"], collector="nsys"), device).close()

    assert steps == []


def test_switching_off_a_lost_device_raises_nothing(bench, device, monkeypatch):
    recorded = RecordedVisits(bench.job(["plain"], collector="nsys"), device)
    recorded.make(VISIT, lambda: None)

    def refuse():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(visits, "_cuda_runtime", refuse)

    recorded.close()


def test_on_a_cpu_there_are_only_ranges(bench, steps, monkeypatch):
    monkeypatch.setattr(visits, "_cuda_runtime", lambda: pytest.fail("there is no CUDA here"))
    recorded = RecordedVisits(bench.job(["plain"], collector="nsys"), open_device("cpu"))
    recorded.make(VISIT, lambda: steps.append("launch"))
    recorded.close()

    assert steps == [
        "push cell=a..p0;block=3;arm=1",
        *("push launch=0", "launch", "pop"),
        "pop",
    ]


def test_visits_of_timers_give_what_their_stopwatch_says(steps, monkeypatch):
    ticks = iter([100, 130])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(ticks))
    timed = TimedVisits(partial(host_clock, 1))

    assert timed.make(VISIT, lambda: steps.append("launch")) == {"durations_ns": [30.0]}
    assert steps == ["push cell=a..p0;block=3;arm=1", "launch", "pop"]


def test_collectors_have_their_visits(bench):
    device = open_device("cpu")
    made = {
        name: type(make_visits(bench.job(["plain"], collector=name), device))
        for name in ("ncu", "timer", "nsys", "torch")
    }

    assert made == {
        "ncu": TimedVisits,
        "timer": TimedVisits,
        "nsys": RecordedVisits,
        "torch": TracedVisits,
    }
    with pytest.raises(ValueError, match=r"'sundial'; known are ncu, .*, nsys, torch"):
        make_visits(bench.job(["plain"], collector="sundial"), device)


def test_under_nsys_the_journal_has_no_durations(bench, select):
    job = bench.job(
        ["marked"], [{"size": 8}], workload=PARTS, collector="nsys", launches=3, blocks=1
    )

    (record,) = select(bench.run(job), event="finished", phase="measure")

    assert record.keys() == {"line", "event", "time", "cell", "phase", "block"}


def test_recording_ends_when_a_session_is_lost(bench, monkeypatch):
    closed = []
    monkeypatch.setattr(RecordedVisits, "close", lambda self: closed.append(True))

    def lose(self, visit, launch):
        raise LeavingError(130)

    monkeypatch.setattr(RecordedVisits, "make", lose)
    with pytest.raises(LeavingError):
        bench.run(bench.job(["plain"], collector="nsys"))

    assert closed == [True]
