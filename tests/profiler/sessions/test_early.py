"""The process of the first session that is started before anything is built."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from run_folders import CREATED, H200, SPEC, Workplace

from profiler.machine.gpu_lock import gpu_lock, session_lock_file
from profiler.machine.lock_files import take_lock
from profiler.machine.requirements import Machine
from profiler.runner import protocol
from profiler.sessions.overlap import early
from profiler.sessions.overlap.early import NewRun, started_early
from profiler.sessions.overlap.waiting import Gates, Waiting

ENDS_WITH_STDIN = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
TIMED = SPEC.replace("blocks: 2", "blocks: 2, collectors: [cuda_events], device: cpu")


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Processes that stand in for sessions, in the order of their starts."""
    monkeypatch.setenv("PROFILER_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(early, "places", lambda: 1)
    processes = []

    def start(session, folder, *, inherits):
        process = subprocess.Popen(
            ENDS_WITH_STDIN, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[inherits]
        )
        gates = Gates(folder / protocol.GATES_FOLDER)
        processes.append(Waiting(session.job.session, folder, process, gates))
        return processes[-1]

    monkeypatch.setattr(early, "start_waiting", start)
    yield processes
    for waiting in processes:
        waiting.end()


def new_run(place, *, fresh=False):
    return NewRun(
        loaded=place.loaded,
        plan=place.plan,
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
    with started_early(new_run(place)) as waits:
        (waiting,) = started
        assert waiting.folder == waits.run.path / "raw/ncu-timing.001"
        assert not waits.run.exists()  # it is listed nowhere so far
        assert waiting.lives


def test_where_the_run_does_not_begin_the_process_and_the_folder_go(tmp_path, started):
    place = Workplace(tmp_path, begun=False)
    with pytest.raises(ZeroDivisionError), started_early(new_run(place)):
        raise ZeroDivisionError
    assert not started[0].lives
    assert not list((tmp_path / "reports").iterdir())


def test_where_a_run_may_go_on_nothing_is_started(tmp_path, started):
    with started_early(new_run(Workplace(tmp_path))) as waits:
        assert waits is None
    assert not started
    with started_early(new_run(Workplace(tmp_path, begun=False), fresh=True)) as waits:
        assert waits.run.path.name.endswith("-2")
        assert len(started) == 1


def test_no_process_waits_for_a_timer(tmp_path, started):
    with started_early(new_run(Workplace(tmp_path, TIMED, begun=False))) as waits:
        assert waits is None
    assert not (tmp_path / "reports").exists()


def test_the_session_lock_is_held_from_the_turn_to_the_end_of_the_process(tmp_path, started):
    place = Workplace(tmp_path, begun=False)
    with started_early(new_run(place)) as waits:
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
    folder = Path("raw/ncu-timing.001", protocol.GATES_FOLDER)
    (runs / "killed" / folder).mkdir(parents=True)
    held = Gates(runs / "held" / folder)
    with started_early(new_run(place, fresh=True)):
        assert not (runs / "killed").exists()
        assert place.run.exists()
        assert (runs / "held").exists()
    held.let_go()
