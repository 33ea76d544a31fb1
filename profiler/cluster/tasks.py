"""The function that tasks name, with nothing behind it until a worker calls it.

The scheduler imports the module of a task to read it: seconds for pandas, for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping


def measure(order: str, libraries: Mapping[str, bytes], earlier: tuple[str, bytes] | None) -> None:
    """`on_worker.measure`, on a worker."""
    from profiler.cluster import on_worker  # noqa: PLC0415 - not at the scheduler

    on_worker.measure(order, libraries, earlier)
