"""CUPTI in the runner: what is planned, what its words mean, and how its library is built."""

import subprocess

import pytest
from run_folders import SPEC, Workplace, measured

from profiler.collect.cupti import Cupti, header_flags
from profiler.collect.timer import RUNNER
from profiler.commands.requests import PlanRequest
from profiler.errors import SpecError, UsageError
from profiler.metrics.passes import is_replayed
from profiler.model import KERNEL_SEPARATOR, Outcome, SessionKind
from profiler.planning.session_plans import flushed_by_runner
from profiler.run_folder.load.assemble import assemble
from profiler.runner import protocol
from profiler.sessions.builds import plan_builds
from profiler.sessions.builds.plan_builds import built_range_profiler


def place_with(folder, collect):
    without = SPEC.partition("collect:")[0]
    return Workplace(folder, f"{without}collect: {{{collect}}}\n")


def test_a_session_is_the_runner_alone(tmp_path):
    command = Cupti("python9").session_command(tmp_path / "job.json", tmp_path, ("a", "b"))
    assert command.argv == ("python9", "-P", str(RUNNER), str(tmp_path / "job.json"))


def test_all_counters_share_a_session(tmp_path):
    plan = place_with(tmp_path, "collectors: [cupti], metrics: [default]").plan
    timing, counters = plan.sessions
    assert (timing.kind, counters.kind) == (SessionKind.TIMING, SessionKind.COUNTERS)
    assert {"duration_ns", "cycles", "registers"} <= {*timing.metrics}
    assert {"duration_ns", "l2_hit_sectors", "dram_read_bytes"} <= {*counters.metrics}
    assert is_replayed(counters.metrics, plan.capability), "they take several passes"


def test_beside_ncu_it_times_and_ncu_counts(tmp_path):
    plan = place_with(tmp_path, "collectors: [cupti, ncu], ncu_timing: false").plan
    timing, *counting = plan.sessions
    assert (timing.collector, timing.kind) == ("cupti", SessionKind.TIMING)
    assert "cycles" in timing.metrics
    assert {(s.collector, s.kind) for s in counting} == {("ncu", SessionKind.COUNTERS)}


def test_caches_are_emptied_before_each_launch_where_all_was_asked_for(tmp_path):
    place = place_with(tmp_path, "collectors: [cupti], cache_control: all")
    assert place.loaded.experiment.cache_control == "launch"
    plan = place.plan
    assert all(flushed_by_runner(place.loaded.experiment, session) for session in plan.sessions)


def test_what_only_ncu_can_is_refused(tmp_path):
    with pytest.raises(SpecError, match="only ncu replays"):
        place_with(tmp_path, "collectors: [cupti], replay_mode: range")
    with pytest.raises(UsageError, match="--timer and --fast"):
        _ = PlanRequest(tmp_path, timer=True, fast=True).overrides


def test_what_the_journal_holds_is_the_samples_of_a_cell(tmp_path):
    place = place_with(tmp_path, "collectors: [cupti], metrics: [duration_ns, cycles]")
    kernel = {"kernel": "first", "gpu__time_duration.sum": 100.0, "gpc__cycles_elapsed.max": 180.0}
    other = {**kernel, "kernel": "second", "gpu__time_duration.sum": 50.0}
    visits = place.visits("cupti-timing")
    counted = [
        {
            "event": protocol.COUNTED,
            "cell": cell,
            "block": block,
            "arm": arm,
            "kernels": [kernel, other],
        }
        for cell, block, arm in visits
    ]
    journal = [*measured(visits), *counted]
    place.attempt("cupti-timing", journal=journal)
    report = assemble(place.run, place.loaded, place.plan)
    assert {status.outcome for status in report.statuses.values()} == {Outcome.MEASURED}
    samples = report.measured.samples[report.measured.samples["collector"] == "cupti"]
    assert set(samples["duration_ns"]) == {150.0}
    assert set(samples["cycles"]) == {360.0}
    assert set(samples["kernels"]) == {2}
    assert set(samples["kernel_names"]) == {KERNEL_SEPARATOR.join(("first", "second"))}


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("CUPTI: cuptiRangeProfilerEnable(&p): CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "Run as root"),
        ("CUPTI: cuptiSubscribe(): CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "End other"),
        ("CUPTI: cuptiProfilerHostConfigAddMetrics(&p): CUPTI_ERROR_INVALID", "metric that CUPTI"),
        (
            "CUPTI cannot be loaded: libcupti.so.13: cannot open shared object",
            "torch's CUDA builds",
        ),
        ("No CUDA GPUs are available", "nvidia-smi"),
    ],
)
def test_its_words_have_a_remedy(tmp_path, words, remedy):
    (tmp_path / "stderr.txt").write_text(f"runner: {words}\n")
    problem = Cupti().diagnose(tmp_path, 3)
    assert remedy in problem.remedy
    assert Cupti().diagnose(tmp_path, 0) is None


def test_a_cell_that_could_not_be_counted_is_not_the_machine(tmp_path):
    """The process went on from it, and died of another cell."""
    (tmp_path / "stderr.txt").write_text(
        "CountersError: CUPTI: cuptiProfilerHostEvaluateToGpuValues(&p): CUPTI_ERROR_UNKNOWN\n"
        "runner: graph..p: raised in count: CountersError: CUPTI: a launch replays a CUDA graph\n"
        "torch.AcceleratorError: CUDA error: device-side assert triggered\n"
    )
    assert Cupti().diagnose(tmp_path, 75) is None


def test_headers_come_from_the_toolkit_or_from_a_package(tmp_path):
    toolkit = tmp_path / "cuda"
    nvcc = toolkit / "bin" / "nvcc"
    extras = toolkit / "extras" / "CUPTI" / "include"
    extras.mkdir(parents=True)
    (extras / "cupti_range_profiler.h").touch()
    assert header_flags(nvcc) == ("-I", str(extras))
    (toolkit / "include").mkdir()
    (toolkit / "include" / "cupti_range_profiler.h").touch()
    assert header_flags(nvcc) == (), "nvcc looks there itself"


def test_the_library_is_built_once_with_what_the_runner_calls(tmp_path, monkeypatch):
    built = built_range_profiler("sm_90", tmp_path)
    assert built.ok, built.error
    monkeypatch.setattr(plan_builds, "find_compiler", None)
    assert built_range_profiler("sm_90", tmp_path) is built, "nvcc is not asked again"
    named = subprocess.run(
        ["nm", "-D", "--defined-only", built.library], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1] for line in named.stdout.splitlines()}
    exported = {symbol for symbol in symbols if symbol.startswith("cupti_")}
    called = {"configure", "begin", "visit", "end", "decode", "values", "forget", "reset", "close"}
    called |= {"error", "launch_count", "launch_visit", "launch_kernel", "launch_facts"}
    called |= {"listen", "heard", "copies", "concurrent_kernels"}
    assert exported == {f"cupti_{name}" for name in called}
