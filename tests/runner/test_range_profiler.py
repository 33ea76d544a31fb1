"""Counters in the runner itself: what is asked of CUPTI's library, and what is made of it."""

from types import SimpleNamespace

import pytest

from profiler.runner.cupti.range_profiler import CountersError, RangeProfiler, launch_facts
from profiler.runner.device import CpuDevice, DeviceMissingError

H100 = SimpleNamespace(multi_processor_count=132, max_threads_per_multi_processor=2048)
SOFTMAX = (8192, 1, 1, 1024, 1, 1, 128, 30, 0, 2)
"""Grid, block, dynamic shared bytes, registers, static shared bytes, blocks an SM: torch's softmax
of 8192 rows of 4096 on an H100."""
METRICS = ("gpu__time_duration.sum", "launch__registers_per_thread", "dram__bytes_read.sum")


class Library:
    """Stands in for the built library: each launch has two kernels, whose values are known."""

    def __init__(self, *, fails=(), passes=1):
        self.calls, self.fails, self.passes = [], fails, passes
        self.visit, self.kernels, self.rounds = -1, [], []
        self.copied, self.concurrent = [], 1

    def copy(self, number_of_bytes):
        self.copied.append(number_of_bytes)

    def launch(self, kernels=("kernel", "other")):
        self.kernels += [(self.visit, name) for name in kernels]

    def _result(self, name, value=0):
        self.calls.append(name)
        return -1 if name in self.fails else value

    def cupti_error(self):
        return b"no such metric"

    def cupti_configure(self, names, most):
        self.asked, self.most = names.decode(), most
        return self._result("configure", self.passes)

    def replay_graph(self):
        self.replayed = True

    def cupti_listen(self):
        self.kernels, self.replayed, self.copied = [], False, []

    def cupti_heard(self):
        return self._result("heard", -1 if self.replayed else len(self.kernels))

    def cupti_copies(self, copied_bytes):
        copied_bytes._obj.value = sum(self.copied)
        return len(self.copied)

    def cupti_concurrent_kernels(self):
        return self.concurrent

    def cupti_begin(self):
        self.kernels = []
        return self._result("begin")

    def cupti_visit(self, visit):
        self.visit = visit

    def cupti_end(self):
        self.rounds.append(self.kernels)
        return self._result("end", int(len(self.rounds) % self.passes == 0))

    def cupti_decode(self):
        rounds, self.rounds = self.rounds, []
        same = all(kernels == rounds[0] for kernels in rounds)
        too_many = len(self.kernels) > self.most
        return self._result("decode", len(self.kernels) if same and not too_many else -1)

    def cupti_forget(self):
        return self._result("forget")

    def cupti_reset(self):
        self.rounds = []
        return self._result("reset")

    def cupti_close(self):
        return self._result("close")

    def cupti_launch_count(self):
        return len(self.kernels)

    def cupti_launch_visit(self, number):
        return self.kernels[number][0]

    def cupti_launch_kernel(self, number):
        return self.kernels[number][1].encode()

    def cupti_values(self, number, values):
        values[0], values[1] = 1000.0 + number, 64.0 if number else float("nan")
        return self._result("values")

    def cupti_launch_facts(self, number, facts):
        facts[:] = SOFTMAX


@pytest.fixture
def device(monkeypatch):
    device = CpuDevice()
    device.steps = []
    monkeypatch.setattr(device, "empty_caches", lambda: device.steps.append("flush"))
    monkeypatch.setattr(device, "wait", lambda: device.steps.append("wait"))
    return device


def profiler_of(library, device, flush=True):
    return RangeProfiler(library, METRICS, device, H100, flush=flush, most_kernels=1024)


def test_each_kernel_has_what_was_asked_for_counted_or_of_its_launch(device):
    library = Library()
    profiler = profiler_of(library, device)
    profiler.begin()
    library.launch()  # of no visit
    profiler.launch(3, library.launch)
    assert profiler.end()
    assert profiler.launched_kernels == 4
    kernels = profiler.kernels([3])[3]

    assert library.asked == "gpu__time_duration.sum,dram__bytes_read.sum", (
        "registers need no counter"
    )
    assert [(k["kernel"], k["gpu__time_duration.sum"]) for k in kernels] == [
        ("kernel", 1002.0),
        ("other", 1003.0),
    ]
    assert {k["launch__registers_per_thread"] for k in kernels} == {30}
    assert {k["dram__bytes_read.sum"] for k in kernels} == {64.0}


@pytest.mark.parametrize("passes", [1, 3])
def test_kernels_of_some_launches_of_no_cell(device, passes):
    library = Library(passes=passes)
    kernels = profiler_of(library, device).kernels_of(lambda: library.launch(("copy",)), 2)
    assert [(kernel["kernel"], kernel["launch"]) for kernel in kernels] == [
        ("copy", 0),
        ("copy", 1),
    ]
    assert library.calls.count("begin") == passes
    assert device.steps == ["flush", "wait"] * 2 * passes


def test_what_cannot_be_counted_leaves_the_next_a_clean_start(device):
    library = Library(fails=("decode",))
    with pytest.raises(CountersError):
        profiler_of(library, device).kernels_of(library.launch, 2)
    assert library.calls[-1] == "reset"


def test_a_value_that_is_no_number_is_missing(device):
    library = Library()
    profiler = profiler_of(library, device)
    profiler.begin()
    profiler.launch(0, library.launch)
    profiler.end()
    assert profiler.kernels([0])[0][0]["dram__bytes_read.sum"] is None


def test_caches_are_empty_before_and_everything_is_done_when_a_launch_is(device):
    library = Library()
    profiler_of(library, device).launch(0, lambda: device.steps.append(f"visit {library.visit}"))
    assert device.steps == ["flush", "visit 0", "wait"]
    device.steps.clear()
    profiler_of(library, device, flush=False).launch(1, lambda: device.steps.append("launch"))
    assert device.steps == ["launch", "wait"]
    assert library.visit == -1


def test_what_follows_a_launch_that_fails_belongs_to_no_visit(device):
    library = Library()

    def launch():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        profiler_of(library, device).launch(0, launch)
    assert library.visit == -1


@pytest.mark.parametrize("step", ["begin", "end", "decode", "values", "forget", "reset"])
def test_what_cupti_refuses_is_an_error_with_its_words(device, step):
    library = Library(fails=(step,))
    profiler = profiler_of(library, device)

    def count():
        profiler.begin()
        profiler.launch(0, library.launch)
        profiler.end()
        profiler.kernels([0])
        profiler.reset()

    with pytest.raises(CountersError, match="CUPTI: no such metric"):
        count()


def test_metrics_that_cupti_does_not_have_are_the_machines_fault(device):
    with pytest.raises(DeviceMissingError, match="CUPTI: no such metric"):
        profiler_of(Library(fails=("configure",)), device)


def test_facts_of_a_launch_are_those_that_ncu_gives():
    assert launch_facts(SOFTMAX, H100) == {
        "launch__registers_per_thread": 30,
        "launch__shared_mem_per_block_static": 0,
        "launch__shared_mem_per_block_dynamic": 128,
        "launch__block_size": 1024,
        "launch__grid_size": 8192,
        "launch__waves_per_multiprocessor": pytest.approx(31.03, abs=0.005),
        "sm__maximum_warps_per_active_cycle_pct": 100.0,
    }
    gemm = launch_facts((2, 66, 1, 384, 1, 1, 213188, 168, 0, 1), H100)
    assert gemm["launch__waves_per_multiprocessor"] == 1.0
    assert gemm["sm__maximum_warps_per_active_cycle_pct"] == 18.75
