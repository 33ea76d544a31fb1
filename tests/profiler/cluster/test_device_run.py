"""Which worker gets which problem, and what is given up."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import pytest

from profiler.cluster.device_run import SHORTEST_WAIT_S, DeviceRun, Problem
from profiler.cluster.giving import Given
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment

FULL = EnvironmentUnusable("a full disk")


@pytest.fixture
def run() -> DeviceRun:
    team: Any = Mock()
    return DeviceRun(
        team=team,
        run=Mock(),
        request=Mock(plan=Mock(cells=(), sessions=())),
        builds=(),
        stamped={},
        owners={"small": Environment(gpu="a GPU", gpu_uuid="GPU-a")},
        keys={},
        workers={"GPU-a": "tcp://a", "GPU-b": "tcp://b"},
    )


def given(work: Problem, worker: str) -> Given[Problem]:
    return Given(work, worker, f"tcp://{worker}", Mock())


def test_a_problem_goes_on_where_it_was_begun_if_that_gpu_is_there(run: DeviceRun) -> None:
    run._open = [Problem("small"), Problem("large")]
    other = run.take_next("GPU-b")
    assert other is not None
    assert other.id == "large"
    assert run.take_next("GPU-b") is None
    del run.workers["GPU-a"]
    small = run.take_next("GPU-b")
    assert small is not None
    assert small.id == "small"


def test_what_failed_on_its_gpu_goes_to_another_and_then_to_none(run: DeviceRun) -> None:
    run.open_again(given(Problem("small"), "GPU-a"), FULL)
    assert run.prepare()
    assert run.take_next("GPU-a") is None
    again = run.take_next("GPU-b")
    assert again is not None
    run.open_again(given(again, "GPU-b"), FULL)
    assert not run.prepare()
    assert run.failures == {"small": FULL}


def test_what_only_a_worker_that_left_could_take_is_given_up(run: DeviceRun) -> None:
    run.open_again(given(Problem("large"), "GPU-a"), FULL)
    del run.workers["GPU-b"]
    assert not run.prepare()
    assert run.failures == {"large": FULL}


def test_cells_wait_for_the_gpu_that_measured_them(run: DeviceRun) -> None:
    """A worker that dies is there again within seconds, at another address."""
    now = time.monotonic()
    run._open = [Problem("small", "cell", since=now - 1000)]
    assert run.take_next("GPU-b") is None
    del run.workers["GPU-a"]
    run.seen["GPU-a"] = now
    assert run.prepare()
    assert run.take_next("GPU-b") is None
    run.seen["GPU-a"] = now - SHORTEST_WAIT_S - 1
    assert not run.prepare()
    run._open = [Problem("small", "cell")]
    assert run.prepare(), "a run that goes on waits as long"
    run.workers["GPU-a"] = "tcp://elsewhere"
    assert run.take_next("GPU-a") is not None


def test_cells_of_a_processor_are_explained_by_any_worker(run: DeviceRun) -> None:
    run.owners = {"small": Environment(cpu="a processor")}
    run._open = [Problem("small", "cell", since=time.monotonic() - 1000)]
    assert run.prepare()
    assert run.take_next("GPU-b") is not None
