"""A fork ends, prints and dies as an interpreter of its own does; whole runs rest on that."""

import signal
import subprocess
import sys

import pytest
from fork_server import ForkServer
from whole_runs import wait_for

PROGRAM = """\
import os, signal, subprocess, sys
how = sys.argv[1]
print("began", how, os.environ.get("WORD"), os.getpgid(0) == os.getpid())
if how == "code":
    sys.exit(7)
if how == "message":
    sys.exit("a last word")
if how == "raise":
    raise ValueError("what a user sees")
if how == "crash":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
if how == "files":
    print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
if how == "below":
    command = [sys.executable, "-m", "program", "code"]
    environment = {**os.environ, "WORD": "b"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    print(done.returncode, done.stdout, end="")
"""


@pytest.fixture(params=["fork", "interpreter"])
def run(request, fork_server, tmp_path):
    """Run the program in a way; gives exit code, stdout and stderr."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**fork_server.environment, "WORD": "a"}

    def fork(how):
        return fork_server.run(
            "program", [how], cwd=tmp_path, environment=environment, patience_s=60
        )

    def interpret(how):
        done = subprocess.run(
            [sys.executable, "-m", "program", how],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return fork if request.param == "fork" else interpret


@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        ("nothing", 0, ""),
        ("code", 7, ""),
        ("message", 1, "a last word"),
        ("raise", 1, "ValueError: what a user sees"),
        ("crash", -signal.SIGSEGV, ""),
    ],
)
def test_how_it_ends(run, how, code, last):
    ended, out, err = run(how)
    assert (ended, out) == (code, f"began {how} a True\n")
    assert err.rstrip().rpartition("\n")[2] == last


def test_it_has_no_file_of_its_parents(run):
    _, out, _ = run("files")
    # The three streams, and the folder that is listed.
    assert out.splitlines()[1] == "['0', '1', '2'] 4"


def test_what_it_starts_prints_nothing_twice(run):
    _, out, _ = run("below")
    assert out == "began below a True\n7 began code b False\n"


def test_what_failed_tests_left_ends_with_the_tests_of_a_worker(
    fork_server, shared_folder, tmp_path
):
    """The server waits for all connections: pytest would for it, at its end."""
    of_worker = ForkServer(fork_server.environment, shared_folder)
    assert of_worker.process is None, "the server is that of all"
    left = [
        of_worker.start(module, ["0"], cwd=tmp_path, environment=fork_server.environment)
        for module in ("http.server", "this")
    ]
    wait_for(lambda: "Beautiful" in left[1].written()[0])
    of_worker.close()
    assert [fork.returncode for fork in left] == [-signal.SIGKILL, 0]
    assert all(fork.connection.fileno() == -1 for fork in left)
