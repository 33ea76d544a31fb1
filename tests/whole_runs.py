"""The command line as a process, with the stand-ins for ncu and nsys."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass

import pytest
import yaml
from fork_server import FAKE_NCU, FAKE_NSYS, TESTS

SECRET = "a-token-that-nobody-shall-see"  # noqa: S105 - it is there to be looked for
EVERYTHING = os.environ.get("TESTS") == "all"
"""Whether what another test stands for is tried as well: a minute more."""
only_with_everything = pytest.mark.skipif(not EVERYTHING, reason="tried with TESTS=all")
PLAIN_INDUCTOR = {
    "TORCHINDUCTOR_VEC_ISA_OK": "0",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "AOT_INDUCTOR_DEBUG_COMPILE": "1",
}
"""No trials of what vectors the CPU has, no precompiled headers, and no optimisation by g++.

The first two take eight seconds a process, the last a sixth of the time of a compiled workload.
"""
INHERITED = (
    *("PATH", "TMPDIR", "LD_LIBRARY_PATH"),
    *("CUDA_HOME", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
)


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def heed_keys():
    """What runs in the background of a shell, pytest too, inherits that its signals are ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class CommandLine:
    """Runs `python -m profiler` in a folder of its own, with an environment of its own.

    Where a fork server is given, commands are its forks; `start_interpreter` and `interpret` always
    take a new interpreter, as a user does.
    """

    def __init__(self, folder, fork_server=None):
        self.folder = folder
        self.fork_server = fork_server
        self.patience_s = 120
        self.environment = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "HOME": str(folder / "home"),
            # Its locks are there: a test neither waits for a real run nor holds one up.
            "PROFILER_LOCKS": str(folder / "locks"),
            "PYTHONPATH": str(TESTS.parent),
            "PROFILER_NCU": str(FAKE_NCU),
            "PROFILER_NSYS": str(FAKE_NSYS),
            "SECRET_TOKEN": SECRET,
            # What names the user and the machine is as private.
            **dict.fromkeys(("USER", "LOGNAME", "HOSTNAME"), f"{SECRET}-name"),
            "OMP_NUM_THREADS": "1",
            **PLAIN_INDUCTOR,
        }

    def changed(self, environment):
        """Environment of a command: that of all, with changes."""
        changed = {**self.environment, **environment}
        return {name: str(value) for name, value in changed.items() if value is not None}

    def start(self, *arguments, cwd=None, **environment):
        """Start a command that is met on its way; a fork where there is a server for it."""
        changed = self.changed(environment)
        if self.fork_server is None or not self.fork_server.serves(changed):
            return self.start_interpreter(*arguments, cwd=cwd, **environment)
        return self.fork_server.start(
            "profiler",
            [str(argument) for argument in arguments],
            cwd=cwd or self.folder,
            environment=changed,
        )

    def start_interpreter(self, *arguments, cwd=None, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "profiler", *map(str, arguments)],
            cwd=cwd or self.folder,
            env=self.changed(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that a Ctrl-C can be sent to it and all below it
            preexec_fn=heed_keys,  # noqa: PLW1509 - it makes two system calls
        )

    def __call__(self, *arguments, cwd=None, **environment):
        with self.start(*arguments, cwd=cwd, **environment) as process:
            return self._finished(process)

    def interpret(self, *arguments, cwd=None, **environment):
        """Run in a new interpreter, as a user does, and wait."""
        with self.start_interpreter(*arguments, cwd=cwd, **environment) as process:
            return self._finished(process)

    def _finished(self, process):
        try:
            out, err = process.communicate(timeout=self.patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def measure(self, *arguments, **environment):
        """Run without a page, which takes as long to draw as all the rest."""
        return self(*arguments, "--no-report", **environment)

    def write_spec(self, name="mine", **fields):
        """Write an experiment file over one of the workloads of the tests; gives its path.

        Nothing is explained unless it says so: that takes a session more.
        """
        collect = {"explain": False, **fields.pop("collect", {})}
        document = {"name": name, **fields, "collect": collect}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def runs(self, name="mine"):
        """Run folders of an experiment, oldest first."""
        return sorted((self.folder / "reports" / name).glob("[0-9]*"))


def visits_of(folder):
    """Cell, block and arm of each visit that the journal of an attempt says was measured."""
    records = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    return [
        (record["cell"], record["block"], record.get("arm", 0))
        for record in records
        if record["event"] == "finished" and record["phase"] == "measure"
    ]


def attempts(run):
    """Attempts of a run in the order in which they were made."""
    return sorted((run / "raw").iterdir(), key=lambda folder: folder.name.rpartition(".")[2])


def unpacked(archive):
    """Folder with the files of a recording, beside it."""
    with zipfile.ZipFile(archive) as files:
        files.extractall(archive.with_suffix(""))
    return archive.with_suffix("")


def rows_of(folder):
    """The rows that ncu printed."""
    text = gzip.decompress((folder / "ncu.csv.gz").read_bytes()).decode()
    lines = text[text.index('"ID"') :].splitlines()
    return list(csv.DictReader(lines))[1:]


def wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.02)
    return found


def finish(process):
    out, err = process.communicate(timeout=180)
    assert "Traceback" not in err, err
    return process.returncode, out, err
