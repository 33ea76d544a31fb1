"""The end of an external program: of all that it started, whatever it closed."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest
from whole_runs import wait_for

from profiler.runner.orders import ORDERS_FILE, VISIT
from profiler.sessions.program import HOLDER, ProgramEnd
from profiler.sessions.waiting import Orders

GUARD = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
helper = subprocess.Popen(["sleep", "600"])
subprocess.run(sys.argv[1:])
print("ended", flush=True)
sys.stdin.read()
"""
"""Adopts orphans, as the guard does, has a process of its own, and stays, as ncu does until its
report is written."""
CLOSES = "import os; os.closerange(3, 1000); "


@contextmanager
def started(folder, *command):
    """The end of a program that was just let go below a guard, and the guard."""
    orders = Orders(folder / ORDERS_FILE)
    held = [sys.executable, "-I", "-S", HOLDER, folder, *command]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", GUARD, *held], **pipes) as guard:
        ends = []
        try:
            orders.give(VISIT)
            orders.let_go()
            yield ProgramEnd(folder, guard.pid, lambda: ends.append(time.monotonic())), guard, ends
        finally:
            for process in psutil.Process(guard.pid).children(recursive=True):
                process.kill()
            guard.stdin.close()


def looked(end, ends, seconds):
    """When the end was seen, within a time; None where it was not."""
    until = time.monotonic() + seconds
    while not ends and time.monotonic() < until:
        end.look()
        time.sleep(0.005)
    return ends[0] if ends else None


@pytest.mark.parametrize("code", ["exit 0", "exit 3", "kill -KILL $$"])
def test_the_end_is_seen_at_once_and_told_once(tmp_path, code):
    stop = tmp_path / "stop"
    os.mkfifo(stop)
    with started(tmp_path, "/bin/sh", "-c", f"read -r _ < {stop}; {code}") as (end, guard, ends):
        assert looked(end, ends, 0.3) is None
        stop.write_text("\n")
        assert guard.stdout.readline() == b"ended\n"
        end.look()
        end.look()
        assert len(ends) == 1


def test_a_program_that_never_began_has_not_ended(tmp_path):
    end = ProgramEnd(tmp_path, os.getpid(), lambda: pytest.fail("it has not begun"))
    end.look()


def test_a_program_that_closes_what_it_inherits_has_not_ended(tmp_path):
    stands = f"{CLOSES} open({str(tmp_path / 'closed')!r}, 'w'); import time; time.sleep(600)"
    with started(tmp_path, sys.executable, "-c", stands) as (end, _, ends):
        wait_for((tmp_path / "closed").exists)
        assert looked(end, ends, 0.2) is None


@pytest.mark.parametrize(
    "leaves",
    [
        ["/bin/sh", "-c", "sleep 600 &"],
        ["/bin/sh", "-c", "setsid sleep 600 &"],
        [sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '600'])"],
        [
            sys.executable,
            "-c",
            CLOSES + "os.fork() and os._exit(0); os.execlp('sleep', 'sleep', '600')",
        ],
    ],
    ids=["child", "daemon", "child-without-descriptors", "daemon-without-descriptors"],
)
def test_what_a_program_leaves_running_is_waited_for(tmp_path, leaves):
    with started(tmp_path, *leaves) as (end, guard, ends):
        assert guard.stdout.readline() == b"ended\n"
        assert looked(end, ends, 0.3) is None
        for process in below(guard)[1:]:  # the first is the tool's own
            process.kill()
        assert looked(end, ends, 60) is not None


def test_the_end_of_the_tool_as_well_is_none_to_go_on_from(tmp_path):
    with started(tmp_path, "/bin/sh", "-c", "exit 0") as (end, guard, ends):
        assert guard.stdout.readline() == b"ended\n"
        for process in below(guard):
            process.kill()
        wait_for(lambda: all(map(has_ended, below(guard))))
        assert looked(end, ends, 0.3) is None


def has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def below(guard):
    """Processes below a guard, the oldest first."""
    children = psutil.Process(guard.pid).children(recursive=True)
    return sorted(children, key=lambda process: process.create_time())
