"""Which worker gets which problems, how many at a time, and what is given up."""

import time
from unittest.mock import Mock

import pytest

from profiler.cluster.giving import Piece, Share
from profiler.cluster.on_worker import STAGE
from profiler.cluster.problems import (
    LONGEST_WAIT_S,
    SHORTEST_WAIT_S,
    TASK_S,
    ExplainShare,
    Pace,
    ProblemShare,
)
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment, SessionStep, Span
from profiler.run_folder.seconds import PROFILER
from profiler.sessions.execution import SecondsRecorder

MODULE = "profiler.cluster.problems"
FULL = EnvironmentUnusable("a full disk")
A, B = "GPU-a", "GPU-b"
PROBLEM_OF = {f"cell {number}": number for number in "0123456789"}


@pytest.fixture
def problems(monkeypatch):
    monkeypatch.setattr(f"{MODULE}.plan_part", Mock())
    monkeypatch.setattr(ProblemShare, "_earlier_parcel", lambda *_: None)
    plan = Mock(cells=(), sessions=(), problem_of=PROBLEM_OF, problems=range(10))
    request = Mock(plan=plan, seconds=SecondsRecorder())
    team = Mock(request=request, failures={}, builds=(), stamped={}, homes={})
    team.submit.side_effect = lambda *_, **__: Mock(status="pending")
    return ProblemShare(team=team, workers={A: "tcp://a", B: "tcp://b"})


def given(ids, worker, ago_s=0.0):
    """A piece that a worker has since some seconds."""
    piece = Piece(ids, worker, f"tcp://{worker}", time.monotonic() - ago_s)
    piece.future = Mock(status="pending")
    return piece


def warned(problems):
    warn = problems.team.reporter.warn
    return [call.args[0] for call in warn.call_args_list]


def pass_by(problems, seconds):
    """Have seconds go by for what waits."""
    for lost in tuple(problems.given_pieces):
        problems._advance_piece(lost)
        if lost.waits_until is not None:
            lost.waits_until -= seconds
        problems._advance_piece(lost)


def lose(problems, worker, lost):
    del problems.workers[worker]
    problems.given_pieces.append(lost)
    pass_by(problems, 0)


def test_a_problem_goes_on_where_it_was_begun_if_that_gpu_is_there(problems, monkeypatch):
    monkeypatch.setattr(ProblemShare, "_is_measured", lambda *_: False)
    problems.open = ["small", "large"]
    problems.team.homes["small"] = Environment(gpu_uuid=A), {}
    assert problems.take_next(B) == ["large"]
    assert not problems.take_next(B)
    del problems.workers[A]
    assert problems.prepare()
    assert problems.take_next(B) == ["small"]


def test_what_failed_on_its_gpu_goes_to_another_and_then_to_none(problems):
    problems.finish(given(["small"], A), FULL)
    assert problems.prepare()
    assert not problems.take_next(A)
    again = problems.take_next(B)
    problems.finish(given(again, B), FULL)
    assert not problems.prepare()
    assert problems.team.failures == {"small": FULL}
    assert "another worker gets it" in warned(problems)[0]
    assert "no other worker can take it" in warned(problems)[1]


def test_what_only_a_worker_that_left_could_take_is_given_up(problems):
    problems.finish(given(["large"], A), FULL)
    del problems.workers[B]
    assert not problems.prepare()
    assert problems.team.failures == {"large": FULL}


def test_of_a_task_that_failed_what_is_missing_is_given_one_by_one(problems, monkeypatch):
    monkeypatch.setattr(ProblemShare, "_is_measured", lambda _, problem: problem == "1")
    problems.finish(given(["0", "1", "2"], A), FULL)
    assert [problems.take_next(B) for _ in range(3)] == [["0"], ["2"], []]


def test_what_a_lost_worker_had_waits_for_its_gpu_and_then_begins_anew(problems, monkeypatch):
    problems.open = ["4"]
    lose(problems, A, given(["0", "1", "2"], A, ago_s=60))
    assert problems.prepare()
    assert problems.take_next(B) == ["4"]
    assert not problems.take_next(B)
    (lost,) = problems.given_pieces
    problems.workers[A] = "tcp://elsewhere"
    pass_by(problems, 61)
    assert problems.given_pieces == [lost], "as it was: its folder is there"
    assert lost.address == "tcp://elsewhere"
    del problems.workers[A]
    pass_by(problems, 59)
    assert not problems.open
    monkeypatch.setattr(ProblemShare, "_is_measured", lambda _, problem: problem == "1")
    problems.team.homes["0"] = Environment(), {}
    pass_by(problems, 2)
    assert problems.prepare()
    assert [problems.take_next(B) for _ in range(3)] == [["0"], ["2"], []]
    assert "0 and 2 more begins anew: its GPU did not come back." in warned(problems)
    assert not problems.team.homes, "samples of two GPUs are not mixed"


@pytest.mark.parametrize(
    ("measured_s", "waits_s"), [(1.0, 1.0), (60.0, 60.0), (3600.0, LONGEST_WAIT_S)]
)
def test_a_gpu_is_waited_for_as_long_as_it_had_measured(measured_s, waits_s, problems):
    lose(problems, A, given(["0"], A, ago_s=measured_s))
    pass_by(problems, waits_s - 0.5)
    assert not problems.take_next(B)
    pass_by(problems, 1)
    assert problems.take_next(B)


@pytest.fixture
def explaining(problems, monkeypatch):
    """Begins to explain the cells of problems that a GPU measured, a processor where it is None."""
    explain = ExplainShare(team=problems.team, workers=problems.workers)
    monkeypatch.setattr(Share, "measure", lambda _: None)

    def begin(gpu, *ids):
        cells = tuple(f"cell {id_}" for id_ in ids)
        monkeypatch.setattr(f"{MODULE}.cells_to_explain", lambda *_, **__: cells)
        explain.team.homes = {id_: (Environment(gpu_uuid=gpu), {}) for id_ in ids}
        explain.measure()
        return explain

    return begin


def test_cells_wait_for_the_gpu_that_measured_them(explaining):
    """A worker that dies is there again within seconds, at another address."""
    explained = explaining(A, "1")
    (cells,) = explained.given_pieces
    assert (cells.worker, cells.ids, explained.open) == (A, ["1"], [])
    assert explained.team.submit.call_args.kwargs["explain"] == ("cell 1",)
    del explained.workers[A]
    pass_by(explained, SHORTEST_WAIT_S - 1)
    explained.workers[A] = "tcp://elsewhere"
    pass_by(explained, SHORTEST_WAIT_S + 1)
    assert explained.given_pieces == [cells]
    del explained.workers[A]
    pass_by(explained, SHORTEST_WAIT_S + 1)
    assert not explained.given_pieces
    assert not explained.prepare()
    assert warned(explained)[-1] == "Not explained: 1: its GPU is not here any more"
    explaining(A, "1")
    pass_by(explained, SHORTEST_WAIT_S - 1)
    assert explained.given_pieces, "a run that goes on waits as long"


def test_cells_of_a_processor_are_explained_by_any_worker(explaining):
    explained = explaining(None, "1")
    assert explained.prepare()
    cells = explained.take_next(B)
    lose(explained, B, given(cells, B))
    pass_by(explained, SHORTEST_WAIT_S + 1)
    assert explained.prepare()
    assert explained.take_next(A) == ["1"]


def test_cells_that_fail_together_are_explained_problem_by_problem(explaining):
    explained = explaining(A, "1", "2")
    (together,) = explained.given_pieces
    explained.given_pieces.clear()
    explained.finish(together, FULL)
    assert [alone.ids for alone in explained.given_pieces] == [["1"], ["2"]]
    assert {alone.worker for alone in explained.given_pieces} == {A}
    explained.finish(explained.given_pieces[0], FULL)
    assert len(explained.given_pieces) == 2, "it is not given again"
    assert warned(explained) == ["Not explained: 1: tcp://a: a full disk"]


# ---- how many problems a task has ----------------------------------------------------------------


def measured(problems, ids, worker, start_s=4.0):
    """Have work end whose problems take a second each, after its start."""
    ended, end_s = given(ids, worker), start_s + len(ids)
    ended.spans = (
        Span("ncu-timing.001", SessionStep.MEASURES, start_s, end_s),
        Span(PROFILER, STAGE, 0.0, end_s),
    )
    problems.finish(ended, None)


def test_tasks_are_shared_out_by_what_the_first_took(problems):
    problems.open = [str(number) for number in range(10)]
    first, second = problems.take_next(A), problems.take_next(B)
    assert (first, second) == (["0"], ["1"]), "nobody knows how long they take"
    measured(problems, first, A)
    measured(problems, second, B)
    third = problems.take_next(A)
    problems.given_pieces = [given(third, A)]
    fourth = problems.take_next(B)
    assert (third, fourth) == (["2", "3", "4", "5"], ["6", "7", "8", "9"])


def pace(each_s, start_s=5.0, problems=50):
    return Pace(problems, start_s + problems * each_s, problems * each_s)


@pytest.mark.parametrize(
    ("made", "left", "size"),
    [
        (Pace(), 1000, 1),
        (pace(0.5, problems=100), 10_000, TASK_S / 0.5),
        (pace(0.5, problems=1), 10_000, 4),
        (pace(50.0), 1000, 2),
        (pace(500.0), 1000, 1),
        (pace(0.5), 100, 25),
        (pace(0.5), 30, 10),
        (pace(0.5), 6, 3),
        (pace(50.0), 3, 1),
    ],
)
def test_a_task_takes_a_sensible_time_and_less_at_the_end(made, left, size):
    """But not less than its start takes."""
    assert made.problems_of_task(left, 0, workers=2) == size
