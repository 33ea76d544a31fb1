"""The command line as a user has it: a real process, with the stand-in for ncu."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

TESTS = Path(__file__).parent
FAKE_NCU = TESTS / "fake_ncu/ncu"
FAKE_NSYS = TESTS / "fake_nsys/target-linux-x64/nsys"
SECRET = "a-token-that-nobody-shall-see"  # noqa: S105 - it is there to be looked for
INHERITED = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def _heed_ctrl_c():
    """What runs in the background of a shell, pytest too, inherits that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class CommandLine:
    """Runs `python -m profiler` in a folder of its own, with an environment of its own."""

    def __init__(self, folder):
        self.folder = folder
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
        }

    def start(self, *arguments, cwd=None, **environment):
        changed = {**self.environment, **environment}
        return subprocess.Popen(
            [sys.executable, "-m", "profiler", *map(str, arguments)],
            cwd=cwd or self.folder,
            env={name: value for name, value in changed.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that a Ctrl-C can be sent to it and all below it
            preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 - it makes one system call
        )

    def __call__(self, *arguments, cwd=None, **environment):
        with self.start(*arguments, cwd=cwd, **environment) as process:
            out, err = process.communicate(timeout=self.patience_s)
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def measure(self, *arguments, **environment):
        """Run without a page, which takes as long to draw as all the rest."""
        return self(*arguments, "--no-report", **environment)

    def write_spec(self, name="mine", **fields):
        """Write an experiment file over one of the workloads of the tests; gives its path."""
        document = {"name": name, **fields}
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


def rows_of(folder):
    """The rows that ncu printed."""
    text = gzip.decompress((folder / "ncu.csv.gz").read_bytes()).decode()
    lines = text[text.index('"ID"') :].splitlines()
    return list(csv.DictReader(lines))[1:]


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.02)
    return found


def finish(process):
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return process.returncode, out, err
