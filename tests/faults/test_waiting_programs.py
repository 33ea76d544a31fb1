"""External programs that are held until their turn: one at a time, and killed on every side."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from whole_runs import CommandLine, attempts, finish, wait_for

from profiler.collect.ncu import LOG
from profiler.parse import runner_journal
from profiler.run_folder.folder import JOURNAL_FILE
from profiler.sessions.program import HOLDER

PROGRAM = """#!/bin/sh
# One at a time: a second one that runs beside it notes so. Stands still where there is a pipe.
mkdir "{folder}/busy" || echo "two at once: $1" >> "{folder}/notes"
echo "$1" >> "{folder}/notes"
[ -p "{folder}/stop" ] && read -r _ < "{folder}/stop"
rmdir "{folder}/busy"
{ends}
"""
KERNELS = {"FAKE_NCU_KERNELS": "sgemm"}


def write_spec(profiler, kernels=("a", "b"), ends="", time_limit_s=60, **collect):
    program = profiler.folder / "sgemm"
    program.write_text(PROGRAM.format(folder=profiler.folder, ends=ends))
    program.chmod(0o755)
    return profiler.write_spec(
        workload={"command": "./sgemm {kernel}"},
        variants={"matrix": {"kernel": list(kernels)}},
        collect={
            "device": "cpu",
            "blocks": 1,
            "metrics": ["duration_ns", "l2_hit_pct"],
            "time_limit_s": time_limit_s,
            **collect,
        },
    )


def notes(profiler):
    file = profiler.folder / "notes"
    return file.read_text().splitlines() if file.exists() else []


def journals(run):
    """Records of each attempt of a run that has a journal, by the name of its folder."""
    return {
        file.parent.name: tuple(runner_journal.read_journal(file))
        for file in run.glob("raw/*/journal.jsonl")
    }


def assert_one_at_a_time(profiler, visits, cut_short=0):
    """Each visit was made once, no two programs ran at once, and nothing is left of a wait.

    `cut_short`: visits that were begun before, and do not count.
    """
    assert len(notes(profiler)) == visits, notes(profiler)
    assert not [note for note in notes(profiler) if "two at once" in note]
    (run,) = profiler.runs()
    assert not list(run.glob("raw/*/orders.jsonl"))
    assert len(list(run.glob("raw/*"))) == len(list(run.glob("raw/*/session.json")))
    assert len(attempts(run)) == visits + cut_short


class Paused:
    """A run whose first program stands still while the ncu of the next one waits."""

    def __init__(self, folder, fork_server):
        self.profiler = CommandLine(folder, fork_server)
        self.spec = write_spec(self.profiler)
        self.stop, self.pipe = folder / "stop", None
        os.mkfifo(self.stop)
        self.process = self.profiler.start(self.spec, "--no-report", **KERNELS)

    def wait(self):
        self.first, self.next = wait_for(self._stands_still)
        (self.run,) = self.profiler.runs()

    def _stands_still(self):
        """The program that runs, and the process that holds the one that waits."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        running = [process for process in below if is_started(self.profiler.runs(), process.pid)]
        waiting = [process for process in below if holds(process)]
        return (running[0], waiting[0]) if notes(self.profiler) and running and waiting else None

    def go(self):
        """Let the program go that stands still, and all that follow."""
        if self.pipe is None:
            self.pipe = os.open(self.stop, os.O_RDWR)
            self.stop.unlink()
            os.write(self.pipe, b"\n")

    def finish(self):
        self.go()
        return finish(self.process)


def is_started(runs, pid):
    """Whether a process is a program that was held, by the journals."""
    return any(
        record["pid"] == pid
        for run in runs
        for records in journals(run).values()
        for record in records
    )


def holds(process):
    """Whether a process holds a program that has not begun."""
    with suppress(psutil.Error):
        command_line = process.cmdline()
        return str(HOLDER) in command_line[:4] and not Path(command_line[4], JOURNAL_FILE).exists()
    return False


@pytest.fixture
def paused(tmp_path, fork_server):
    run = Paused(tmp_path, fork_server)
    try:
        run.wait()
        yield run
    finally:
        run.go()
        run.process.kill()
        run.process.communicate()
        os.close(run.pipe)


def below_guard(paused, holder):
    """The ncu above a process, and the guard above that."""
    above = holder.parents()
    guard = next(
        process for process in above if process.ppid() == paused.process.pid or process == above[-1]
    )
    return above[0], guard


def is_gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("killed", ["program", "ncu"])
def test_a_waiting_process_that_is_killed_is_replaced(paused, killed):
    ncu, guard = below_guard(paused, paused.next)
    (paused.next if killed == "program" else ncu).kill()
    wait_for(lambda: is_gone(guard))
    code, _, err = paused.finish()
    assert code == 0, err
    assert "what waited for its turn has ended; another is started." in err
    assert_one_at_a_time(paused.profiler, 3 + 2)


def test_a_measuring_ncu_that_is_killed_is_started_once_more_and_the_next_goes_on(paused):
    name = notes(paused.profiler)[0]
    ncu, _ = below_guard(paused, paused.first)
    (paused.profiler.folder / "busy").rmdir()  # before the next program looks for it
    ncu.kill()
    code, _, err = paused.finish()
    assert code == 0, err
    assert "another is started" not in err
    assert f"kernel={name}..default, block 0: ncu was killed by SIGKILL" in err
    cells = json.loads((paused.run / "summary.json").read_text())["cells"]
    assert {cell["outcome"] for cell in cells} == {"measured"}
    results = [
        json.loads(file.read_text()) for file in paused.run.glob("raw/ncu-timing.*/result.json")
    ]
    assert sorted(result["cause"] for result in results) == [
        "died",
        *["finished"] * (len(results) - 1),
    ]
    assert not any(result["failed"] for result in results), "no fault of the program"
    assert not [note for note in notes(paused.profiler) if "two at once" in note]


def test_nothing_waits_or_runs_any_more_when_the_profiler_is_gone(paused):
    below = psutil.Process(paused.process.pid).children(recursive=True)
    paused.process.kill()
    paused.process.wait(timeout=60)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    assert len(notes(paused.profiler)) == 1, "what waited did not run"
    (paused.profiler.folder / "busy").rmdir()
    (paused.profiler.folder / "notes").unlink()
    paused.go()
    done = paused.profiler.measure(paused.spec, **KERNELS)
    assert done.code == 0, done.err
    assert_one_at_a_time(paused.profiler, 3 + 2, cut_short=1)


def test_what_ncu_still_wrote_is_made_again_when_the_profiler_is_gone(profiler):
    folder = profiler.folder
    spec = write_spec(profiler, kernels=("a", "b", "c"), seed=2)  # the first two are others
    os.mkfifo(folder / "stop")
    pipe = os.open(folder / "stop", os.O_RDWR)
    go = folder / "go"
    process = profiler.start(spec, "--no-report", FAKE_NCU_END_AFTER=go, **KERNELS)
    try:
        wait_for(lambda: len(notes(profiler)) == 1)
        os.write(pipe, b"\n")
        wait_for(lambda: len(notes(profiler)) == 2)  # the second stands still
        below = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.communicate()
        go.touch()
    _, alive = psutil.wait_procs(below, timeout=60)
    os.close(pipe)
    assert not alive
    (run,) = profiler.runs()
    assert not (run / "raw/ncu-timing.001/result.json").exists()
    assert len(notes(profiler)) == 2, "what waited did not run"
    for name in ("stop", "notes"):
        (folder / name).unlink()
    (folder / "busy").rmdir()
    done = profiler.measure(spec, **KERNELS)
    assert done.code == 0, done.err
    assert_one_at_a_time(profiler, 4 + 3, cut_short=1)  # the second had no session.json


def test_the_next_program_runs_while_ncu_still_writes_and_no_other_does(profiler):
    spec = write_spec(profiler, kernels=("a", "b", "c"), seed=2)  # the first two are others
    go = profiler.folder / "go"
    process = profiler.start(spec, "--no-report", FAKE_NCU_END_AFTER=go, **KERNELS)
    try:
        wait_for(lambda: len(notes(profiler)) == 2)
        (run,) = profiler.runs()
        first = run / "raw/ncu-timing.001"
        assert not (first / "result.json").exists()
        assert "ID" not in (first / LOG).read_text()
        assert not (run / "raw/ncu-timing.002/session.json").exists()
        wait_for(lambda: len(journals(run).get("ncu-timing.002", ())) == 1)
    finally:
        go.touch()
        code, _, err = finish(process)
    assert code == 0, err
    assert_one_at_a_time(profiler, 4 + 3)
    for attempt in attempts(run):
        command = (attempt / "command.txt").read_text()
        assert command.endswith(f"{profiler.folder}/sgemm {command.split()[-1]}\n")
        assert str(HOLDER) not in command
    seconds = json.loads((run / "seconds.json").read_text())["executions"][0]
    steps = {(span["row"], span["step"]): span for span in seconds}
    assert steps["ncu-timing.002", "measures"]["begin_s"] < steps["ncu-timing.001", "ends"]["end_s"]


@pytest.mark.parametrize(
    ("ends", "launches", "code"),
    [({"ends": "exit 3"}, KERNELS, 4), ({}, {"FAKE_NCU_KERNELS": ""}, 3)],
    ids=["fails", "launches nothing"],
)
def test_a_cell_of_no_result_is_not_run_again_by_what_waited_for_it(profiler, ends, launches, code):
    spec = write_spec(profiler, kernels=("a",), blocks=3, **ends)
    done = profiler.measure(spec, **launches)
    assert done.code == code, done.err
    assert_one_at_a_time(profiler, 1)


def test_a_time_limit_counts_from_the_turn(profiler):
    folder = profiler.folder
    spec = write_spec(profiler, ends="sleep 0.8", time_limit_s=1.5)
    done = profiler.measure(spec, **KERNELS)  # the second waits for as long as the first runs
    assert done.code == 0, done.err
    assert_one_at_a_time(profiler, 3 + 2)
    assert not list(folder.glob("busy"))


def test_an_interrupt_ends_what_runs_and_what_waits(paused):
    below = psutil.Process(paused.process.pid).children(recursive=True)
    paused.process.send_signal(signal.SIGINT)
    paused.go()
    code, _, err = finish(paused.process)
    assert code == 130, err
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    assert not list(paused.run.glob("raw/*/orders.jsonl"))


def test_passes_by_application_replay_run_the_program_without_a_gate(profiler):
    spec = write_spec(profiler, replay_mode="application")
    done = profiler.measure(spec, **KERNELS)
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    assert len(notes(profiler)) == 3 + 2
    assert not journals(run)
