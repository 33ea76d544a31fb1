"""Which of the parcels of a task count."""

from unittest.mock import Mock

from profiler.cluster.device_run import Task


def test_only_the_newest_execution_of_a_task_counts() -> None:
    """A worker that was cut off goes on, while another has its problem already."""
    task = Task("rows=4", None, Mock())
    assert task.is_of_newest("first")
    task.names["ncu-timing.001"] = "ncu-timing.003"
    assert task.is_of_newest("first")
    assert task.is_of_newest("second")
    assert not task.names
    assert not task.is_of_newest("first")
    assert task.is_of_newest("second")
