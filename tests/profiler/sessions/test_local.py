"""Sessions as real processes: how they end, what is kept, and that nothing of them lives on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from profiler.collect import Command
from profiler.errors import Interrupted
from profiler.machine import signals
from profiler.machine.signals import interrupt_on_signals, raise_if_signalled, received_signal
from profiler.sessions.process import EndCause, FailingCell, failing_cell, members, run_session
from profiler.sessions.watchdog import Limits

PATIENT = Limits(step_s=60, startup_s=60, grace_s=5)
HASTY = Limits(step_s=1.5, startup_s=60, grace_s=10)

PRELUDE = """
import json, os, signal, subprocess, sys, time
journal = open(sys.argv[1], "a")
def say(event, **values):
    journal.write(json.dumps({"event": event, "time": 0, **values}) + "\\n")
    journal.flush()
def start():
    say("session_started", pid=os.getpid())
def step(event, cell, block=0, **more):
    say(event, cell=cell, phase="measure", block=block, **more)
"""


@pytest.fixture
def target(tmp_path):
    """Make the command of a small Python program that writes a journal."""

    def make(body):
        script, journal = tmp_path / "target.py", tmp_path / "journal.jsonl"
        script.write_text(PRELUDE + textwrap.dedent(body))
        return Command((sys.executable, str(script), str(journal))), journal

    return make


def pids(journal):
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    return [record["pid"] for record in records if "pid" in record]


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_finished_session_reports_records_in_order_and_keeps_output(target, tmp_path):
    command, journal = target("""
        start(); step("started", "a"); print("to stdout"); print("to stderr", file=sys.stderr)
        step("finished", "a"); say("session_finished")
    """)
    seen = []
    result = run_session(
        command,
        folder=tmp_path / "out",
        journal=journal,
        limits=PATIENT,
        on_record=lambda record: seen.append(record["event"]),
    )
    assert (result.cause, result.returncode, result.failing_cell) == (EndCause.FINISHED, 0, None)
    assert seen == ["session_started", "started", "finished", "session_finished"]
    assert (tmp_path / "out/stdout.txt").read_text() == "to stdout\n"
    assert (tmp_path / "out/stderr.txt").read_text() == "to stderr\n"


def test_environment_and_empty_stdin_reach_the_session(target, tmp_path):
    command, journal = target("""
        start(); print(os.environ["LC_ALL"], repr(sys.stdin.read())); say("session_finished")
    """)
    command = Command(command.argv, env={"LC_ALL": "C"})
    run_session(command, folder=tmp_path, journal=journal, limits=PATIENT)
    assert (tmp_path / "stdout.txt").read_text() == "C ''\n"


@pytest.mark.parametrize("signum", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_death_by_signal_names_signal_and_failing_cell(target, tmp_path, signum):
    command, journal = target(f"""
        start(); step("started", "a"); step("finished", "a"); step("started", "b", 3)
        os.kill(os.getpid(), {int(signum)})
    """)
    result = run_session(command, folder=tmp_path, journal=journal, limits=PATIENT)
    assert result.cause is EndCause.DIED
    assert result.returncode == -signum
    assert result.failing_cell == FailingCell("b", "measure", 3)


def test_exit_code_of_a_lost_context_is_its_own_cause(target, tmp_path):
    command, journal = target("""
        start(); step("started", "a"); step("failed", "a", outcome="illegal_address"); sys.exit(75)
    """)
    result = run_session(command, folder=tmp_path, journal=journal, limits=PATIENT)
    assert (result.cause, result.failing_cell) == (EndCause.CONTEXT_LOST, None)


def test_exit_code_zero_without_the_last_record_is_not_finished(target, tmp_path):
    command, journal = target("start()")
    result = run_session(command, folder=tmp_path, journal=journal, limits=PATIENT)
    assert result.cause is EndCause.DIED


def test_hang_is_ended_and_blamed(target, tmp_path):
    command, journal = target("start(); step('started', 'a', 1); time.sleep(600)")
    result = run_session(command, folder=tmp_path, journal=journal, limits=HASTY)
    assert result.cause is EndCause.TIMED_OUT
    assert result.failing_cell == FailingCell("a", "measure", 1)
    assert not alive(pids(journal)[0])


def test_hang_before_the_first_record_has_its_own_limit(target, tmp_path):
    command, journal = target("time.sleep(600)")
    limits = Limits(step_s=0.1, startup_s=0.5, grace_s=0.2)
    result = run_session(command, folder=tmp_path, journal=journal, limits=limits)
    assert (result.cause, result.failing_cell) == (EndCause.TIMED_OUT, None)


def test_everything_below_a_hanging_session_is_ended_even_in_other_groups(target, tmp_path):
    command, journal = target("""
        start(); step("started", "a")
        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        for own_session in (False, True):
            child = subprocess.Popen(sleeper, start_new_session=own_session)
            say("child", pid=child.pid)
        time.sleep(600)
    """)
    run_session(command, folder=tmp_path, journal=journal, limits=HASTY)
    assert len(pids(journal)) == 3
    assert [pid for pid in pids(journal) if alive(pid)] == []


def test_processes_left_by_a_session_that_ended_well_are_ended(target, tmp_path):
    command, journal = target("""
        start()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        say("child", pid=child.pid); say("session_finished")
    """)
    result = run_session(command, folder=tmp_path, journal=journal, limits=PATIENT)
    assert result.cause is EndCause.FINISHED
    assert not alive(pids(journal)[1])


TOOL = """
import subprocess, sys, time
code = subprocess.run(sys.argv[2:]).returncode
time.sleep(2)  # longer than the guard waits between its signals
open(sys.argv[1], "w").write(f"rows after target {code}")
sys.exit(9)
"""


def test_a_tool_may_write_its_results_after_its_target_was_ended(target, tmp_path):
    inner, journal = target("start(); step('started', 'a'); time.sleep(600)")
    rows = tmp_path / "rows"
    command = Command((sys.executable, "-c", TOOL, str(rows), *inner.argv))
    result = run_session(command, folder=tmp_path, journal=journal, limits=HASTY)
    assert rows.read_text() == "rows after target -15"
    assert (result.cause, result.returncode) == (EndCause.TIMED_OUT, 9)


def test_without_journal_the_innermost_process_is_ended_first(tmp_path):
    rows = tmp_path / "rows"
    sleeper = (sys.executable, "-c", "import time; time.sleep(600)")
    command = Command((sys.executable, "-c", TOOL, str(rows), *sleeper))
    limits = Limits(step_s=4.0, grace_s=10)
    result = run_session(command, folder=tmp_path, journal=None, limits=limits)
    assert rows.read_text() == "rows after target -15"
    assert (result.cause, result.failing_cell) == (EndCause.TIMED_OUT, None)


def test_a_session_that_ignores_sigterm_is_killed(target, tmp_path, monkeypatch):
    command, journal = target("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("session_started", pid=1); step("started", "a"); say("child", pid=os.getpid())
        time.sleep(600)
    """)
    monkeypatch.setattr("profiler.sessions.process._HARD_STOP_S", 0.5)
    limits = Limits(step_s=1.5, startup_s=60, grace_s=0.2)
    result = run_session(command, folder=tmp_path, journal=journal, limits=limits)
    assert result.cause is EndCause.TIMED_OUT
    assert not alive(pids(journal)[1])


def test_command_that_cannot_be_started_says_so(tmp_path):
    command = Command((str(tmp_path / "absent"),))
    result = run_session(command, folder=tmp_path, journal=None, limits=PATIENT)
    assert (result.cause, result.returncode) == (EndCause.DIED, 127)
    assert "cannot start" in (tmp_path / "stderr.txt").read_text()


def test_interrupt_ends_the_session_and_keeps_what_came(target, tmp_path):
    command, journal = target("start(); step('started', 'a'); time.sleep(600)")

    def interrupt(record):
        if record["event"] == "started":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run_session(command, folder=tmp_path, journal=journal, limits=PATIENT, on_record=interrupt)
    assert not alive(pids(journal)[0])


@pytest.fixture
def swallow(monkeypatch):
    """Send this process a signal that it heeds, where Python drops what the handler raises."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: dropped.append(error.exc_type))
    monkeypatch.setattr(signals, "_received", [])
    monkeypatch.setattr(signals, "_pending", set())
    defaults = {signal.SIGINT: signal.default_int_handler}
    defaults |= dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT), signal.SIG_DFL)
    before = {number: signal.signal(number, default) for number, default in defaults.items()}
    interrupt_on_signals()

    class Finalized:
        def __init__(self, number):
            self.number = number

        def __del__(self):
            signal.raise_signal(self.number)

    def send(number):
        Finalized(number)
        assert dropped.pop() is KeyboardInterrupt

    yield send
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_whose_interrupt_python_drops_ends_the_session_all_the_same(swallow, tmp_path):
    pid = tmp_path / "pid"
    command = Command(("sh", "-c", f"echo $$ > {pid}; exec sleep 600"))

    def look():
        if pid.exists() and pid.read_text() and received_signal() is None:
            swallow(signal.SIGQUIT)

    limits = Limits(step_s=5.0, grace_s=5)
    with pytest.raises(Interrupted):
        run_session(command, folder=tmp_path, journal=None, limits=limits, on_look=look)
    assert not alive(int(pid.read_text()))
    raise_if_signalled()  # no second time: others may be ended now


def test_ctrl_c_that_python_drops_is_raised_later_and_not_named(swallow):
    swallow(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        raise_if_signalled()
    assert received_signal() is None


def test_an_error_in_a_callback_leaves_nothing_behind(target, tmp_path):
    command, journal = target("start(); time.sleep(600)")

    def fail(record):
        raise RuntimeError("in the console")

    with pytest.raises(RuntimeError, match="in the console"):
        run_session(command, folder=tmp_path, journal=journal, limits=PATIENT, on_record=fail)
    assert not alive(pids(journal)[0])


ORCHESTRATOR = """
import sys
from pathlib import Path
from profiler.collect import Command
from profiler.sessions.process import run_session
from profiler.sessions.watchdog import Limits
folder, journal, *argv = sys.argv[1:]
run_session(Command(tuple(argv)), folder=Path(folder), journal=Path(journal),
            limits=Limits(step_s=600, startup_s=600, grace_s=5))
"""


def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.02)


def test_a_killed_orchestrator_takes_its_session_with_it(target, tmp_path):
    inner, journal = target("start(); step('started', 'a'); time.sleep(600)")
    rows = tmp_path / "rows"
    argv = [sys.executable, "-c", TOOL, str(rows), *inner.argv]
    orchestrator = subprocess.Popen(
        [sys.executable, "-c", ORCHESTRATOR, str(tmp_path / "out"), str(journal), *argv],
        cwd=Path(__file__).parents[3],
    )
    until(lambda: journal.exists() and "started" in journal.read_text() and pids(journal))
    orchestrator.kill()
    orchestrator.wait()
    until(rows.exists)
    until(lambda: not alive(pids(journal)[0]))
    assert rows.read_text() == "rows after target -15"


def test_members_of_a_group_are_found(tmp_path):
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(sleeper, start_new_session=True)
    try:
        assert [member.pid for member in members(process.pid)] == [process.pid]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert members(process.pid) == []


def test_failing_cell_of_a_problem_phase_carries_the_problem():
    records = [
        {"event": "started", "cell": "a", "phase": "inputs", "problem": "p1"},
    ]
    assert failing_cell(records) == FailingCell("a", "inputs")
    assert failing_cell([*records, {"event": "failed", "cell": "a", "phase": "inputs"}]) is None
