"""Measurements on workers of Dask: their tasks, what is sent to them, and their results.

This module has the function of the tasks. The scheduler imports it to read a task, so that it
imports nothing slow.
"""

from __future__ import annotations

from collections.abc import Mapping


def measure(
    order: str,
    libraries: Mapping[str, tuple[str, bytes]],
    earlier: tuple[str, bytes] | None,
) -> None:
    """`on_worker.measure`, on a worker."""
    from profiler.cluster import on_worker  # noqa: PLC0415 - not at the scheduler

    on_worker.measure(order, libraries, earlier)
