"""The functions that tasks name, with nothing behind them until a worker calls them.

The scheduler imports the module of a task to read it: seconds for pandas, for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def measure_problem(
    order: str, libraries: Mapping[str, bytes], earlier: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """`problem_task.measure_problem`, on a worker."""
    from profiler.cluster import problem_task  # noqa: PLC0415 - not at the scheduler

    return problem_task.measure_problem(order, libraries, earlier)


def measure_batch(order: str, libraries: Mapping[str, bytes]) -> list[Mapping[str, Any]]:
    """`batch_task.measure_batch`, on a worker."""
    from profiler.cluster import batch_task  # noqa: PLC0415 - not at the scheduler

    return batch_task.measure_batch(order, libraries)
