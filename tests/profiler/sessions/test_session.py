"""Attempts under the stand-in for ncu: rows, killed tools, and what is saved of them."""

import csv
import json
import os
import signal
from contextlib import suppress
from dataclasses import replace

import pytest

from profiler.collect import Command
from profiler.collect.ncu import LOG, REPORT
from profiler.model import Visit
from profiler.planning.spec import CommandWorkload
from profiler.sessions.attempt import journal_visits, recover, run_attempt
from profiler.sessions.process import EndCause
from profiler.sessions.program import Program, run_check
from profiler.sessions.watchdog import Limits

CELLS = ("a..p", "b..p")
VISITS = tuple(Visit(cell, block) for block in range(3) for cell in CELLS)


def rows(folder):
    lines = (folder / LOG).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *found = csv.reader(lines[start:])
    assert units[header.index("gpu__time_duration.sum")] == "ns"
    return [dict(zip(header, row, strict=True)) for row in found]


def ranges(folder):
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    return [row[column].split('"<default domain>:')[1].split(":none:")[0] for row in rows(folder)]


def test_every_visit_has_a_row_under_ncu(make_session, ncu, tmp_path):
    result = run_attempt(make_session(ncu, CELLS), VISITS, tmp_path / "1")
    assert result.cause is EndCause.FINISHED
    assert ranges(tmp_path / "1") == [f"cell={visit.cell};block={visit.block}" for visit in VISITS]
    assert journal_visits(tmp_path / "1") == set(VISITS)
    assert (tmp_path / "1" / REPORT).exists()


def test_job_has_only_the_cells_that_are_visited(make_session, timer, tmp_path):
    run_attempt(make_session(timer, CELLS), [Visit("b..p", 7)], tmp_path)
    job = json.loads((tmp_path / "job.json").read_text())
    assert [cell["id"] for cell in job["cells"]] == ["b..p"]
    assert job["visits"] == [{"cell": "b..p", "block": 7, "arm": 0}]


def test_what_is_compiled_is_kept_in_a_folder_of_the_run(make_session, ncu, timer, tmp_path):
    for collector in (ncu, timer):
        session = make_session(collector, CELLS)
        plain = session.command(tmp_path)
        assert not {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"} & plain.env.keys()
        command = replace(session, compiler_caches=tmp_path / "compiled").command(tmp_path)
        assert command.env == {
            **plain.env,
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled" / "inductor"),
            "TRITON_CACHE_DIR": str(tmp_path / "compiled" / "triton"),
        }
        assert (command.argv, command.files) == (plain.argv, plain.files)


def test_a_session_sees_the_gpu_that_was_asked_for(make_session, ncu, tmp_path):
    session = replace(make_session(ncu, CELLS), variables={"CUDA_VISIBLE_DEVICES": "GPU-2"})
    assert session.command(tmp_path).env["CUDA_VISIBLE_DEVICES"] == "GPU-2"


def test_a_program_sees_the_gpu_that_was_asked_for(ncu, tmp_path):
    program = Program(
        CommandWorkload(command=("sh",), check=["sh", "-c", "true"]),
        base=tmp_path,
        tool=ncu,
        metrics=(),
        limits=Limits(step_s=60, startup_s=60, grace_s=5),
        variables={"CUDA_VISIBLE_DEVICES": "GPU-2"},
    )
    run_check(program, Command(("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")), tmp_path)
    assert (tmp_path / "stdout.txt").read_text() == "GPU-2\n"


def test_rows_before_a_crash_are_kept(make_session, ncu, tmp_path):
    visits = [Visit("a..p", 0), Visit("segv..p", 0), Visit("a..p", 1), Visit("segv..p", 1)]
    result = run_attempt(make_session(ncu, ("a..p", "segv..p")), visits, tmp_path)
    assert (result.cause, result.returncode) == (EndCause.DIED, signal.SIGSEGV)
    assert len(rows(tmp_path)) == 3


def test_rows_before_a_hang_are_kept(make_session, ncu, tmp_path):
    visits = [Visit("a..p", 0), Visit("hang..p", 0)]
    session = make_session(ncu, ("a..p", "hang..p"), step_s=2.0)
    result = run_attempt(session, visits, tmp_path)
    assert (result.cause, result.failing_cell.cell) == (EndCause.TIMED_OUT, "hang..p")
    assert ranges(tmp_path) == ["cell=a..p;block=0"]


def test_rows_of_a_killed_ncu_come_from_its_report(make_session, ncu, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_DIE_AFTER", "2")
    result = run_attempt(make_session(ncu, CELLS), VISITS, tmp_path)
    assert (result.cause, result.returncode) == (EndCause.DIED, -signal.SIGKILL)
    assert len(rows(tmp_path)) == 2
    log = (tmp_path / LOG).read_text()
    assert log.index("==PROF== Connected") < log.index('"ID"')
    assert [path.name for path in tmp_path.glob("recovered*")] == []


def test_recovery_leaves_a_whole_log_and_an_empty_folder_alone(make_session, ncu, tmp_path):
    assert not recover(ncu, tmp_path)
    run_attempt(make_session(ncu, CELLS), VISITS, tmp_path / "1")
    before = (tmp_path / "1" / LOG).read_bytes()
    assert not recover(ncu, tmp_path / "1")
    assert (tmp_path / "1" / LOG).read_bytes() == before


def test_recovery_of_a_damaged_report_says_no(ncu, tmp_path):
    (tmp_path / REPORT).write_bytes(b"\x00\x01")
    assert not recover(ncu, tmp_path)
    assert not (tmp_path / LOG).exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_ncu_ended_from_outside_still_prints_its_rows(
    make_session, ncu, tmp_path, signum, monkeypatch
):
    visits = [Visit("a..p", 0), Visit("hang..p", 0)]

    def end(record):
        if record.get("cell") == "hang..p":
            tool = next(iter(_children_named("ncu")))
            os.kill(tool, signum)

    result = run_attempt(make_session(ncu, ("a..p", "hang..p")), visits, tmp_path, end)
    assert (result.cause, result.returncode) == (EndCause.DIED, 9)
    assert len(rows(tmp_path)) == 1


def _children_named(name):
    import psutil

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # one that ends meanwhile, of another test perhaps
            if any(part.endswith(f"/{name}") for part in process.cmdline()[:3]):
                yield process.pid
