"""Visits of in-kernel timelines: which libraries have no stamps. tests/test_live_in_kernel.py has
those that do."""

import ctypes.util

import pytest

from profiler.runner.device import CpuDevice
from profiler.runner.protocol import Job, JobCell, JobVisit
from profiler.runner.visits import stamps
from profiler.runner.visits.kinds import make_visits


def job_of(library, folder):
    return Job(
        session="in-kernel",
        workload="",
        collector="in_kernel",
        device="cpu",
        seed=1,
        journal=str(folder / "journal.jsonl"),
        cells=(JobCell("a..p", "a", {}, "p", {}, library),),
        visits=(),
    )


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (None, "a variant that needs no build has no stamps"),
        (ctypes.util.find_library("c"), "its kernel does not include profiler/timeline.cuh"),
    ],
)
def test_a_kernel_without_stamps(tmp_path, library, words):
    visits = make_visits(job_of(library, tmp_path), CpuDevice())
    with pytest.raises(RuntimeError, match=words):
        visits.make(JobVisit("a..p", 0), pytest.fail)
    visits.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "written",
    [[], [[0, 0, [1, 7, 5000, 0, 100, 0, 0, 0, 200 << 5 | 1]]]],
    ids=["nothing", "no end"],
)
def test_a_kernel_whose_stamps_have_no_end_is_no_empty_timeline(tmp_path, monkeypatch, written):
    """The driver once placed the buffer where ends went astray, and the page showed nothing."""

    class Buffer:
        def __init__(self, library):
            pass

        def clear(self):
            pass

        def content(self):
            return {"written": written}

    monkeypatch.setattr(stamps, "StampBuffer", Buffer)
    visits = make_visits(job_of("kernel.so", tmp_path), CpuDevice())
    with pytest.raises(RuntimeError, match="wrote a beginning and an end"):
        visits.make(JobVisit("a..p", 0), lambda: None)
    assert not list(tmp_path.iterdir())
