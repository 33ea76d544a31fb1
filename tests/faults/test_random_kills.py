"""Whatever is killed at whatever moment, the run ends with the samples of one that was not killed.

`KILLS=200 python -m pytest tests/faults/test_random_kills.py` kills more often.
"""

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from profiler.planning.spec import load_spec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.assemble import assemble
from profiler.runner import protocol
from profiler.sessions import guard

SEED = 20261122
KILLS = int(os.environ.get("KILLS", "20"))
KILLS_OF_A_RUN = 5
TARGETS = ("orchestrator", "session", "everything")
TWICE = ("session", "session")
KEYS = ["cell", "block", "arm", "repeat", "duration_ns"]
STARTS_S = 0.2
"""What comes before the first record, at least: planning, the lock, the processes of a session."""
PATIENCE_S = 60


class Orchestrator:
    """Measures an experiment again and again, in folders of its own, and can be killed."""

    def __init__(self, folder):
        tests = Path(__file__).parent
        paths = [tests.parents[1], tests.parent / "profiler", tests]
        self.running = None
        self.process = subprocess.Popen(
            [sys.executable, str(tests / "orchestrator.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PROFILER_LOCKS": str(folder),
            },
        )

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE_S)
        self.process.stdout.close()

    def measuring(self, name):
        """The process that measures in a folder; a new one where the last has ended."""
        if self.running is not None and not is_alive(self.running):
            self.ended()
        if self.running is None:
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()
            self.running = psutil.Process(int(self.process.stdout.readline()))
        return self.running

    def ended(self):
        """Wait for the end; gives the exit code."""
        self.running = None
        return int(self.process.stdout.readline())


@pytest.fixture
def orchestrator(tmp_path):
    started = Orchestrator(tmp_path)
    yield started
    started.close()


def journal_bytes(folder):
    """How much the sessions in a folder have journaled."""
    return sum(file.stat().st_size for file in folder.glob("reports/sums/*/raw/*/journal.jsonl"))


def is_alive(process):
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_for_moment(folder, process, source, most_bytes):
    """Wait for a time before the first record, or until some bytes more are journaled."""
    if source.random() < 0.25:
        time.sleep(source.uniform(0, STARTS_S))
        return
    enough = journal_bytes(folder) + source.uniform(0, most_bytes)
    until = time.monotonic() + PATIENCE_S
    while journal_bytes(folder) < enough and is_alive(process) and time.monotonic() < until:
        time.sleep(0.001)


def kill(process, target):
    """Kill the orchestrator, the process group of its session, or both with all below.

    Gives whether that was there, and waits until the orchestrator is gone that was killed.
    """
    try:
        below = process.children(recursive=True)
        sessions = [child for child in process.children() if leads_a_group(child)]
    except psutil.Error:
        return False
    if target == "session":
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
        return bool(sessions)
    for victim in (process, *(below if target == "everything" else ())):
        with contextlib.suppress(psutil.Error):
            victim.kill()
    process.wait(PATIENCE_S)
    return True


def leads_a_group(process):
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(process.pid) == process.pid
    return False


def run_of(folder):
    """The only run in a folder."""
    (record,) = folder.glob("reports/sums/*/run.json")
    return RunFolder(record.parent)


def samples(run, folder):
    """Samples as rows of KEYS, in an order of their own."""
    loaded = load_spec(folder / "spec.yaml")
    frame = assemble(run, loaded, run.plan()).report.measured.samples
    return sorted(frame[KEYS].itertuples(index=False, name=None))


def journaled(run):
    """How often each visit was measured to its end, by the journals of each session."""
    return Counter(
        (attempt.record.session, *visit)
        for attempt in run.attempts()
        for visit in protocol.finished_visits(protocol.read_journal(attempt.journal))
    )


def test_killed_runs_have_the_samples_of_one_that_was_not(orchestrator, tmp_path):
    orchestrator.measuring("unkilled")
    assert orchestrator.ended() == 0
    unkilled = tmp_path / "unkilled"
    expected = samples(run_of(unkilled), unkilled)
    unkilled_visits = journaled(run_of(unkilled))
    assert set(unkilled_visits.values()) == {1}
    source = random.Random(SEED)  # noqa: S311
    most_bytes = journal_bytes(unkilled) / KILLS_OF_A_RUN
    story = []
    for number in range(-(-KILLS // KILLS_OF_A_RUN)):
        folder = tmp_path / f"killed-{number}"
        target = ""
        for _ in range(KILLS_OF_A_RUN):
            # Two kills in a row of the same orchestrator's session may be held against a cell.
            target = source.choice([other for other in TARGETS if (other, target) != TWICE])
            process = orchestrator.measuring(folder.name)
            wait_for_moment(folder, process, source, most_bytes)
            hit = kill(process, target)
            story.append((folder.name, target, journal_bytes(folder), hit))
        orchestrator.measuring(folder.name)
        assert orchestrator.ended() == 0, story
        run = run_of(folder)
        assert samples(run, folder) == expected, story
        assert journaled(run) == unkilled_visits, story
    assert sum(hit for *_, hit in story) > KILLS / 2, story


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
