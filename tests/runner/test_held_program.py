"""What stands in for an external program until its turn: nothing may tell the two apart."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from whole_runs import heed_keys, wait_for

from profiler.parse import runner_journal
from profiler.run_folder.folder import JOURNAL_FILE
from profiler.runner import held_program, protocol
from profiler.runner.orders import ORDERS_FILE, VISIT, line_of

HOLDER = Path(held_program.__file__)
TELLS = """\
import os, resource, signal, sys
environment = open("/proc/self/environ", errors="surrogateescape").read().split("\\0")
sys.stdout.write(repr({
    "argv": sys.argv, "env": sorted(environment), "cwd": os.getcwd(), "stdin": sys.stdin.read(),
    "files": sorted(os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
                    for name in os.listdir("/proc/self/fd") if int(name) < 100
                    and os.path.exists(f"/proc/self/fd/{name}")),
    "signals": [line for line in open("/proc/self/status")
                if line.startswith("Sig") and not line.startswith("SigQ")],
    "umask": os.umask(0), "nice": os.nice(0), "core": resource.getrlimit(resource.RLIMIT_CORE),
}))
sys.stderr.write("to stderr")
"""
"""Prints what a program can see of how it was started. (SigQ counts signals of all processes.)"""


@pytest.fixture
def gate(tmp_path):
    """The orders in the folder of a visit, held locked."""
    path = tmp_path / ORDERS_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield Gate(descriptor)
    os.close(descriptor)


class Gate:
    def __init__(self, descriptor):
        self.descriptor = descriptor

    def let_go(self):
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def open(self):
        os.pwrite(self.descriptor, line_of(VISIT), 0)
        self.let_go()


@contextmanager
def held(folder, *command, **options):
    argv = [sys.executable, "-I", "-S", HOLDER, folder, *command]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def records(folder):
    return list(runner_journal.read_journal(folder / JOURNAL_FILE))


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LANG": "C.UTF-8"}])
def test_the_program_sees_what_it_would_see_without(tmp_path, gate, locale):
    command = [sys.executable, "-c", TELLS, "a word", "", "--flag=ä"]
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "cwd": tmp_path,
        "env": {"PATH": os.environ["PATH"], **locale, "ODD": "\udcff", "PYTHONPATH": "somewhere"},
    }
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, check=True, **options)
    gate.open()
    with held(tmp_path, *command, **options) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, alone.stderr)
    assert out == alone.stdout


@pytest.mark.parametrize(
    ("command", "returncode"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -SEGV $$", -signal.SIGSEGV),
        ("kill -KILL $$", -signal.SIGKILL),
        ("kill -TERM $$", -signal.SIGTERM),
        ("kill -PIPE $$", -signal.SIGPIPE),
        ("kill -INT $$", -signal.SIGINT),
    ],
)
def test_it_ends_as_the_program_does(tmp_path, gate, command, returncode):
    gate.open()
    options = {"stderr": subprocess.PIPE, "preexec_fn": heed_keys}
    with held(tmp_path, "/bin/sh", "-c", command, **options) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (returncode, b"")
    (started,) = records(tmp_path)
    assert started["event"] == protocol.SESSION_STARTED
    assert started["stamps"].keys() <= set(protocol.STAMPS)
    assert started["stamps"][protocol.LOADED] <= started["stamps"][protocol.ITS_TURN]
    assert started["pid"] == process.pid
    assert started["start_time"] >= start_time(os.getpid())


def test_what_cannot_be_started_is_said(tmp_path, gate):
    gate.open()
    with held(tmp_path, "/no/such program", stderr=subprocess.PIPE) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 127
    assert err == b"cannot start /no/such program: No such file or directory\n"


def test_a_script_that_names_no_interpreter_is_run_by_the_shell(tmp_path, gate):
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"; exit 5\n')
    script.chmod(0o755)
    gate.open()
    with held(tmp_path, script, "word", stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, f"{script} word\n".encode())


def test_it_waits_without_the_cpu_and_leaves_where_the_gate_is_let_go_unopened(tmp_path, gate):
    ran = tmp_path / "ran"
    with held(tmp_path, "/usr/bin/touch", ran) as process:
        wait_for(lambda: has_open(process.pid, tmp_path / held_program.ORDERS))
        before = cpu_ticks(process.pid)
        time.sleep(0.3)
        assert cpu_ticks(process.pid) - before <= 1
        assert process.poll() is None
        gate.let_go()
        assert process.wait(timeout=60) == 0
    assert not ran.exists()
    assert not (tmp_path / JOURNAL_FILE).exists()


def test_it_leaves_where_the_folder_is_gone(tmp_path):
    with held(tmp_path / "gone", "/usr/bin/touch", tmp_path / "ran") as process:
        assert process.wait(timeout=60) == 0
    assert not (tmp_path / "ran").exists()


def has_open(pid, path):
    """Whether a process has a file open."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return any(link.resolve() == path for link in links)


def stat_fields(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_ticks(pid):
    """Hundredths of a second that a process has had of the CPU."""
    fields = stat_fields(pid)
    return int(fields[11]) + int(fields[12])


def start_time(pid):
    return int(stat_fields(pid)[19])


def test_its_words_are_those_of_the_protocol():
    assert held_program.ORDERS == ORDERS_FILE
    assert line_of(VISIT).startswith(held_program.VISIT)
    assert held_program.JOURNAL == JOURNAL_FILE
