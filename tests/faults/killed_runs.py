"""Runs that are killed, or to which the system refuses calls, and what they have in the end.

Each ends with the samples of a run to which nothing happened: `unharmed` of a folder.
"""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil

from profiler.parse import runner_journal
from profiler.planning.spec import load_spec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.assemble import assemble

KILLS_OF_A_RUN = 5
TARGETS = ("orchestrator", "session", "everything")
TWICE = ("session", "session")
KEYS = ["cell", "block", "arm", "repeat", "duration_ns"]
STARTS_S = 0.2
"""What comes before the first record, at least: planning, the lock, the processes of a session."""
PATIENCE_S = 60
REFUSED = "REFUSED_CALLS"
"""Variable that refused_calls.c reads."""
OPERATIONS = ("write", "write", "open", "open", "read", "rename", "mkdir", "fsync", "unlink")
PARTS = ("/reports/", "/raw/", "journal.jsonl", ".json", "/private/", "stdout", "runner.log")
"""What is in the paths of the files whose calls fail; the runner writes its journal."""
ERRORS = (
    *(errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EFBIG, errno.ENOMEM, errno.EINTR, errno.EDQUOT),
)
COUNTS = (1, 1, 3, 10**9)
"""How many calls fail in a row; the last: all from then on, as on a disk that is full."""


@dataclass(frozen=True)
class Orchestrated:
    """How a run ended that was not killed: exit code and words."""

    code: int
    words: str


class Orchestrator:
    """Measures an experiment again and again, in folders of its own, and can be killed."""

    def __init__(self, folder, shim=None):
        tests = Path(__file__).parent
        paths = [tests.parents[1], tests.parent / "profiler", tests]
        self.folder = folder
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
                **({} if shim is None else {"LD_PRELOAD": str(shim)}),
            },
        )

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE_S)
        self.process.stdout.close()

    def measuring(self, name, refused=""):
        """The process that measures in a folder; a new one where the last has ended.

        `refused`: which calls the system refuses it, as refused_calls.c says.
        """
        if self.running is not None and not is_alive(self.running):
            self.ended()
        if self.running is None:
            self.process.stdin.write(f"{name} {refused}\n")
            self.process.stdin.flush()
            self.running = psutil.Process(int(self.process.stdout.readline()))
        return self.running

    def ended(self):
        """Wait for the end; gives the exit code."""
        self.running = None
        return int(self.process.stdout.readline())

    def measured(self, name, refused=""):
        """How a run ended."""
        self.measuring(name, refused)
        code = self.ended()
        return Orchestrated(code, (self.folder / f"{name}.words").read_text())


@dataclass(frozen=True)
class Unharmed:
    """What is measured where nothing happens."""

    orchestrator: Orchestrator
    name: str = "unharmed"

    @property
    def folder(self):
        return self.orchestrator.folder / self.name

    @cached_property
    def samples(self):
        done = self.orchestrator.measured(self.name)
        assert done.code == 0, done.words
        return samples(self.folder)

    @cached_property
    def visits(self):
        visits = journaled(self.folder)
        assert set(visits.values()) == {1}
        return visits


def built_shim(folder):
    """The library that refuses calls; None where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "refused_calls.so"
    source = Path(__file__).with_name("refused_calls.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


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


def samples(folder):
    """Samples of the run in a folder as rows of KEYS, in an order of their own."""
    run = run_of(folder)
    loaded = load_spec(folder / "spec.yaml")
    frame = assemble(run, loaded, run.plan()).measured.samples
    return sorted(frame.reindex(columns=KEYS).itertuples(index=False, name=None))


def journaled(folder):
    """How often each visit was measured to its end, by the journals of each session."""
    return Counter(
        (attempt.record.session, *visit)
        for attempt in run_of(folder).attempts()
        for visit in runner_journal.finished_visits(runner_journal.read_journal(attempt.journal))
    )


def lost_in(folder, unharmed):
    """What the run in a folder lost or has twice, in words; empty where it is whole."""
    if samples(folder) != unharmed.samples:
        return f"{len(samples(folder))} samples of {len(unharmed.samples)}, or others"
    if journaled(folder) != unharmed.visits:
        return f"visits made otherwise than once: {journaled(folder) - unharmed.visits}"
    return ""


def kill_runs(unharmed, kills, seed):
    """Kill runs so often; gives of each run how many kills hit, and what was lost, in words."""
    source = random.Random(seed)  # noqa: S311 - no secret is made of it
    orchestrator = unharmed.orchestrator
    assert unharmed.samples
    assert unharmed.visits
    most_bytes = journal_bytes(unharmed.folder) / KILLS_OF_A_RUN
    for number in range(-(-kills // KILLS_OF_A_RUN)):
        folder = orchestrator.folder / f"killed-{number}"
        target, story = "", []
        for _ in range(KILLS_OF_A_RUN):
            # Two kills in a row of the same orchestrator's session may be held against a cell.
            target = source.choice([other for other in TARGETS if (other, target) != TWICE])
            process = orchestrator.measuring(folder.name)
            wait_for_moment(folder, process, source, most_bytes)
            hit = kill(process, target)
            story.append((target, journal_bytes(folder), hit))
        orchestrator.measuring(folder.name)
        code = orchestrator.ended()
        lost = f"exit code {code}" if code else lost_in(folder, unharmed)
        yield sum(hit for *_, hit in story), lost and f"{lost}: {story}"


def refusals(faults, seed):
    """So many orders to refuse calls, the same for a seed."""
    source = random.Random(seed)  # noqa: S311 - no secret is made of it
    for _ in range(faults):
        operation, part = source.choice(OPERATIONS), source.choice(PARTS)
        skipped, count = source.choice((0, 1, 2, source.randrange(60))), source.choice(COUNTS)
        error = source.choice(ERRORS)
        if error == errno.EINTR:  # Python calls again until it is not interrupted
            count = min(count, 3)
        yield f"{operation}:{part}:{skipped}:{count}:{error}"


def refuse_calls(unharmed, faults, seed):
    """Refuse calls to so many runs, which then go on; gives of each its exit code and its loss.

    Whatever is refused, to profiler or runner: the run ends with words, if at all, and the next one
    measures what is missing.
    """
    orchestrator = unharmed.orchestrator
    assert unharmed.samples
    for number, refused in enumerate(refusals(faults, seed)):
        folder = orchestrator.folder / f"refused-{number}"
        done = orchestrator.measured(folder.name, refused)
        again = orchestrator.measured(folder.name)
        if done.code not in (0, 3) or (done.code and not done.words):
            lost = f"exit code {done.code}"
        elif again.code:
            lost = f"exit code {again.code} afterwards: {again.words}"
        else:
            lost = lost_in(folder, unharmed)
        yield done.code, lost and f"{refused}: {lost}: {done.words}"


WORKLOAD = """\
import torch
def make_inputs(problem, device, seed): return torch.ones(8)
def reference(problem, inputs): return inputs * 2
def prepare(variant, problem, inputs, library): return lambda: inputs * 2
"""
WHOLE_SPEC = {
    "workload": "./workload.py",
    "variants": {"list": [{"version": version} for version in ("one", "two", "three")]},
    "problems": {"list": ["p"]},
    "collect": {"device": "cpu", "blocks": 3, "metrics": ["duration_ns"]},
}


LEAST_KB, ROOM_KB = 16, 65_536
"""Sizes of a disk: on the first not even a spec and a record fit."""


def can_mount(folder):
    """Whether a file system in memory can be mounted here: as root, and not in every container."""
    (folder / "disk").mkdir()
    if _mount("tmpfs", folder / "disk", ROOM_KB, "-t", "tmpfs") != 0:
        return False
    subprocess.run(["umount", folder / "disk"], check=True)
    return True


def _mount(what, folder, kilobytes, *options):
    command = ["mount", *options, "-o", f"size={kilobytes}k", what, folder]
    return subprocess.run(command, check=False, capture_output=True).returncode


def fill_disks(unharmed, runs, seed):
    """Measure on disks that get full, which then have room; gives of each exit code and loss."""
    source = random.Random(seed)  # noqa: S311
    orchestrator = unharmed.orchestrator
    assert unharmed.samples
    needed = subprocess.run(["du", "-sk", unharmed.folder], capture_output=True, check=True).stdout
    most = int(needed.split()[0])
    for number in range(runs):
        folder = orchestrator.folder / f"full-{number}"
        folder.mkdir()
        assert _mount("tmpfs", folder, source.randint(LEAST_KB, most), "-t", "tmpfs") == 0
        try:
            done = orchestrator.measured(folder.name)
            assert _mount("tmpfs", folder, ROOM_KB, "-o", "remount") == 0
            again = orchestrator.measured(folder.name)
            if done.code not in (0, 3) or (done.code and not done.words):
                lost = f"exit code {done.code}"
            else:
                lost = again.words if again.code else lost_in(folder, unharmed)
        finally:
            subprocess.run(["umount", folder], check=True)
        yield done.code, lost and f"{number}: {lost}: {done.words}"


def refuse_calls_of_commands(command_line, faults, seed):
    """The same of whole commands with the real runner, which go on twice where they have to.

    What is refused beside the file of a cell may cost it until the next command, and says so.
    """
    (command_line.folder / "workload.py").write_text(WORKLOAD)

    def went_on(name):
        done = command_line.measure(f"{name}.yaml", "--timer", "--json", "-")
        cells = json.loads(done.out)["cells"] if done.out else []
        counts = [cell["metrics"]["duration_ns"]["n"] for cell in cells if cell["metrics"]]
        return done, counts

    command_line.write_spec("unharmed", **WHOLE_SPEC)
    _, expected = went_on("unharmed")
    assert expected
    for number, refused in enumerate(refusals(faults, seed)):
        spec = command_line.write_spec(f"refused{number}", **WHOLE_SPEC)
        done = command_line.measure(spec, "--timer", **{REFUSED: refused})
        again, counts = went_on(spec.stem)
        lost = ""
        if done.code not in (0, 3, 4):
            lost = f"exit code {done.code}"
        elif again.code or counts != expected:
            lost = f"exit code {again.code} afterwards, {counts} samples: {again.err}"
        yield done.code, lost and f"{refused}: {lost}: {done.err}"
