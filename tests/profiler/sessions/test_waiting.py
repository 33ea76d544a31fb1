"""The room in which sessions wait: whom it starts, lets through, and ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiler.model import SessionKind, SessionPlan, Visit
from profiler.runner import protocol
from profiler.runner.orders import ORDERS_FILE
from profiler.sessions.waiting import Orders, Waiting, WaitingRoom, clear_abandoned

CLEAN = {"event": protocol.SESSION_STARTED, "context_at_import": False}
DIRTY = {"event": protocol.SESSION_STARTED, "context_at_import": True}
FINISHED = {"event": protocol.SESSION_FINISHED}
ENDS_WITH_STDIN = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]


def planned(name, visits=1):
    metrics = ("cycles",)
    cells = tuple(Visit(f"cell{number}", 0) for number in range(visits))
    return SessionPlan(name, "ncu", SessionKind.COUNTERS, metrics, cells)


class Bench:
    """A room over processes that do nothing, and what it says."""

    def __init__(self, folder):
        self.folder, self.said, self.started = folder, [], {}
        self.room = WaitingRoom(self.start, self.said.append, places=2)

    def start(self, session):
        folder = self.folder / session.name
        folder.mkdir()
        orders = Orders(folder / ORDERS_FILE)
        process = subprocess.Popen(ENDS_WITH_STDIN, stdin=subprocess.PIPE, start_new_session=True)
        self.started[session.name] = Waiting(session.name, folder, process, orders)
        return self.started[session.name]

    def given(self, name):
        """Orders that a process has, with what belongs to each."""
        lines = (self.folder / name / ORDERS_FILE).read_text().splitlines()
        return dict(map(json.loads, lines))

    def steps(self, name):
        return list(self.given(name))


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    with made.room:
        yield made
    for waiting in made.started.values():
        assert not waiting.lives


def test_two_wait_at_most_and_each_is_started_once(bench):
    sessions = [planned("a"), planned("b"), planned("c")]
    bench.room.expect(sessions)
    bench.room.expect(sessions)
    assert list(bench.started) == ["a", "b"]
    assert bench.room.take("c") is None


def test_what_is_not_expected_any_more_is_ended_and_its_folder_goes(bench):
    bench.room.expect([planned("a"), planned("b")])
    bench.room.expect([planned("b")])
    assert bench.started["a"].process.wait(timeout=60) == 0
    with bench.room:
        pass
    assert not list(bench.folder.iterdir())


def test_nobody_imports_the_workload_before_a_session_did_without_a_context(bench):
    bench.room.expect([planned("a")])
    assert bench.steps("a") == []
    bench.room.observe(CLEAN)
    assert bench.steps("a") == ["import"]
    bench.room.expect([planned("a"), planned("b")])
    assert bench.steps("b") == ["import"]


def test_modules_of_the_first_launches_are_told_to_whoever_waits_then_or_later(bench):
    bench.room.expect([planned("a")])
    bench.room.observe(CLEAN)
    bench.room.observe({"event": protocol.IMPORTED, "modules": ["package", "package.part"]})
    bench.room.observe({"event": protocol.IMPORTED, "modules": ["of a later process"]})
    bench.room.expect([planned("a"), planned("b")])
    for name in ("a", "b"):
        assert bench.given(name) == {"import": None, "modules": ["package", "package.part"]}


def test_a_workload_that_creates_a_context_at_import_runs_without_overlap(bench):
    bench.room.expect([planned("a")])
    bench.room.observe(DIRTY)
    assert bench.room.take("a") is None
    assert "creates a CUDA context" in bench.said[0]
    bench.room.expect([planned("b")])
    assert list(bench.started) == ["a"]


def test_after_the_last_launch_only_the_next_session_may_open_the_device(bench):
    bench.room.expect([planned("a"), planned("b")])
    bench.room.observe(CLEAN)
    bench.room.observe(FINISHED, repeated_session="z")  # visits of another session are left
    assert bench.steps("a") == ["import"]
    bench.room.observe(FINISHED)
    assert bench.steps("a") == ["import", "modules", "device"]
    assert bench.steps("b") == ["import"]


def test_a_session_whose_visits_are_open_waits_without_the_device(bench):
    bench.room.expect([planned("a", visits=0)])
    bench.room.observe(CLEAN)
    bench.room.observe(FINISHED)
    assert bench.steps("a") == ["import"]


def test_whoever_has_a_context_is_gone_before_another_session_begins(bench):
    bench.room.expect([planned("a"), planned("b")])
    bench.room.observe(CLEAN)
    bench.room.observe(FINISHED)
    taken = bench.room.take("b")
    assert taken is bench.started["b"]
    assert not bench.started["a"].lives
    taken.end()


def test_one_that_has_died_is_not_taken(bench):
    bench.room.expect([planned("a")])
    bench.started["a"].process.kill()
    bench.started["a"].process.wait(timeout=60)
    assert bench.room.take("a") is None
    assert bench.said == ["a: what waited for its turn has ended; another is started."]
    assert not (bench.folder / "a").exists()


def test_a_folder_without_locks_means_that_nobody_waits(tmp_path):
    def refuse(session):
        raise OSError("no locks available")

    with WaitingRoom(refuse, pytest.fail, places=2) as room:
        room.expect([planned("a")])
        assert room.take("a") is None


def test_a_process_that_waited_before_there_was_a_room_is_taken_like_any_other(bench):
    early = bench.start(planned("a"))
    bench.room.adopt(early)
    assert bench.room.take("a") is early
    bench.room.adopt(early)
    bench.room.expect([])  # its session turned out to have nothing to measure
    assert early.process.wait(timeout=60) == 0


def test_orders_that_somebody_holds_are_not_cleared(tmp_path):
    (tmp_path / "waits.001").mkdir()
    orders = Orders(tmp_path / "waits.001" / ORDERS_FILE)
    clear_abandoned(tmp_path)
    assert orders.path.exists()
    orders.let_go()
    clear_abandoned(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_an_orchestrator_left_that_was_killed_is_cleared(tmp_path):
    for name in ("waited.001", "measured.001", "other.001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").touch()
    for name in ("waited.001", "measured.001"):
        (tmp_path / name / ORDERS_FILE).touch()
    (tmp_path / "measured.001" / "session.json").touch()
    clear_abandoned(tmp_path)
    left = sorted(os.fspath(path.relative_to(tmp_path)) for path in Path(tmp_path).rglob("*.*"))
    assert left == ["measured.001", "measured.001/job.json", "measured.001/session.json",
                    "other.001", "other.001/job.json"]  # fmt: skip
