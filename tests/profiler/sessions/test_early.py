"""Processes of the first sessions that are started before anything is built."""

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import CREATED, H200, SPEC, Workplace, failed, measured

from profiler.errors import SpecError
from profiler.kernels.recipe import Recipe
from profiler.machine.locks import gpu_lock, session_lock_file, take_lock
from profiler.machine.requirements import Machine
from profiler.runner.orders import ORDERS_FILE
from profiler.sessions import early
from profiler.sessions.early import likely_start, started_early
from profiler.sessions.execution import Execution
from profiler.sessions.waiting import Orders, Waiting

ENDS_WITH_STDIN = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
TIMED = SPEC.replace("blocks: 2", "blocks: 2, collectors: [cuda_events], device: cpu")


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Processes that stand in for sessions, in the order of their starts."""
    monkeypatch.setenv("PROFILER_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(early, "places", lambda: 1)
    processes = []

    def start(session, orders, *, inherits, preloaded):
        assert preloaded is None
        process = subprocess.Popen(
            ENDS_WITH_STDIN, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[inherits]
        )
        waiting = Waiting(session.job.session, orders.path.parent, process, orders)
        processes.append(waiting)
        return processes[-1]

    monkeypatch.setattr(early, "start_waiting", start)
    yield processes
    for waiting in processes:
        waiting.end()


def execution_of(place, *, fresh=False):
    return Execution(
        loaded=place.loaded,
        plan=place.plan,
        space=place.space,
        machine=Machine(H200, "cuda", Path("ncu")),
        out=place.folder / "reports",
        fresh=fresh,
        created=CREATED,
    )


def session_is_free():
    with ExitStack() as held:
        return take_lock(session_lock_file(H200.gpu_uuid), held) is not None


def test_the_first_session_of_a_new_run_waits_in_its_folder(tmp_path, started):
    place = Workplace(tmp_path, begun=False)
    with started_early(execution_of(place)) as waits:
        (waiting,) = started
        assert waiting.folder == waits.run.path / "raw/ncu-timing.001"
        assert not waits.run.exists()  # it is listed nowhere so far
        assert waiting.lives


def test_where_the_run_does_not_begin_the_process_and_the_folder_go(tmp_path, started):
    place = Workplace(tmp_path, begun=False)
    with pytest.raises(ZeroDivisionError), started_early(execution_of(place)):
        raise ZeroDivisionError
    assert not started[0].lives
    assert not list((tmp_path / "reports").iterdir())


def test_a_fresh_run_begins_beside_an_earlier_one(tmp_path, started):
    with started_early(execution_of(Workplace(tmp_path), fresh=True)) as waits:
        assert waits.run.path.name.endswith("-2")
        assert waits.begins


def test_the_process_of_a_run_that_goes_on_waits_in_its_folder(tmp_path, started):
    place = Workplace(tmp_path)
    with started_early(execution_of(place)) as waits:
        assert (waits.run, waits.begins) == (place.run, False)
        assert started[0].folder == place.run.path / "raw/ncu-timing.001"
        assert not place.run.attempts()
    assert not started[0].lives
    assert place.run.exists()
    assert not list((place.run.path / "raw").iterdir())


def likely(place, **changes):
    """Name of the session that is guessed to come first, and whether the run goes on."""
    start = likely_start(replace(execution_of(place), **changes))
    return start and (start[0].name, start[1] == place.run)


def finished(folder):
    """A run of which everything was measured and written up."""
    place = Workplace(folder)
    place.measure_all()
    (place.run.path / "summary.json").write_text("{}")
    return place


def test_where_a_run_is_written_up_nothing_is_started(tmp_path):
    assert likely(finished(tmp_path)) is None


def test_a_run_that_was_interrupted_goes_on_with_the_session_that_is_missing(tmp_path):
    place = Workplace(tmp_path)
    place.attempt("ncu-timing", visits=place.visits("ncu-timing")[:-1])
    assert likely(place) == ("ncu-timing", True)
    place.attempt("ncu-timing", visits=place.visits("ncu-timing")[-1:])
    assert likely(place) == (place.plan.sessions[1].name, True)


def test_cells_that_failed_are_not_missing(tmp_path):
    place = Workplace(tmp_path)
    *others, last = place.visits("ncu-timing")
    gone = [visit for visit in others if visit[0] != last[0]]
    place.attempt("ncu-timing", journal=[*measured(gone), failed(last[0], "wrong_result")])
    assert likely(place) == (place.plan.sessions[1].name, True)


def test_more_blocks_than_before_go_on_with_the_times(tmp_path):
    place = finished(tmp_path)
    (tmp_path / "spec.yaml").write_text(SPEC.replace("blocks: 2", "blocks: 3"))
    more = Workplace(tmp_path, SPEC.replace("blocks: 2", "blocks: 3"), begun=False)
    start = likely_start(execution_of(more))
    assert (start[0].name, start[1]) == ("ncu-timing", place.run)


def test_an_edited_workload_begins_a_new_run(tmp_path):
    place = finished(tmp_path)
    (tmp_path / "workload.py").write_text("import torch  # another\n")
    assert likely(place) == ("ncu-timing", False)


def test_an_edited_cuda_source_goes_on_with_the_times(tmp_path):
    place = finished(tmp_path)
    source = tmp_path / "kernel.cu"
    source.write_text("// one")
    space = FixedSpace(Recipe((source,)))
    os.utime(source, (1.0, 1.0))
    assert likely(place, space=space) is None
    header = tmp_path / "kernel.cuh"
    header.write_text("// two")
    assert likely(place, space=space) == ("ncu-timing", True)


def test_a_space_that_fails_starts_nothing(tmp_path):
    def fail(params):
        raise SpecError("no recipe")

    place = finished(tmp_path)
    space = FixedSpace(None)
    space.recipe = fail
    assert likely(place, space=space) is None


def test_a_run_whose_folder_is_a_link_does_not_go_on(tmp_path):
    place = Workplace(tmp_path)
    (place.run.path / "raw").symlink_to(tmp_path)
    assert likely(place) == ("ncu-timing", False)


class FixedSpace:
    """A space whose variants are all built from one recipe."""

    def __init__(self, recipe):
        self.recipe = lambda params: recipe


def test_one_process_waits_for_all_sessions_of_a_timer(tmp_path, started):
    with started_early(execution_of(Workplace(tmp_path, TIMED, begun=False))):
        assert [waiting.session for waiting in started] == ["timer"]


def test_the_session_lock_is_held_from_the_turn_to_the_end_of_the_process(tmp_path, started):
    place = Workplace(tmp_path, begun=False)
    with started_early(execution_of(place)) as waits:
        # The lock on the GPU is to be had while it waits: by this run, and by others.
        with gpu_lock(H200.gpu_uuid, timeout_s=0.0, on_wait=pytest.fail):
            waiting = waits.take()
            assert not session_is_free()
        assert waits.take() is None
    assert waiting.lives
    assert not session_is_free()
    waiting.end()
    assert session_is_free()


def test_runs_that_had_not_begun_when_their_profiler_was_killed_are_cleared(tmp_path, started):
    place = Workplace(tmp_path)
    runs = tmp_path / "reports/sums"
    folder = Path("raw/ncu-timing.001")
    for run in ("killed", "held"):
        (runs / run / folder).mkdir(parents=True)
    (runs / "killed" / folder / ORDERS_FILE).touch()
    held = Orders(runs / "held" / folder / ORDERS_FILE)
    with started_early(execution_of(place, fresh=True)):
        assert not (runs / "killed").exists()
        assert place.run.exists()
        assert (runs / "held").exists()
    held.let_go()
