"""Whatever is killed, or refused by the system, the run ends with the samples of another one.

`KILLS=200 python -m pytest tests/faults/test_random_kills.py` kills more often, and so does
`benchmarks/faults/harmed_runs.py`.
"""

import fcntl
import os
import subprocess
import sys
import time

import pytest
from killed_runs import PATIENCE_S, Orchestrator, Unharmed, built_shim, kill_runs, refuse_calls

from profiler.sessions import guard

SEED = 20261122
KILLS = int(os.environ.get("KILLS", "12"))
REFUSALS = 6


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    orchestrator = Orchestrator(folder, built_shim(folder))
    yield Unharmed(orchestrator)
    orchestrator.close()


def test_killed_runs_have_the_samples_of_one_that_was_not(unharmed):
    hits, lost = zip(*kill_runs(unharmed, KILLS, SEED), strict=True)
    assert not any(lost), lost
    assert sum(hits) > KILLS / 2


def test_whatever_call_the_system_refuses_the_run_goes_on_with_the_next_command(unharmed):
    if not (unharmed.orchestrator.folder / "refused_calls.so").exists():
        pytest.skip("no C compiler builds what refuses calls")
    codes, lost = zip(*refuse_calls(unharmed, REFUSALS, SEED), strict=True)
    assert not any(lost), lost
    assert any(codes)


# ---- moments that chance seldom meets ------------------------------------------------------------


def guarded(*arguments, **options):
    """A guard as a session has it; its orchestrator dies when `stdin` is closed."""
    argv = [sys.executable, guard.__file__, *arguments]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, **options)


def test_a_guard_whose_orchestrator_died_while_it_waited_starts_nothing(tmp_path):
    path, started = tmp_path / "lock", tmp_path / "started"
    with path.open("a") as held, path.open("a") as lock:
        fcntl.flock(held, fcntl.LOCK_EX)
        arguments = ("--grace", "1", "--lock", str(lock.fileno()), "--", "touch", str(started))
        with guarded(*arguments, pass_fds=(lock.fileno(),)) as process:
            process.stdin.close()
            fcntl.flock(held, fcntl.LOCK_UN)
            assert process.wait(PATIENCE_S) == guard.CANNOT_START
    assert not started.exists()


@pytest.mark.parametrize("then", ["", "; sleep 90"])
def test_a_session_without_any_record_ends_with_its_orchestrator(tmp_path, then):
    """A shell around the tool goes on to its next command when one is killed."""
    started = tmp_path / "started"
    # The shell makes the file itself: a `touch` could be what is ended, before `sleep` begins.
    command = ("sh", "-c", f": > {started}; sleep 90{then}")
    journal = str(tmp_path / "journal.jsonl")
    with guarded("--grace", "90", "--journal", journal, "--", *command) as process:
        wait_for(started.exists)
        process.stdin.close()
        assert process.wait(PATIENCE_S) != 0


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
