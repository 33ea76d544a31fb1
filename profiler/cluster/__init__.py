"""Measuring on workers of Dask: one problem on one GPU; what travels, and what comes of it.

Here is the task that workers are given. The scheduler imports its module to read it, so that it
imports nothing that takes long.
"""

from __future__ import annotations

from collections.abc import Mapping


def measure(order: str, libraries: Mapping[str, bytes], earlier: tuple[str, bytes] | None) -> None:
    """`on_worker.measure`, on a worker."""
    from profiler.cluster import on_worker  # noqa: PLC0415 - not at the scheduler

    on_worker.measure(order, libraries, earlier)
