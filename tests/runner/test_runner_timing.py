"""Stopwatches on the CPU."""

import ctypes
import gc
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from profiler.runner import device as device_module
from profiler.runner import timing
from profiler.runner.device import (
    CpuDevice,
    CudaDevice,
    DeviceMissingError,
    l2_flush,
    open_device,
)
from profiler.runner.timing import (
    NS_PER_MS,
    WatchedLaunch,
    host_clock,
    make_stopwatch,
    profiled_operators,
    single_launch,
    waiting_ns,
    wall_clock,
)


def test_the_host_clock_times_each_launch_by_itself(monkeypatch):
    ticks = iter([100, 130, 200, 290])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(ticks))

    assert host_clock(2, lambda: None) == [30.0, 90.0]


def test_garbage_is_not_collected_while_launches_are_timed():
    seen = []

    host_clock(2, lambda: seen.append(gc.isenabled()))

    assert seen == [False, False]
    assert gc.isenabled()


def test_a_single_launch_is_waited_for():
    steps = []

    class Device(CpuDevice):
        def wait(self):
            steps.append("wait")

    assert single_launch(Device(), lambda: steps.append("launch")) is None
    assert steps == ["launch", "wait"]


class SimulatedGpu(CpuDevice):
    """A device with one stream, beside a host whose time passes only in launches."""

    def __init__(self, monkeypatch):
        self.torch_device = torch.device("cuda")
        self.now_s = self.busy_until_s = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(timing, "_timing_event", lambda: SimulatedEvent(self))

    def delay(self, seconds):
        self.kernel(seconds)

    def kernel(self, seconds):
        self.busy_until_s = max(self.now_s, self.busy_until_s) + seconds

    def wait(self):
        self.now_s = max(self.now_s, self.busy_until_s)

    def host(self, seconds):
        self.now_s += seconds


class SimulatedEvent:
    def __init__(self, gpu):
        self.gpu, self.at_s = gpu, 0.0

    def record(self):
        self.at_s = max(self.gpu.now_s, self.gpu.busy_until_s)

    def query(self):
        return self.gpu.now_s >= self.at_s

    def synchronize(self):
        self.gpu.now_s = max(self.gpu.now_s, self.at_s)

    def elapsed_time(self, end):
        return (end.at_s - self.at_s) * 1e3


@pytest.mark.parametrize(
    ("steps", "waits_ms"),
    [
        ("kernel 0.01", 0),
        ("kernel 3, host 0.02", 0),
        ("host 5, kernel 0.01", 0),
        ("host 500, kernel 0.01", 0),
        ("kernel 0.1, wait, host 2, kernel 0.1", 2.2),
        ("kernel 0.1, wait, host 600, kernel 0.1", 600.2),
        ("wait, host 0.05, kernel 0.1", 0.15),
        ("kernel 20, wait", 20),
    ],
)
def test_a_launch_that_waits_is_told_from_one_whose_host_is_slow(monkeypatch, steps, waits_ms):
    """Steps take milliseconds."""
    gpu = SimulatedGpu(monkeypatch)

    def make(watched):
        watched.keep_busy()
        watched()

    def run():
        for step in steps.split(", "):
            name, *ms = step.split()
            getattr(gpu, name)(*(float(number) / 1e3 for number in ms))

    first = WatchedLaunch(run, gpu)
    make(first)
    assert waiting_ns(gpu, run, make, first) == pytest.approx(waits_ms * NS_PER_MS)


def test_the_plain_clock_gives_the_mean_of_three_launches_after_one_to_warm_up(monkeypatch):
    steps = []
    ticks = iter([0, 10, 100, 120, 200, 260])

    class Device(CpuDevice):
        def wait(self):
            steps.append("wait")

    monkeypatch.setattr("time.perf_counter_ns", lambda: next(ticks))
    assert wall_clock(Device(), lambda: steps.append("launch")) == [30.0]
    assert steps == ["launch", *(["wait", "launch", "wait"] * 3)]


def test_operators_are_timed_by_the_profiler_of_torch():
    x = torch.randn(400, 400)
    stopwatch = make_stopwatch("torch_kernels", open_device("cpu"), 1)

    # The shortest of many, in turn: the first one starts threads, and the machine may do other
    # things for a while.
    products, chains = [], []
    for _ in range(20):
        products += stopwatch(lambda: x @ x)
        chains += stopwatch(lambda: x @ x @ x @ x @ x)

    assert 0 < min(products) < 1e9
    assert min(chains) > min(products)
    begin = time.perf_counter_ns()
    (whole,) = stopwatch(lambda: torch.softmax(x @ x, 1))
    assert whole < time.perf_counter_ns() - begin, "it leaves out what is not in an operator"


def test_what_runs_no_operator_has_no_duration_for_the_profiler():
    assert profiled_operators(lambda: None) == []


def test_collectors_have_their_stopwatch():
    device = open_device("cpu")

    assert make_stopwatch("ncu", device, 3).func is single_launch
    assert make_stopwatch("timer", device, 3).func is host_clock
    assert make_stopwatch("torch_kernels", device, 3) is profiled_operators
    assert make_stopwatch("wall_clock", device, 3).func is wall_clock
    with pytest.raises(ValueError, match="'sundial'; known are ncu, timer, "):
        make_stopwatch("sundial", device, 3)


def test_a_kind_of_device_that_is_not_known():
    with pytest.raises(DeviceMissingError, match="'abacus'; known are cuda and cpu"):
        open_device("abacus")


def test_trouble_is_the_error_that_a_device_still_reports():
    class Device(CpuDevice):
        def wait(self):
            raise RuntimeError("CUDA error: unspecified launch failure")

    assert CpuDevice().pending_error() is None
    assert "launch failure" in str(Device().pending_error())


def test_a_device_makes_one_flush_for_all_that_empty_its_caches(monkeypatch):
    made = []
    monkeypatch.setattr(device_module, "l2_flush", lambda: made.append(object()) or made[-1])
    device = object.__new__(CudaDevice)  # as on a machine with a GPU
    device._flush = None
    device.torch_device = torch.device("cuda")
    make_stopwatch("timer", device, 3)
    make_stopwatch("timer", device, 20)
    assert made == [device.cache_flush()]


@pytest.mark.parametrize(
    ("major", "error", "steps"),
    [(9, 0, ["reset", 3 * 4096]), (7, 0, [3 * 4096]), (9, 201, ["reset"])],
)
def test_a_flush_resets_persisting_lines_and_reads_three_times_the_size_of_l2(
    monkeypatch, major, error, steps
):
    done = []
    driver = SimpleNamespace(cuCtxResetPersistingL2Cache=lambda: done.append("reset") or error)
    gpu = SimpleNamespace(L2_cache_size=4096, major=major)
    on_cpu = {"device": "cpu"}
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *sizes, **more: zeros(*sizes, **more | on_cpu))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver)
    monkeypatch.setattr(device_module, "_sum", lambda array, **_: done.append(array.nbytes))
    flush = l2_flush()
    assert not done, "nothing is read before it is asked for"
    with pytest.raises(RuntimeError, match="error 201") if error else nullcontext():
        flush()
    assert done == steps
