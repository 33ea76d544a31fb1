"""Which of the parcels of a task count, and how long a dead worker is waited for."""

from unittest.mock import Mock

import pytest

from profiler.cluster.device_run import LONGEST_WAIT_S, Begun, Task


def test_only_the_newest_execution_of_a_task_counts() -> None:
    """A worker that was cut off goes on, while another has its problem already."""
    task = Task(Mock(), problem="rows=4")
    assert task.is_of_newest("first")
    task.names["ncu-timing.001"] = "ncu-timing.003"
    assert task.is_of_newest("first")
    assert task.is_of_newest("second")
    assert not task.names
    assert not task.is_of_newest("first")
    assert task.is_of_newest("second")


@pytest.mark.parametrize(
    ("measured_s", "patience_s"), [(1.0, 1.0), (60.0, 60.0), (3600.0, LONGEST_WAIT_S)]
)
def test_a_gpu_is_waited_for_as_long_as_it_had_measured(
    measured_s: float, patience_s: float
) -> None:
    begun = Begun("GPU-1", since=100.0)
    assert not begun.is_given_up(1e6), "it is there"
    begun.lost = 100.0 + measured_s
    assert begun.patience_s == patience_s
    assert not begun.is_given_up(begun.lost + patience_s)
    assert begun.is_given_up(begun.lost + patience_s + 0.1)
