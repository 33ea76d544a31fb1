"""What a workload leaves running costs seconds after the last visit, and no cell."""

import subprocess
import sys
from pathlib import Path

import pytest

from profiler.collect import Command
from profiler.parse import runner_journal
from profiler.runner import protocol
from profiler.sessions.process import EndCause, run_session
from profiler.sessions.watchdog import Limits

WORKLOAD = """\
import {modules}, time
import torch
{leave}
def make_inputs(problem, device, seed): return torch.ones(8)
def reference(problem, inputs): return inputs * 2
def prepare(variant, problem, inputs, library): return lambda: inputs * 2
"""
LIKE_NCU = """\
import os, subprocess, sys
ends, held = os.pipe()
os.set_inheritable(held, True)
with subprocess.Popen(sys.argv[1:], close_fds=False) as runner:
    os.close(held)
    os.read(ends, 1)
sys.exit(runner.returncode)
"""
"""A tool that waits until nothing that its target has started is left, however it was started."""
LEFT = {
    "a thread": ("threading", "threading.Thread(target=time.sleep, args=[600]).start()"),
    "a handler and processes": (
        "atexit, os, subprocess",
        """\
subprocess.Popen(['sleep', '600'], close_fds=False)
subprocess.run(['sh', '-c', 'setsid sleep 600 &'], close_fds=False)
os.fork() or time.sleep(600)
atexit.register(time.sleep, 600)""",
    ),
}
"""A child, an orphan and a fork in one workload: any that is not ended keeps the tool waiting."""


@pytest.mark.parametrize("left", LEFT)
def test_the_runner_ends_a_few_seconds_after_its_last_record(tmp_path, left):
    modules, leave = LEFT[left]
    (tmp_path / "work.py").write_text(WORKLOAD.format(modules=modules, leave=leave))
    cell = protocol.JobCell("a..p", "a", {}, "p", {})
    journal = tmp_path / "journal.jsonl"
    job = protocol.Job(
        session="timer",
        workload=str(tmp_path / "work.py"),
        collector="timer",
        device="cpu",
        seed=1,
        journal=str(journal),
        cells=(cell,),
        visits=(protocol.JobVisit(cell.id, 0),),
    )
    job_file = str(tmp_path / "job.json")
    protocol.write_job(job, Path(job_file))
    hurry = (
        "import sys, profiler.runner.__main__ as runner; runner.GRACE_S = 0.3;"
        "runner._leave(runner.main(sys.argv[1:]))"
    )
    result = run_session(
        Command((sys.executable, "-c", LIKE_NCU, sys.executable, "-c", hurry, job_file), {}),
        folder=tmp_path,
        limits=Limits(step_s=20, startup_s=30, grace_s=1, linger_s=0.3),
        journal=journal,
    )
    records = list(runner_journal.read_journal(journal))
    assert records[-1]["event"] == protocol.SESSION_FINISHED
    assert (result.cause, result.returncode) == (EndCause.FINISHED, 0)
    assert "was ended after 0.3 s" in (tmp_path / "stderr.txt").read_text()


CRASHING = """\
import json, os, signal, subprocess, sys
os.environ["PROFILER_RUNNER_PID"] = str(os.getpid())
with open(sys.argv[1], "a") as journal:
    for record in (
        {"event": "session_started", "pid": os.getpid()},
        {"event": "started", "cell": "a..p", "phase": "warmup"},
    ):
        journal.write(json.dumps(record) + "\\n")
subprocess.Popen(["sleep", "600"], close_fds=False)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_runner_that_crashes_beside_its_child_is_no_cell_that_timed_out(tmp_path):
    journal = tmp_path / "journal.jsonl"
    tool = (sys.executable, "-c", LIKE_NCU)
    result = run_session(
        Command((*tool, sys.executable, "-c", CRASHING, str(journal)), {}),
        folder=tmp_path,
        limits=Limits(step_s=20, startup_s=20, grace_s=1, linger_s=0.1),
        journal=journal,
    )
    assert (result.cause, result.failing_cell.cell) == (EndCause.DIED, "a..p")


def test_a_tool_that_hangs_after_the_last_record_is_not_a_cell_that_timed_out(tmp_path):
    journal = tmp_path / "journal.jsonl"
    script = f'echo \'{{"event":"session_finished","time":1}}\' > {journal}; sleep 60'
    result = run_session(
        Command(("sh", "-c", script), {}),
        folder=tmp_path,
        limits=Limits(step_s=0.3, startup_s=3, grace_s=0.1),
        journal=journal,
    )
    assert result.cause is EndCause.DIED
    assert result.failing_cell is None


def test_whatever_the_runner_has_to_say_is_written_before_it_is_ended(tmp_path):
    code = "import runner.__main__ as r, threading, time; r.GRACE_S = 0.2\n"
    code += "threading.Thread(target=time.sleep, args=[60]).start()\n"
    code += "print('the last word', end='')\nr._leave(0)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, b"the last word")
