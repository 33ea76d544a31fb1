"""What the host has no more of (disk, open files, memory) is held against no cell for good."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
import torch

from profiler.parse import runner_journal
from profiler.runner import protocol
from profiler.runner.failures import diagnose
from profiler.sessions import recovery
from profiler.sessions.process import MAX_OUTPUT_BYTES, EndCause, SessionResult, cap_output

WORKLOAD = """\
import json, os, pathlib, resource
import torch
faults = json.loads(pathlib.Path(__file__).with_name("faults.json").read_text())
def make_inputs(problem, device, seed): return torch.ones(8)
def reference(problem, inputs): return inputs * 2
def prepare(variant, problem, inputs, library):
    def launch():
        exec(faults.get(variant["version"], ""))
        return inputs * 2
    return launch
"""
SPEC = """\
name: doubled
workload: ./workload.py
variants: {list: [{version: one}, {version: two}, {version: three}, {version: four}]}
problems: {list: [p]}
collect: {device: cpu, blocks: 2, metrics: [duration_ns]}
"""
MEASURED = ["measured"] * 4


@pytest.fixture
def work(profiler):
    """Runs four variants, and gives how that ended and the outcome of each; the second, or those
    of which it is told, have a fault."""
    (profiler.folder / "workload.py").write_text(WORKLOAD)
    (profiler.folder / "spec.yaml").write_text(SPEC)

    def run(fault="", **others):
        (profiler.folder / "faults.json").write_text(json.dumps({"two": fault, **others}))
        done = profiler.measure("spec.yaml", "--timer", "--json", "-")
        cells = json.loads(done.out)["cells"] if done.out else []
        return done, [cell["outcome"] for cell in cells]

    return run


FULL_DISK = "open('/dev/full', 'w').write('x' * 100_000)"


def test_a_full_disk_costs_a_cell_until_there_is_room_again(work):
    done, outcomes = work(FULL_DISK)
    assert (done.code, outcomes) == (4, ["measured", "raised", "measured", "measured"])
    assert "tried again when the run goes on" in done.out
    done, outcomes = work()
    assert (done.code, outcomes) == (0, MEASURED), done.err


def test_a_runner_that_cannot_write_its_journal_blames_nobody(work):
    done, _ = work("resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))")
    assert done.code == 3
    assert "cannot write its journal: [Errno 27] File too large" in done.err
    done, outcomes = work()
    assert (done.code, outcomes) == (0, MEASURED), done.err


def test_a_variant_that_closes_the_journal_is_to_blame(work):
    done, outcomes = work("os.closerange(3, 100)")
    assert (done.code, outcomes) == (4, ["measured", "crashed", "measured", "measured"]), done.err


def test_whatever_a_variant_raises_costs_that_variant_alone(work):
    own = "raise type('Own', (BaseException,), {})"
    done, outcomes = work("raise KeyboardInterrupt", three="raise GeneratorExit", four=own)
    assert (done.code, outcomes) == (4, ["measured", "raised", "raised", "raised"])


def of_os(number):
    return OSError(number, os.strerror(number))


def chained(error, cause):
    error.__cause__ = cause
    return error


HOST_FAULTS = [
    *map(of_os, (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EFBIG, errno.EDQUOT, errno.ENOMEM)),
    MemoryError("Unable to allocate 7.11 PiB for an array"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."),
    RuntimeError("can't start new thread"),
    RuntimeError("ptxas fatal: No space left on device"),
    chained(ValueError("nothing was compiled"), of_os(errno.ENOSPC)),
    *map(of_os, (errno.EINTR, errno.ETIMEDOUT)),
    RuntimeError("std::bad_alloc"),
    RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
    sqlite3.OperationalError("database or disk is full"),
    subprocess.CalledProcessError(
        1, "g++", stderr=b"error writing to a.o: No space left on device"
    ),
    subprocess.CalledProcessError(1, "g++", "cc1plus: out of memory allocating 65536 bytes"),
    ExceptionGroup("several", [ValueError("no such size"), of_os(errno.ENOSPC)]),
]
FAULTS_OF_CELLS = [
    FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)),
    PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    RuntimeError("CUDA error: out of memory"),
    subprocess.CalledProcessError(1, "nvcc", stderr="error: identifier is undefined"),
    ValueError("no such size"),
]


@pytest.mark.parametrize("error", HOST_FAULTS, ids=str)
def test_faults_of_the_host_are_known(error, tmp_path):
    assert diagnose(error, tmp_path).of_host


@pytest.mark.parametrize("error", FAULTS_OF_CELLS, ids=str)
def test_faults_of_cells_stay_theirs(error, tmp_path):
    assert not diagnose(error, tmp_path).of_host


def test_an_exit_code_survives_a_full_disk_behind_the_output(fork_server, profiler, tmp_path):
    (tmp_path / "workload.py").write_text(WORKLOAD)
    (tmp_path / "faults.json").write_text(json.dumps({"two": "print('x' * 100)"}))
    cell = protocol.JobCell("two..p", "two", {"version": "two"}, "p", {})
    job = protocol.Job(
        session="timer",
        workload=str(tmp_path / "workload.py"),
        collector="timer",
        device="cpu",
        seed=1,
        journal=str(tmp_path / "journal.jsonl"),
        cells=(cell,),
        visits=(protocol.JobVisit(cell.id, 0),),
    )
    protocol.write_job(job, tmp_path / "job.json")
    with Path("/dev/full").open("w") as full:
        command = fork_server.command("profiler.runner", str(tmp_path / "job.json"))
        environment = profiler.environment
        done = subprocess.run(command, stdout=full, stderr=full, check=False, env=environment)
    assert done.returncode == 0
    records = [*runner_journal.read_journal(tmp_path / "journal.jsonl")]
    assert records[-1]["event"] == protocol.SESSION_FINISHED


@pytest.mark.parametrize("code", [protocol.EXIT_HOST_FAULT, -signal.SIGBUS, 1])
def test_a_session_that_dies_where_nothing_can_be_written_blames_the_host(
    tmp_path, monkeypatch, code
):
    def full(**_):
        raise of_os(errno.ENOSPC)

    result = SessionResult(code, EndCause.DIED, None, 1.0)
    assert (recovery.fault_of_host(tmp_path, result) is None) == (code != protocol.EXIT_HOST_FAULT)
    monkeypatch.setattr(recovery.tempfile, "TemporaryFile", full)
    assert "No space left" in str(recovery.fault_of_host(tmp_path, result))
    assert "No space left" in str(recovery.fault_of_host(tmp_path, result, by_runner=False))


def test_an_exit_code_of_a_program_is_its_own(tmp_path):
    result = SessionResult(protocol.EXIT_HOST_FAULT, EndCause.DIED, None, 1.0)
    assert recovery.fault_of_host(tmp_path, result, by_runner=False) is None


def test_of_endless_output_both_ends_are_kept(tmp_path):
    files = [tmp_path / name for name in protocol.OUTPUT]
    with files[0].open("ab", buffering=0) as printed:
        for _ in range(3):
            printed.write(b"first\n" + b"x" * MAX_OUTPUT_BYTES + b"last\n")
            cap_output(tmp_path)
    text = files[0].read_bytes()
    assert len(text) < MAX_OUTPUT_BYTES / 4
    assert text.startswith(b"first")
    assert text.endswith(b"last\n")
    assert b"bytes of output were left out here]" in text
    assert not files[1].exists()
