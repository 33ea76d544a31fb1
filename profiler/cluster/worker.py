"""A worker of Dask for the GPU here: it measures one problem at a time."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from distributed import Security, Worker

from profiler.cluster.connection import hush_dask, worker_options
from profiler.errors import EnvironmentUnusable
from profiler.machine.signals import raise_if_signalled
from profiler.model import Environment

_LOOK_S = 1.0
"""Between two looks whether a signal came."""


def serve(
    address: str,
    environment: Environment,
    security: Security | None,
    scratch: Path | None,
    *,
    on_taken: Callable[[], None],
) -> None:
    """Take tasks of a scheduler until it is gone or this process is ended.

    `scratch`: folder for runs under way and libraries; None: a temporary one. `on_taken` is called
    when the scheduler knows this worker.
    """
    hush_dask(logging.WARNING)
    with (
        tempfile.TemporaryDirectory(prefix="kernel-profiler-worker-")
        if scratch is None
        else nullcontext(str(scratch))
    ) as folder:
        try:
            asyncio.run(_serve(address, environment, security, folder, on_taken))
        except (OSError, TimeoutError, RuntimeError) as error:
            raise EnvironmentUnusable(
                f"{address}: no scheduler takes this worker: {error.__cause__ or error}",
                remedy="Start one with `dask scheduler`. A GPU can have one worker only.",
            ) from error


async def _serve(
    address: str,
    environment: Environment,
    security: Security | None,
    folder: str,
    on_taken: Callable[[], None],
) -> None:
    options = worker_options(environment, folder)
    async with Worker(address, security=security, **options) as worker:
        on_taken()
        finished = asyncio.create_task(worker.finished())
        while not finished.done():
            await asyncio.wait([finished], timeout=_LOOK_S)
            raise_if_signalled()
