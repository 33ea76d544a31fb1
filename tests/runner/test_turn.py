"""Gates of a session that waits, and whether a process has a CUDA context."""

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
from profiler.runner.journal import Journal
from profiler.runner.opened import OpenedFiles
from profiler.runner.protocol import file_digest, write_job
from profiler.runner.turn import ContextAtImportError, NotWantedError, Turn


@pytest.fixture
def waiting(tmp_path):
    (tmp_path / protocol.GATES_FOLDER).mkdir()
    for name in protocol.GATES:
        (tmp_path / protocol.GATES_FOLDER / name).touch()
    return Turn(tmp_path / "job.json", waits=True)


def gate(turn, name):
    return turn.job_file.parent / protocol.GATES_FOLDER / name


def test_a_session_that_does_not_wait_needs_no_gates(tmp_path, bench):
    job = bench.job(["plain"])
    turn = Turn(tmp_path / "absent", waits=False)
    turn.before_import()
    assert not turn.modules()
    turn.before_device(has_context=True)
    assert turn.job_with_visits(job) is job
    assert list(turn.stamps) == ["import", "loaded", "turn", "device", "visits"]


def test_a_gate_is_waited_at_until_it_is_opened(waiting):
    with gate(waiting, "import").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        passed = threading.Thread(target=waiting.before_import)
        passed.start()
        passed.join(0.1)
        assert passed.is_alive()
        held.write(protocol.GATE_OPEN)
        held.flush()
        fcntl.flock(held, fcntl.LOCK_UN)
        passed.join(60)
        assert not passed.is_alive()


def test_a_gate_that_is_let_go_or_gone_ends_the_session(waiting):
    with pytest.raises(NotWantedError):
        waiting.before_import()
    gate(waiting, "import").unlink()
    with pytest.raises(NotWantedError):
        waiting.before_import()


def test_the_visits_are_those_of_the_job_when_the_last_gate_is_open(waiting, bench):
    job = bench.job(["plain"])
    write_job(job, waiting.job_file)
    gate(waiting, "visits").write_bytes(protocol.GATE_OPEN)
    assert waiting.job_with_visits(replace(job, cells=(), visits=(), waits=True)) == job


def test_modules_to_import_stand_behind_the_word_that_opens_their_gate(waiting):
    with pytest.raises(NotWantedError):
        waiting.modules()
    gate(waiting, "modules").write_bytes(protocol.GATE_OPEN)
    assert waiting.modules() == []
    gate(waiting, "modules").write_bytes(protocol.GATE_OPEN + b"package\npackage.part")
    assert waiting.modules() == ["package", "package.part"]


def test_a_context_that_the_import_made_is_refused_before_the_gate_is_open(waiting):
    with pytest.raises(ContextAtImportError):
        waiting.before_device(has_context=True)
    gate(waiting, "device").write_bytes(protocol.GATE_OPEN)
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
