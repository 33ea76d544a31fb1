"""Which worker gets which problem, and what is given up."""

from __future__ import annotations

import time
from typing import Any, cast
from unittest.mock import Mock

import pytest

from profiler.cluster.device_run import SHORTEST_WAIT_S, DeviceRun, Problem
from profiler.cluster.giving import Given
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment

FULL = EnvironmentUnusable("a full disk")


HERE = Environment(gpu="a GPU", gpu_uuid="GPU-a")


@pytest.fixture
def run() -> DeviceRun:
    team: Any = Mock(request=Mock(plan=Mock(cells=(), sessions=())), failures={})
    return DeviceRun(
        team=team,
        problems=(),
        builds=(),
        stamped={},
        workers={"GPU-a": "tcp://a", "GPU-b": "tcp://b"},
    )


def small(*, explain: str | None = None, home: Environment = HERE, ago_s: float = 0.0) -> Problem:
    return Problem("small", home, explain=explain, since=time.monotonic() - ago_s)


def given(work: Problem, worker: str) -> Given[Problem]:
    return Given(work, worker, f"tcp://{worker}", Mock())


def test_a_problem_goes_on_where_it_was_begun_if_that_gpu_is_there(run: DeviceRun) -> None:
    run._open = [small(), Problem("large")]
    other = run.take_next("GPU-b")
    assert other is not None
    assert other.id == "large"
    assert run.take_next("GPU-b") is None
    del run.workers["GPU-a"]
    begun = run.take_next("GPU-b")
    assert begun is not None
    assert begun.id == "small"


def test_what_failed_on_its_gpu_goes_to_another_and_then_to_none(run: DeviceRun) -> None:
    run.open_again(given(small(), "GPU-a"), FULL)
    assert run.prepare()
    assert run.take_next("GPU-a") is None
    again = run.take_next("GPU-b")
    assert again is not None
    run.open_again(given(again, "GPU-b"), FULL)
    assert not run.prepare()
    assert run.team.failures == {"small": FULL}


def test_what_only_a_worker_that_left_could_take_is_given_up(run: DeviceRun) -> None:
    run.open_again(given(Problem("large"), "GPU-a"), FULL)
    del run.workers["GPU-b"]
    assert not run.prepare()
    assert run.team.failures == {"large": FULL}


def test_cells_wait_for_the_gpu_that_measured_them(run: DeviceRun) -> None:
    """A worker that dies is there again within seconds, at another address."""
    cells = small(explain="cell", ago_s=1000)
    run._open = [cells]
    assert run.prepare(), "it is there"
    assert run.take_next("GPU-b") is None
    del run.workers["GPU-a"]
    assert run.prepare()
    assert run.take_next("GPU-b") is None
    cells.since -= SHORTEST_WAIT_S + 1
    assert not run.prepare()
    run._open = [small(explain="cell")]
    assert run.prepare(), "a run that goes on waits as long"
    run.workers["GPU-a"] = "tcp://elsewhere"
    assert run.take_next("GPU-a") is not None


def test_cells_of_a_processor_are_explained_by_any_worker(run: DeviceRun) -> None:
    run._open = [small(explain="cell", home=Environment(cpu="a processor"), ago_s=1000)]
    assert run.prepare()
    assert run.take_next("GPU-b") is not None


def test_cells_whose_worker_dies_wait_and_those_that_fail_do_not(run: DeviceRun) -> None:
    problem = small(explain="cell", ago_s=1000)
    lost = given(problem, "GPU-a")
    lost.lost = time.monotonic()
    run.open_again(lost, None)
    del run.workers["GPU-a"]
    assert run.prepare()
    run.workers["GPU-a"] = "tcp://elsewhere"
    assert run.take_next("GPU-a") is problem
    run.open_again(given(problem, "GPU-a"), FULL)
    assert run.take_next("GPU-a") is None
    cast(Any, run.team).reporter.warn.assert_called_once_with(
        "Not explained: small: tcp://GPU-a: a full disk"
    )


def test_what_begins_anew_comes_first_and_is_no_ones(run: DeviceRun) -> None:
    run._open = [Problem("large")]
    run.open_again(given(small(), "GPU-a"), None)
    anew = run.take_next("GPU-b")
    assert anew is not None
    assert (anew.id, anew.home) == ("small", None)
