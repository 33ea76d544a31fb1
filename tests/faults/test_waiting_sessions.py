"""Sessions that wait for their turn: used in time, and killed on every side."""

import json
from pathlib import Path

import psutil
import pytest
from whole_runs import TESTS, CommandLine, attempts, finish, visits_of, wait_for

from profiler.collect.ncu import LOG
from profiler.parse import runner_journal
from profiler.runner import protocol
from profiler.sessions.recovery import MAX_VISITS_PER_SESSION

ENDINGS = TESTS / "workloads/endings.py"
FAILS_ONCE = """\
from pathlib import Path

TIMES = Path(__file__).with_name("times")
TIMES.write_text(TIMES.read_text() + "x" if TIMES.exists() else "x")
if TIMES.read_text() == "xx":
    raise OSError("the network was away")
"""
"""Head of a workload whose second import fails."""

IMPORTS_LATE = """
import sys

sys.path.append("{installed}")
without_import = prepare

def prepare(*arguments):
    import late_package.part
    return without_import(*arguments)
"""
"""End of a workload that imports an installed package when it makes its first launch."""
LATE_PACKAGE = """\
import os
from pathlib import Path

with Path(__file__).with_name("imported by").open("a") as stream:
    print(os.getpid(), file=stream)
"""

BUILDS_SLOWLY = """\
import time
from pathlib import Path

HERE = Path(__file__).parent

def recipe(params):
    while list(HERE.glob("reports/*/*/raw/*/orders.jsonl")) and not (HERE / "go").exists():
        time.sleep(0.02)
    if (HERE / "go").exists() and (HERE / "go").read_text():
        raise OSError((HERE / "go").read_text())
    return None
"""
"""A space whose builds stand still while the first session waits, and then go on or fail."""


def write_spec(profiler, workload=str(ENDINGS), blocks=2, variants=("one", "other")):
    """Spec with a session of times and one of counters, in which variants are compared."""
    return profiler.write_spec(
        workload=workload,
        variants={"list": [{"name": name, "params": {"how": name}} for name in variants]},
        problems={"matrix": {"rows": [4]}},
        collect={
            "device": "cpu",
            "blocks": blocks,
            "final_blocks": 0,
            "warmups": 0,
            "metrics": ["cycles", "l2_hit_pct"],
        },
    )


def has_open(process, path):
    try:
        return any(file.path == str(path) for file in process.open_files())
    except psutil.NoSuchProcess:  # children end all the time: git, nvidia-smi
        return False


class Paused:
    """A run whose first session stands still in a launch, while the next one waits."""

    def __init__(self, folder, fork_server):
        self.profiler = CommandLine(folder, fork_server)
        self.go = folder / "go"
        self.late = folder / "site-packages/late_package"
        self.late.mkdir(parents=True)
        (self.late / "__init__.py").touch()
        (self.late / "part.py").write_text(LATE_PACKAGE)
        imports = IMPORTS_LATE.format(installed=self.late.parent)
        (folder / "workload.py").write_text(ENDINGS.read_text() + imports)
        self.spec = write_spec(self.profiler, str(folder / "workload.py"))
        self.process = self.profiler.start(
            self.spec, "--no-report", endings_stop_after=5, endings_go=self.go
        )

    def wait(self):
        self.run = wait_for(self._stands_still)
        self.folder = self.run / "raw/ncu-counters-together.001"

    def _stands_still(self):
        """The run folder, once the first session is in its pause and the next one has begun."""
        for journal in self.profiler.folder.glob("reports/mine/*/raw/ncu-timing.001/journal.jsonl"):
            run = journal.parents[2]
            waits = (run / "raw/ncu-counters-together.001/journal.jsonl").exists()
            if waits and protocol.SESSION_STARTED in journal.read_text():
                return run
        return None

    def runner(self, session):
        """The innermost process of a session: the one that writes its journal."""
        journal = self.run / "raw" / session / "journal.jsonl"
        below = psutil.Process(self.process.pid).children(recursive=True)
        writing = [process for process in below if has_open(process, journal)]
        return max(writing, key=lambda process: len(process.parents()))

    def finish(self):
        self.go.touch()
        return finish(self.process)


@pytest.fixture
def paused(tmp_path, fork_server):
    run = Paused(tmp_path, fork_server)
    try:
        run.wait()
        yield run
    finally:
        run.go.touch()
        run.process.kill()
        run.process.communicate()


def records(run, session):
    text = (run / "raw" / session / "journal.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def assert_complete(run, visits=6 + 2):  # the baseline twice a block, and the counters
    """Every visit was measured once, and nothing is left of what waited."""
    made = [visit for attempt in attempts(run) for visit in map(str, visits_of(attempt))]
    assert len(made) == visits
    assert not list(run.glob("raw/*/orders.jsonl"))
    assert len(list(run.glob("raw/*"))) == len(list(run.glob("raw/*/session.json")))


def test_a_waiting_runner_that_is_killed_is_replaced(paused):
    runner = paused.runner("ncu-counters-together.001")
    (guard,) = {*runner.parents()} & {*psutil.Process(paused.process.pid).children()}
    runner.kill()
    wait_for(lambda: not guard.is_running() or guard.status() == psutil.STATUS_ZOMBIE)
    code, _, err = paused.finish()
    assert code == 0, err
    assert "ncu-counters-together: what waited for its turn has ended; another is started." in err
    assert_complete(paused.run)


def test_the_next_session_waits_also_when_the_measuring_runner_is_killed(paused):
    assert not (paused.folder / "session.json").exists()  # it is no attempt yet
    waiting = paused.runner("ncu-counters-together.001")
    paused.runner("ncu-timing.001").kill()
    code, _, err = paused.finish()
    assert code == 0, err
    assert "another is started" not in err
    assert_complete(paused.run)
    finished, started = (
        records(paused.run, "ncu-timing.002")[-1],
        records(paused.run, "ncu-counters-together.001")[0],
    )
    assert started["pid"] == waiting.pid
    stamps = started["stamps"]
    assert list(stamps) == list(protocol.STAMPS)
    assert list(stamps.values()) == sorted(stamps.values())
    assert stamps[protocol.PYTHON_BEGUN] < finished["monotonic"] <= stamps[protocol.ITS_TURN]


def test_what_first_launches_import_is_imported_by_a_process_that_waits(paused):
    imported = paused.late / "imported by"
    waiting = paused.runner("ncu-counters-together.001").pid
    measures = paused.runner("ncu-timing.001").pid
    wait_for(imported.exists)
    wait_for(lambda: len(imported.read_text().split()) == 2)  # the first stands in a launch
    assert imported.read_text().split() == [str(measures), str(waiting)]
    code, _, err = paused.finish()
    assert code == 0, err
    assert "another is started" not in err
    assert_complete(paused.run)
    told = [r["modules"] for r in records(paused.run, "ncu-timing.001") if "modules" in r]
    assert told == [["late_package", "late_package.part"]]
    assert not [r for r in records(paused.run, "ncu-counters-together.001") if "modules" in r]
    assert len(imported.read_text().split()) == 2


def test_nothing_waits_any_more_when_the_profiler_is_gone(paused):
    below = psutil.Process(paused.process.pid).children(recursive=True)
    paused.process.kill()
    paused.process.wait(timeout=60)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    paused.go.touch()
    done = paused.profiler.measure(paused.spec)
    assert done.code == 0, done.err
    assert_complete(paused.run)


def test_a_waiting_session_that_fails_to_import_is_started_again(profiler):
    workload = Path(profiler.folder, "workload.py")
    workload.write_text(FAILS_ONCE + ENDINGS.read_text())
    done = profiler.measure(write_spec(profiler, str(workload)), endings_go=profiler.folder)
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    assert_complete(run)
    assert (profiler.folder / "times").read_text() == "x" * 3  # two sessions, one of them twice


def test_the_process_of_a_second_attempt_starts_while_the_first_measures(profiler):
    blocks, arms = 64, 2 + 1
    problems = range(1, MAX_VISITS_PER_SESSION // (blocks * arms) + 2)
    spec = profiler.write_spec(
        workload=str(ENDINGS),
        variants={"list": [{"name": name, "params": {"how": name}} for name in ("one", "other")]},
        problems={"matrix": {"rows": list(problems)}},
        collect={"device": "cpu", "final_blocks": 0, "warmups": 0, "metrics": ["cycles"]},
    )
    done = profiler.measure(
        spec, "--blocks", str(blocks), "--no-report", endings_go=profiler.folder
    )
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    assert_complete(run, len(problems) * blocks * arms)
    spans = json.loads((run / "seconds.json").read_text())["executions"][0]
    seconds = {(span["row"], span["step"]): span for span in spans}
    first = seconds["ncu-timing.001", "measures"]
    second = seconds["ncu-timing.002", "starts"]
    assert second["begin_s"] < first["end_s"]
    assert seconds["ncu-timing.002", "measures"]["begin_s"] > first["end_s"]
    # The first declares the work of all problems, by which the time left is forecast.
    declared = {
        attempt: {
            record["problem"]
            for record in runner_journal.read_journal(run / "raw" / attempt / "journal.jsonl")
            if record.get("phase") == "declare"
        }
        for attempt in ("ncu-timing.001", "ncu-timing.002")
    }
    assert len(declared["ncu-timing.001"]) == len(problems)
    assert len(declared["ncu-timing.002"]) == 1


# ---- while the session before still ends ---------------------------------------------------------


class Ending:
    """A run whose first ncu has measured all and does not print it yet; the counters go on."""

    def __init__(self, folder, fork_server):
        self.profiler, self.go = CommandLine(folder, fork_server), folder / "go"
        self.spec = write_spec(self.profiler, variants=("one", "other", "wrong"))
        self.process = self.profiler.start(
            self.spec, "--no-report", FAKE_NCU_END_AFTER=self.go, endings_go=self.go
        )
        self.run = wait_for(self._has_counted)
        self.folder = self.run / "raw/ncu-timing.001"

    def _has_counted(self):
        """The run folder, once the second session has made its last visit."""
        pattern = "reports/mine/*/raw/ncu-counters-together.001/journal.jsonl"
        for journal in self.profiler.folder.glob(pattern):
            if protocol.SESSION_FINISHED in journal.read_text():
                return journal.parents[2]
        return None

    def of_ncu(self):
        """The first ncu."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        (ncu,) = [process for process in below if has_open(process, self.folder / LOG)]
        return ncu

    def finish(self):
        self.go.touch()
        return finish(self.process)


@pytest.fixture
def ending(tmp_path, fork_server):
    run = Ending(tmp_path, fork_server)
    try:
        yield run
    finally:
        run.go.touch()
        run.process.kill()
        run.process.communicate()


def test_the_next_session_measures_while_ncu_still_writes_what_it_has(ending):
    assert ending.of_ncu().is_running()
    assert not (ending.run / "raw/ncu-counters-together.001/session.json").exists()
    code, _, err = ending.finish()
    assert (code, "another is started" in err) == (4, False), err  # one variant is wrong
    assert_complete(ending.run)
    counted = records(ending.run, "ncu-counters-together.001")
    assert {record.get("cell", "")[:5] for record in counted} == {"", "one..", "other"}
    assert not [record for record in counted if record.get("phase") == protocol.CHECK]


def test_what_ncu_loses_at_its_end_is_measured_again_before_the_counters(ending):
    ncu = ending.of_ncu()
    (ending.folder / "report.ncu-rep").unlink()
    ncu.kill()
    code, _, err = ending.finish()
    assert code == 4, err
    assert_complete(ending.run, visits=6 + 6 + 2)
    names = sorted(folder.name for folder in ending.run.glob("raw/*"))
    assert names == ["ncu-counters-together.001", "ncu-timing.001", "ncu-timing.002"]
    again = records(ending.run, "ncu-timing.002")[-1]
    counted = records(ending.run, "ncu-counters-together.001")
    assert counted[-1]["monotonic"] > again["monotonic"]  # by another process: no two at once


def test_what_a_session_has_begun_with_is_gone_where_the_profiler_is_killed(ending):
    below = psutil.Process(ending.process.pid).children(recursive=True)
    ending.process.kill()
    ending.process.wait(timeout=60)
    ending.go.touch()  # ncu may write what it has
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    done = ending.profiler.measure(ending.spec)
    assert done.code == 4, done.err
    assert_complete(ending.run)


# ---- the first session, before anything is built -------------------------------------------------


class Building:
    """A run that stands still in its builds, while the process of its first session waits."""

    def __init__(self, folder, fork_server):
        self.profiler, self.go = CommandLine(folder, fork_server), folder / "go"
        (folder / "space.py").write_text(BUILDS_SLOWLY)
        (folder / "workload.py").write_text(ENDINGS.read_text())
        self.start(blocks=2)

    def start(self, blocks):
        workload = {"module": "workload.py", "space": "space.py"}
        self.spec = write_spec(self.profiler, workload, blocks)
        self.process = self.profiler.start(self.spec, "--no-report", endings_go=self.go)
        self.orders = wait_for(self._waits)
        self.folder = self.orders.parent
        self.below = psutil.Process(self.process.pid).children(recursive=True)

    def _waits(self):
        """The orders to the first session, once its runner has opened its journal."""
        pattern = "reports/mine/*/raw/ncu-timing.*/orders.jsonl"
        orders = next(self.profiler.folder.glob(pattern), None)
        return orders if orders and (orders.parent / "journal.jsonl").exists() else None

    def kill(self):
        """Kill the profiler; all that it started ends."""
        self.process.kill()
        self.process.communicate()
        _, alive = psutil.wait_procs(self.below, timeout=60)
        assert not alive

    def finish(self, fault=""):
        written = self.go.with_suffix(".written")
        written.write_text(fault)
        written.rename(self.go)
        return finish(self.process)


@pytest.fixture
def building(tmp_path, fork_server):
    run = Building(tmp_path, fork_server)
    yield run
    run.process.kill()
    run.process.communicate()


def test_the_first_session_starts_before_the_builds_are_done(building):
    code, _, err = building.finish()
    assert code == 0, err
    run = building.folder.parents[1]
    assert_complete(run)
    (spans,) = json.loads((run / "seconds.json").read_text())["executions"]
    starts = next(span for span in spans if span["row"] == "ncu-timing.001")
    builds = next(span for span in spans if span["step"] == "builds")
    assert starts["step"] == "starts"
    assert starts["begin_s"] < builds["end_s"]
    # All is there: nothing is started for a run without anything to measure.
    done = building.profiler.measure(building.spec)
    assert done.code == 0, done.err
    assert len(list(run.glob("raw/*"))) == 2


def test_a_build_that_fails_ends_the_process_of_the_first_session(building):
    code, _, err = building.finish("the compiler is gone")
    assert (code, "the compiler is gone" in err) == (2, True), err
    _, alive = psutil.wait_procs(building.below, timeout=60)
    assert not alive
    assert not list(building.profiler.folder.glob("reports/mine"))


def test_nothing_of_the_first_session_is_left_where_the_profiler_is_killed(building):
    building.kill()
    building.go.touch()
    done = building.profiler.measure(building.spec, endings_go=building.go)
    assert done.code == 0, done.err
    (run,) = building.profiler.runs()  # what was left of the other is gone
    assert_complete(run)
    # A run that goes on has its process early, too, and is as it was when that is killed.
    building.go.unlink()
    building.start(blocks=3)
    assert building.folder == run / "raw/ncu-timing.002"
    building.kill()
    assert not (building.folder / "session.json").exists()
    building.start(blocks=3)
    code, _, err = building.finish()
    assert (code, f"Resuming {run}" in err) == (0, True), err
    assert_complete(run, visits=9 + 2)
    (_, spans) = json.loads((run / "seconds.json").read_text())["executions"]
    begins = {span["step"]: span["begin_s"] for span in reversed(spans)}
    assert begins["starts"] <= begins["builds"], "in whole milliseconds"
