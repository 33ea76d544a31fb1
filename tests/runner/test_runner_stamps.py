"""Visits of in-kernel timelines: which libraries have no stamps. tests/test_live_in_kernel.py has
those that do."""

import ctypes.util

import pytest

from profiler.runner.device import CpuDevice
from profiler.runner.protocol import Job, JobCell, JobVisit
from profiler.runner.visits import make_visits


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (None, "a variant that needs no build has no stamps"),
        (ctypes.util.find_library("c"), "its kernel does not include profiler/timeline.cuh"),
    ],
)
def test_a_kernel_without_stamps(tmp_path, library, words):
    cell = JobCell("a..p", "a", {}, "p", {}, library)
    job = Job(
        session="in-kernel",
        workload="",
        collector="in_kernel",
        device="cpu",
        seed=1,
        journal=str(tmp_path / "journal.jsonl"),
        cells=(cell,),
        visits=(),
    )
    visits = make_visits(job, CpuDevice())
    with pytest.raises(RuntimeError, match=words):
        visits.make(JobVisit("a..p", 0), pytest.fail)
    visits.close()
    assert not list(tmp_path.iterdir())
