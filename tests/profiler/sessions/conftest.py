"""A runner without torch, for sessions as real processes."""

import sys
from pathlib import Path

import pytest

from profiler.collect.ncu import Ncu
from profiler.collect.timer import Timer
from profiler.runner.protocol import Job, JobCell
from profiler.sessions.attempt import SessionTemplate
from profiler.sessions.watchdog import Limits

FAKE_NCU = Path(__file__).parents[2] / "fake_ncu/ncu"

STUB_RUNNER = """#!{python} -S
# Called as `stub -P .../__main__.py JOB`. What a cell does is in its name.
import ctypes, json, os, signal, sys, time
job = json.load(open(sys.argv[3]))
journal = open(job["journal"], "a")
def say(event, **values):
    print(json.dumps(dict(event=event, time=0, **values)), file=journal, flush=True)
if job["workload"] == "no device":
    say("session_failed", cause="torch sees no CUDA device")
    sys.exit(3)
if job["workload"] == "bad job":
    say("session_failed", cause="no function prepare")
    sys.exit(2)
if job["workload"] == "dies early":
    sys.exit("cannot allocate")
say("session_started", pid=os.getpid())
problems = dict((cell["id"], cell["problem"]) for cell in job["cells"])
seen, failed = set(), set()
for visit in job["visits"]:
    cell, block = visit["cell"], visit["block"]
    if cell in failed:
        continue
    if cell not in seen:
        seen.add(cell)
        if "inputs_crash" in cell:
            say("started", cell=cell, phase="inputs", block=None, problem=problems[cell])
            os.kill(os.getpid(), signal.SIGABRT)
        if "wrong" in cell:
            say("started", cell=cell, phase="check", block=None)
            say("failed", cell=cell, phase="check", block=None, outcome="wrong_result", cause="off")
            failed.add(cell)
            continue
        if "right" in cell:
            say("finished", cell=cell, phase="check", block=None)
    say("started", cell=cell, phase="measure", block=block)
    if "hang" in cell or "fault" in cell:
        time.sleep(600)
    if "segv" in cell and block == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "illegal" in cell or ("beside" in cell and len(seen) > 1 and block == 0):
        say("failed", cell=cell, phase="measure", block=block, outcome="illegal_address", cause="x")
        sys.exit(75)
    if "pause" in cell:
        time.sleep(0.2)
    say("finished", cell=cell, phase="measure", block=block, durations_ns=[1.0])
    time.sleep(0.02)
say("session_finished")
"""


@pytest.fixture
def stub_runner(tmp_path):
    path = tmp_path / "stub-runner"
    path.write_text(STUB_RUNNER.replace("{python}", sys.executable))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def ncu(stub_runner):
    return Ncu(FAKE_NCU, python=stub_runner)


@pytest.fixture
def timer(stub_runner):
    return Timer(python=stub_runner)


@pytest.fixture
def make_session():
    def make(collector, cells, workload="stub", step_s=60.0):
        """Session over cells named `variant..problem`."""
        job_cells = tuple(
            JobCell(cell, cell.split("..")[0], {}, cell.split("..")[-1], {}) for cell in cells
        )
        job = Job("s", workload, collector.name, "cpu", 0, "", job_cells, ())
        limits = Limits(step_s=step_s, startup_s=60, grace_s=10)
        return SessionTemplate(job, collector, ("gpu__time_duration.sum",), limits)

    return make
