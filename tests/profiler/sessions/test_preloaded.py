"""A process of the runner that imports torch before its job is known."""

import json
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_folders import H200, Workplace
from test_early import TIMED, execution_of

from profiler.machine.environment import Gpu
from profiler.machine.locks import session_lock_file, take_lock
from profiler.parse.runner_journal import read_journal
from profiler.runner.protocol import Job, JobCell, JobVisit, write_job
from profiler.sessions.early import started_early
from profiler.sessions.preloaded import preloading

ROWSUM = Path(__file__).parents[2] / "runner/workloads/rowsum.py"
UUID = "GPU-1"


@pytest.fixture
def inquiry(monkeypatch, tmp_path):
    monkeypatch.setenv("PROFILER_LOCKS", str(tmp_path / "locks"))
    gpu = Future()
    gpu.set_result(Gpu(uuid=UUID))
    return SimpleNamespace(gpu=gpu)


def session_is_free():
    with ExitStack() as held:
        return take_lock(session_lock_file(UUID), held) is not None


def job_in(folder):
    cell = JobCell("plain..p", "plain", {"how": "plain"}, "p", {"rows": 5, "columns": 7})
    journal = folder / "journal.jsonl"
    visits = (JobVisit(cell.id, 0),)
    job = Job("timer", str(ROWSUM), "timer", "cpu", 1, str(journal), (cell,), visits)
    write_job(job, folder / "job.json")
    return folder / "job.json", journal


def test_it_does_the_job_that_it_is_given_later(inquiry, tmp_path):
    job, journal = job_in(tmp_path)
    with preloading(inquiry, even_without_gpu=False) as begun:
        preloaded = begun.take(UUID)
        process = preloaded.hand(job)
        assert process.wait(timeout=60) == 0, (tmp_path / "stderr.txt").read_text()
        preloaded.end()
    records = list(read_journal(journal))
    stamps = records[0]["stamps"]
    assert stamps["python"] < stamps["torch"] < stamps["loaded"]
    assert records[-1]["event"] == "session_finished"
    assert (tmp_path / "stderr.txt").exists(), "what it prints lies beside the job"


def test_it_is_ended_unless_it_was_taken(inquiry):
    with preloading(inquiry, even_without_gpu=False) as begun:
        preloaded = begun._started.result()
        process, folder = preloaded.process, preloaded.orders.path.parent
        assert process.poll() is None
    assert process.poll() is not None
    assert not folder.exists()
    assert session_is_free()


def test_it_is_ended_where_another_gpu_measures(inquiry):
    with preloading(inquiry, even_without_gpu=False) as begun:
        process = begun._started.result().process
        assert begun.take("GPU-2") is None
        assert process.poll() is not None


@pytest.mark.parametrize("measures", [True, False])
def test_without_a_gpu_it_starts_where_the_run_measures_all_the_same(inquiry, measures):
    inquiry.gpu = Future()
    inquiry.gpu.set_result(None)
    with preloading(inquiry, even_without_gpu=measures) as begun:
        preloaded = begun.take(None)
        assert (preloaded is not None) == measures
        if preloaded is not None:
            preloaded.end()


def test_the_first_session_of_a_timer_runs_in_it(tmp_path, monkeypatch, inquiry):
    gpu = Future()
    gpu.set_result(Gpu(uuid=H200.gpu_uuid))
    inquiry.gpu = gpu
    place = Workplace(tmp_path, TIMED, begun=False)
    with preloading(inquiry, even_without_gpu=False) as begun:
        with started_early(execution_of(place), begun) as early:
            waiting = early.take()
            lock = session_lock_file(H200.gpu_uuid)
            with ExitStack() as held:
                assert take_lock(lock, held) is None, "from its turn on"
            document = json.loads((waiting.folder / "job.json").read_text())
            assert document["process"]["orders"] == str(waiting.orders.path)
            assert document["session"] == "timer"
            assert waiting.lives
            waiting.end()
            with ExitStack() as held:
                assert take_lock(lock, held) is not None
        assert begun.take(H200.gpu_uuid) is None
