"""Begins the slow steps of a run before the modules of the run are imported.

Imports nothing that takes long: the machine is asked before anything else of a run is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.requests import RunRequest
from profiler.errors import ExitCode
from profiler.machine.environment import Inquiry, inquire
from profiler.machine.signals import was_signalled

if TYPE_CHECKING:
    from profiler.sessions.preloaded import Preloading


def run_ahead(request: RunRequest) -> ExitCode:
    """Run an experiment; slow steps begin before the module that runs it is imported."""
    with begun_ahead(request) as begun_request:
        if request.workers is not None:
            from profiler.commands.workers import run_on_workers

            return run_on_workers(begun_request)
        from profiler.commands.run import run_command

        return run_command(begun_request)


@contextmanager
def begun_ahead(request: RunRequest) -> Iterator[RunRequest]:
    """A request; while the body imports the command, the machine is asked and torch imported."""
    inquiry = None
    if request.replay is None and request.workers is None:
        inquiry = inquire(request.spec.parent)
    with _torch_ahead(request, inquiry) as preloading:
        yield replace(request, inquiry=inquiry, preloading=preloading)


@contextmanager
def _torch_ahead(request: RunRequest, inquiry: Inquiry | None) -> Iterator[Preloading | None]:
    """A process of the runner that imports torch while the body runs.

    None of a run under ncu, and without an inquiry.
    """
    if inquiry is None or not (request.fast or request.timer):
        yield None
        return
    from profiler.sessions.preloaded import preloading

    with preloading(inquiry, even_without_gpu=request.live) as preload:
        if request.fast:
            build = partial(_build_range_profiler, inquiry, request.out.resolve())
            threading.Thread(target=build, name="range profiler").start()
        yield preload


def _build_range_profiler(inquiry: Inquiry, out: Path) -> None:
    """Build the library that reads counters, 2 s the first time; the run then finds it built.

    What is wrong is said where it is needed.
    """
    with suppress(Exception):
        gpu = inquiry.gpu.result()
        from profiler.machine.environment import architecture_of
        from profiler.sessions.builds.plan_builds import built_range_profiler
        from profiler.sessions.execution import build_root

        if gpu is not None and not was_signalled():
            built_range_profiler(architecture_of(gpu), build_root(out))
