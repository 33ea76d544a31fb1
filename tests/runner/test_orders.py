"""Orders to a session that waits, and whether a process has a CUDA context."""

import ctypes
import fcntl
import io
import json
import os
import subprocess
import threading
from dataclasses import replace

import pytest
import torch

from profiler.runner import protocol
from profiler.runner.device import has_context
from profiler.runner.journal import Journal, OpenedFiles
from profiler.runner.orders import (
    DEVICE,
    IMPORT,
    LEAVE,
    MODULES,
    ORDERS_FILE,
    VISIT,
    LeavingError,
    Turn,
    line_of,
)
from profiler.runner.protocol import file_digest, write_job


class Ordered:
    """Orders to a session that waits: locked until they are let go."""

    def __init__(self, path):
        self.path = path
        self.held = path.open("ab", buffering=0)
        fcntl.flock(self.held, fcntl.LOCK_EX)

    def give(self, *order):
        self.held.write(line_of(*order))

    def let_go(self):
        fcntl.flock(self.held, fcntl.LOCK_UN)


@pytest.fixture
def ordered(tmp_path):
    orders = Ordered(tmp_path / ORDERS_FILE)
    yield orders
    orders.held.close()


@pytest.fixture
def waiting(ordered):
    return Turn(ordered.path)


def test_a_session_that_does_not_wait_needs_no_orders(bench):
    job = bench.job(["plain"])
    turn = Turn(None)
    turn.before_import()
    assert not turn.modules()
    turn.before_device(has_context=True)
    assert turn.job_with_visits(job) is job
    assert list(turn.stamps) == ["import", "loaded", "turn", "device", "visits"]
    assert not list(turn.following_jobs())


def test_a_step_is_taken_when_it_is_ordered(waiting, ordered):
    passed = threading.Thread(target=waiting.before_import)
    passed.start()
    passed.join(0.1)
    assert passed.is_alive()
    line = line_of(IMPORT)
    ordered.held.write(line[:3])  # a line that is not whole says nothing
    passed.join(0.1)
    assert passed.is_alive()
    ordered.held.write(line[3:])
    passed.join(60)
    assert not passed.is_alive()


def test_orders_that_are_let_go_or_gone_end_the_session(waiting, ordered):
    ordered.let_go()
    with pytest.raises(LeavingError):
        waiting.before_import()
    ordered.path.unlink()
    with pytest.raises(LeavingError):
        Turn(ordered.path).before_import()
    with pytest.raises(LeavingError):
        Turn(ordered.path).before_device(has_context=True)


def test_the_visits_are_those_of_the_job_that_is_ordered(waiting, ordered, bench, tmp_path):
    job = bench.job(["plain"])
    write_job(job, tmp_path / "job.json")
    ordered.give(VISIT, str(tmp_path / "job.json"))
    assert waiting.job_with_visits(replace(job, cells=(), visits=())) == job


def test_jobs_follow_until_the_process_is_to_leave_or_nobody_is_there(waiting, ordered):
    for path in ("second", "third"):
        ordered.give(VISIT, path)
    ordered.let_go()
    assert list(map(str, waiting.following_jobs())) == ["second", "third"]
    for order in ((LEAVE,), (VISIT, "fourth")):
        ordered.give(*order)
    assert list(map(str, Turn(ordered.path).following_jobs())) == ["second", "third"]


def test_modules_to_import_come_with_their_order(waiting, ordered):
    ordered.give(MODULES)
    assert not waiting.modules()
    ordered.give(MODULES, ["package", "package.part"])
    assert waiting.modules() == ["package", "package.part"]


def test_a_context_that_the_import_made_is_refused_before_there_may_be_one(waiting, ordered):
    ordered.give(IMPORT)
    with pytest.raises(LeavingError, match="created a CUDA context"):
        waiting.before_device(has_context=True)
    ordered.give(DEVICE)
    waiting.before_device(has_context=True)


def test_of_files_that_are_edited_during_the_wait_the_content_counts_that_was_read(tmp_path):
    imported, read_later = tmp_path / "imported.txt", tmp_path / "read_later.txt"
    for path in (imported, read_later):
        path.write_text("before")
        os.utime(path, (1, 1))
    opened = OpenedFiles({"spec": str(tmp_path)}, ())
    opened.install()
    imported.read_text()
    stream = io.StringIO()
    journal = Journal(stream, opened)
    before = file_digest(imported)
    journal.note_opened()
    subprocess.run(["sh", "-c", 'echo edited | tee "$@"', "-", imported, read_later], check=True)
    journal.end_wait()
    read_later.read_text()
    journal.write(protocol.SESSION_FINISHED)
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    digests = {r["file"]: r["digest"] for r in records if r["event"] == protocol.OPENED}
    assert digests == {
        "spec:imported.txt": before,
        "spec:read_later.txt": file_digest(read_later),
    }


class Driver:
    """Stands in for libcuda: error code 3 is CUDA_ERROR_NOT_INITIALIZED."""

    def __init__(self, code=0, current=None, active=()):
        self.code, self.current, self.active = code, current, active

    def cuDeviceGetCount(self, count):  # noqa: N802 - the driver's name
        count._obj.value = 2
        return self.code

    def cuCtxGetCurrent(self, context):  # noqa: N802
        context._obj.value = self.current
        return 0

    def cuDevicePrimaryCtxGetState(self, gpu, flags, active):  # noqa: N802
        active._obj.value = gpu in self.active
        return 0


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (Driver(code=3, current=1, active=(0,)), False),
        (Driver(), False),
        (Driver(current=1), True),
        (Driver(active=(1,)), True),
    ],
)
def test_a_context_that_torch_does_not_know_is_seen_by_the_driver(monkeypatch, driver, expected):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    assert has_context("cuda") is expected
    assert not has_context("cpu")


def test_a_context_of_torch_is_seen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert has_context("cuda")
    assert not has_context("cpu")
