"""Errors that only a device reports, late or for ever, from a device made up for it."""

from functools import partial

import pytest

from profiler.runner.device import CpuDevice
from profiler.runner.journal import Journal
from profiler.runner.phases import ContextLostError
from profiler.runner.seal import Seal
from profiler.runner.session import Session
from profiler.runner.timing import host_clock
from profiler.runner.visits.kinds import TimedVisits
from profiler.runner.workload import load_workload

ILLEGAL = "CUDA error: an illegal memory access was encountered"


class FaultyDevice(CpuDevice):
    """Reports an error at its nth settling, `times` times in a row."""

    def __init__(self, nth, times, message=ILLEGAL):
        super().__init__()
        self._faulty = range(nth, nth + times)
        self._message = message
        self._settled = 0

    def wait(self):
        self._settled += 1
        if self._settled in self._faulty:
            raise RuntimeError(self._message)


def run(bench, job, device):
    from pathlib import Path

    with Path(job.journal).open("a", encoding="utf-8") as stream:
        visits = TimedVisits(partial(host_clock, 1))
        session = Session(
            job=job,
            workload=load_workload(job.workload),
            device=device,
            visits=visits,
            journal=Journal(stream),
            seal=Seal(),
            replaced=(),
            start={},
        )
        session.run()


# Settlings before the first cell's check: declare, inputs, reference, prepare.
CHECK_OF_FIRST_CELL = 5


def test_an_error_that_stays_ends_the_session_after_it_was_journalled(bench, select):
    job = bench.job(["plain", "fresh"])

    with pytest.raises(ContextLostError, match="illegal memory access"):
        run(bench, job, FaultyDevice(CHECK_OF_FIRST_CELL, times=1000))

    records = bench.journal(job)
    assert (records[-1]["cell"], records[-1]["event"]) == ("plain..p0", "failed")
    assert records[-1]["outcome"] == "illegal_address"
    assert len(select(records, event="failed")) == 1


def test_an_error_that_is_reported_once_costs_one_cell(bench, select):
    job = bench.job(["plain", "fresh"])

    run(bench, job, FaultyDevice(CHECK_OF_FIRST_CELL, times=1, message="CUDA error: too large"))

    records = bench.journal(job)
    (failure,) = select(records, event="failed")
    assert (failure["cell"], failure["outcome"]) == ("plain..p0", "raised")
    assert len(select(records, event="finished", phase="measure", cell="fresh..p0")) == 2


def test_an_exception_is_explained_by_what_the_device_reports_after_it(bench, select):
    job = bench.job(["raise", "plain"])

    with pytest.raises(ContextLostError):
        run(bench, job, FaultyDevice(CHECK_OF_FIRST_CELL, times=1000))

    (failure,) = select(bench.journal(job), event="failed")
    assert failure["outcome"] == "illegal_address"
    assert ILLEGAL in failure["cause"]
    assert "(seen after RuntimeError: launch refused" in failure["cause"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("overrun", "past the end of sums: 4 of the 8 bytes behind"),
        ("write right result", "it writes into the right result"),
    ],
)
def test_a_launch_that_writes_elsewhere_ends_the_session_as_it_may_have_overwritten_others(
    bench, select, how, words
):
    with pytest.raises(ContextLostError, match=words):
        bench.run(bench.job([how, "plain"]))

    (failure,) = select(bench.journal(bench.job([how])), event="failed")
    assert (failure["outcome"], failure["phase"]) == ("wrong_result", "check")


def test_a_lost_context_leaves_with_its_own_exit_code(bench, monkeypatch):
    from profiler.runner import __main__, protocol, session

    path = bench.folder / "job.json"
    protocol.write_job(bench.job(["plain"]), path)
    device = FaultyDevice(CHECK_OF_FIRST_CELL, times=1000)
    monkeypatch.setattr(session, "open_device", lambda name: device)
    monkeypatch.setattr("faulthandler.enable", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *a: None)

    assert __main__.main([str(path)]) == protocol.EXIT_CONTEXT_LOST
