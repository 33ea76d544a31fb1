"""Jobs over the small workloads beside these tests, and what running them writes."""

import gc
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fork_server import remember_no_stacks

from profiler.parse.runner_journal import read_journal
from profiler.runner.journal import Journal
from profiler.runner.orders import Turn
from profiler.runner.protocol import Job, JobCell, JobVisit, MeasureSettings, write_job
from profiler.runner.session import open_session

remember_no_stacks()
WORKLOADS = Path(__file__).parent / "workloads"
REPO = Path(__file__).parents[2]
PROCESS_LIMIT_S = 120


class Workbench:
    """Makes jobs in a folder of its own and runs them, here or in a process."""

    def __init__(self, folder, fork_server=None):
        self.folder = folder
        self.fork_server = fork_server

    def job(self, hows, problems=({"rows": 5, "columns": 7},), blocks=2, **changes):
        cells = tuple(
            JobCell(f"{how.replace(' ', '_')}..p{n}", how, {"how": how}, f"p{n}", problem)
            for n, problem in enumerate(problems)
            for how in hows
        )
        visits = tuple(
            JobVisit(cell.id, block)
            for n in range(len(problems))
            for block in range(blocks)
            for cell in cells
            if cell.problem == f"p{n}"
        )
        job = Job(
            session="timer-0",
            workload=str(WORKLOADS / "rowsum.py"),
            collector="timer",
            device="cpu",
            seed=11,
            journal=str(self.folder / "journal.jsonl"),
            cells=cells,
            visits=visits,
            settings=MeasureSettings(warmups=1, repeats=3),
        )
        return changed_job(job, **changes)

    def run(self, job):
        """Run a job in this process; returns its journal.

        A session looks for garbage after each problem: it shall not go through what other tests of
        this worker keep, recordings and pages, each time.
        """
        gc.freeze()
        with Path(job.journal).open("a", encoding="utf-8") as stream:
            open_session(job, Journal(stream), Turn(None)).run()
        return self.journal(job)

    def run_process(self, job):
        """Run a job as the orchestrator does; returns the finished process and its journal."""
        path = self.folder / "job.json"
        write_job(job, path)
        return run_runner(path), self.journal(job)

    def run_fork(self, job):
        """Run a job in a fork of a process that has torch; gives exit code, stderr and journal."""
        path = self.folder / "job.json"
        write_job(job, path)
        code, _, err = self.fork_server.run(
            "profiler.runner",
            [str(path)],
            cwd=REPO,
            environment=self.fork_server.environment,
            patience_s=PROCESS_LIMIT_S,
        )
        return code, err, self.journal(job)

    @staticmethod
    def journal(job):
        return list(read_journal(Path(job.journal)))


def changed_job(job, **changes):
    """A job with other values of its own, of its settings or of its process."""
    for name in ("settings", "process"):
        part = getattr(job, name)
        names = {field.name for field in fields(part)}
        of_part = {key: changes.pop(key) for key in changes.keys() & names}
        job = replace(job, **{name: replace(part, **of_part)})
    return replace(job, **changes)


def run_runner(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "profiler.runner", *map(str, arguments)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT_S,
        check=False,
        # A test runner in the background ignores SIGINT, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.fixture
def bench(tmp_path, fork_server):
    return Workbench(tmp_path, fork_server)


@pytest.fixture(scope="session")
def workbench():
    """Make a workbench in a folder, for fixtures that live longer than a test."""
    return Workbench


@pytest.fixture
def runner_process():
    return run_runner


def select(records, **wanted):
    return [r for r in records if all(r.get(key) == value for key, value in wanted.items())]


@pytest.fixture(name="select", scope="session")
def select_fixture():
    return select
