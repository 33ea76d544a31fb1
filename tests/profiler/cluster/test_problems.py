"""Which worker gets which problems, how many at a time, and what is given up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import Mock

import pytest

from profiler.cluster.giving import Given, WorkItem
from profiler.cluster.on_worker import STAGE
from profiler.cluster.problems import (
    LONGEST_WAIT_S,
    SHORTEST_WAIT_S,
    TASK_S,
    Pace,
    ProblemShare,
)
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment, SessionStep, Span
from profiler.run_folder.seconds import PROFILER
from profiler.sessions.execution import SecondsRecorder

FULL = EnvironmentUnusable("a full disk")
A, B = "GPU-a", "GPU-b"
PROBLEM_OF = {f"cell {number}": number for number in "0123456789"}


@pytest.fixture
def problems() -> ProblemShare:
    plan = Mock(cells=(), sessions=(), problem_of=PROBLEM_OF, problems=range(10))
    request = Mock(plan=plan, seconds=SecondsRecorder())
    team: Any = Mock(request=request, failures={})
    return ProblemShare(
        team=team, builds=(), stamped={}, homes={}, workers={A: "tcp://a", B: "tcp://b"}
    )


def given(work: WorkItem, worker: str, ago_s: float = 0.0) -> Given:
    return Given(work, worker, f"tcp://{worker}", Mock(), since=time.monotonic() - ago_s)


def ids(work: WorkItem | None) -> list[str]:
    return [] if work is None else work.ids


def warned(problems: ProblemShare) -> list[str]:
    warn = cast(Any, problems.team).reporter.warn
    return [call.args[0] for call in warn.call_args_list]


def pass_by(problems: ProblemShare, seconds: float) -> None:
    """Have seconds go by for what waits."""
    for work in problems.open:
        work.waits_until -= seconds


def lose(problems: ProblemShare, worker: str, lost: Given) -> None:
    del problems.workers[worker]
    problems.put_back(lost)


def test_a_problem_goes_on_where_it_was_begun_if_that_gpu_is_there(problems: ProblemShare) -> None:
    problems.open = [WorkItem(["small"], A), WorkItem(["large"])]
    assert ids(problems.take_next(B)) == ["large"]
    assert problems.take_next(B) is None
    del problems.workers[A]
    assert problems.prepare()
    assert ids(problems.take_next(B)) == ["small"]


def test_what_failed_on_its_gpu_goes_to_another_and_then_to_none(problems: ProblemShare) -> None:
    problems.finish(given(WorkItem(["small"], A), A), FULL)
    assert problems.prepare()
    assert problems.take_next(A) is None
    again = problems.take_next(B)
    assert again is not None
    problems.finish(given(again, B), FULL)
    assert not problems.prepare()
    assert problems.team.failures == {"small": FULL}
    assert "another worker gets it" in warned(problems)[0]
    assert "no other worker can take it" in warned(problems)[1]


def test_what_only_a_worker_that_left_could_take_is_given_up(problems: ProblemShare) -> None:
    problems.finish(given(WorkItem(["large"]), A), FULL)
    del problems.workers[B]
    assert not problems.prepare()
    assert problems.team.failures == {"large": FULL}


def test_of_a_task_that_failed_what_is_missing_is_given_one_by_one(
    problems: ProblemShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProblemShare, "_is_measured", lambda _, problem: problem == "1")
    problems.finish(given(WorkItem(["0", "1", "2"]), A), FULL)
    assert [ids(problems.take_next(B)) for _ in range(3)] == [["0"], ["2"], []]


def test_what_a_lost_worker_had_waits_for_its_gpu_and_then_begins_anew(
    problems: ProblemShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems.open = [WorkItem(["4"])]
    lose(problems, A, given(WorkItem(["0", "1", "2"]), A, ago_s=60))
    assert problems.prepare()
    assert ids(problems.take_next(B)) == ["4"]
    assert problems.take_next(B) is None
    problems.workers[A] = "tcp://elsewhere"
    back = problems.take_next(A)
    assert ids(back) == ["0", "1", "2"], "as it was: its folder is there"
    assert back is not None
    lose(problems, A, given(back, A, ago_s=60))
    pass_by(problems, 61)
    monkeypatch.setattr(ProblemShare, "_is_measured", lambda _, problem: problem == "1")
    problems.homes["0"] = Environment(), {}
    assert problems.prepare()
    assert [ids(problems.take_next(B)) for _ in range(3)] == [["0"], ["2"], []]
    assert "0 and 2 more begins anew: its GPU did not come back." in warned(problems)
    assert not problems.homes, "samples of two GPUs are not mixed"


@pytest.mark.parametrize(
    ("measured_s", "waits_s"), [(1.0, 1.0), (60.0, 60.0), (3600.0, LONGEST_WAIT_S)]
)
def test_a_gpu_is_waited_for_as_long_as_it_had_measured(
    measured_s: float, waits_s: float, problems: ProblemShare
) -> None:
    lose(problems, A, given(WorkItem(["0"]), A, ago_s=measured_s))
    pass_by(problems, waits_s - 0.5)
    problems.prepare()
    assert problems.take_next(B) is None
    pass_by(problems, 1)
    problems.prepare()
    assert problems.take_next(B) is not None


def to_explain(home: str | None = A, ids: Sequence[str] = ("1",)) -> WorkItem:
    return WorkItem([*ids], home, cells=tuple(f"cell {id_}" for id_ in ids), is_whole=True)


def test_cells_wait_for_the_gpu_that_measured_them(problems: ProblemShare) -> None:
    """A worker that dies is there again within seconds, at another address."""
    problems.open = [to_explain()]
    assert problems.prepare(), "it is there"
    assert problems.take_next(B) is None
    del problems.workers[A]
    pass_by(problems, SHORTEST_WAIT_S - 1)
    assert problems.prepare()
    assert problems.take_next(B) is None
    pass_by(problems, 2)
    assert not problems.prepare()
    assert warned(problems) == ["Not explained: 1: its GPU is not here any more"]
    problems.open = [to_explain()]
    assert problems.prepare(), "a run that goes on waits as long"
    problems.workers[A] = "tcp://elsewhere"
    assert problems.take_next(A) is not None


def test_cells_of_a_processor_are_explained_by_any_worker(problems: ProblemShare) -> None:
    problems.open = [to_explain(home=None)]
    assert problems.prepare()
    cells = problems.take_next(B)
    assert cells is not None
    lose(problems, B, given(cells, B))
    assert problems.prepare()
    assert problems.take_next(A) is cells


def test_cells_whose_worker_dies_wait_and_those_that_fail_do_not(problems: ProblemShare) -> None:
    cells = to_explain()
    lose(problems, A, given(cells, A))
    pass_by(problems, SHORTEST_WAIT_S - 1)
    assert problems.prepare()
    problems.workers[A] = "tcp://elsewhere"
    assert problems.take_next(A) is cells
    problems.finish(given(cells, A), FULL)
    assert problems.take_next(A) is None
    assert warned(problems)[1:] == ["Not explained: 1: tcp://GPU-a: a full disk"]


def test_cells_that_fail_together_are_explained_problem_by_problem(problems: ProblemShare) -> None:
    problems.finish(given(to_explain(ids=("1", "2")), A), FULL)
    works = [problems.take_next(A) for _ in range(2)]
    assert [(ids(work), work and work.cells) for work in works] == [
        (["1"], ("cell 1",)),
        (["2"], ("cell 2",)),
    ]


# ---- how many problems a task has ----------------------------------------------------------------


def measured(
    problems: ProblemShare, work: WorkItem | None, worker: str, start_s: float = 4.0
) -> None:
    """Have work end whose problems take a second each, after its start."""
    assert work is not None
    ended, end_s = given(work, worker), start_s + len(work.ids)
    ended.spans = (
        Span("ncu-timing.001", SessionStep.MEASURES, start_s, end_s),
        Span(PROFILER, STAGE, 0.0, end_s),
    )
    problems.finish(ended, None)


def test_tasks_are_shared_out_by_what_the_first_took(problems: ProblemShare) -> None:
    problems.open = [WorkItem([str(number)]) for number in range(10)]
    first, second = problems.take_next(A), problems.take_next(B)
    assert (ids(first), ids(second)) == (["0"], ["1"]), "nobody knows how long they take"
    measured(problems, first, A)
    measured(problems, second, B)
    third = problems.take_next(A)
    assert third is not None
    problems.given = [given(third, A)]
    fourth = problems.take_next(B)
    assert (ids(third), ids(fourth)) == (["2", "3", "4", "5"], ["6", "7", "8", "9"])


def pace(each_s: float, start_s: float = 5.0, problems: int = 50) -> Pace:
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
def test_a_task_takes_a_sensible_time_and_less_at_the_end(
    made: Pace, left: int, size: float
) -> None:
    """But not less than its start takes."""
    assert made.problems_of_task(left, 0, workers=2) == size
