"""Begins the slow steps of a run, and imports its modules, while something else is waited for.

Imports nothing that takes long: the machine is asked before anything else of a run is there.
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
    from profiler.run_folder.folder import RunFolder
    from profiler.run_folder.load.attempts import AttemptReader
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


# ---- imports -------------------------------------------------------------------------------------

_MEASURING = ("profiler.run_folder.load.assemble", "profiler.sessions.measure")
_RESULTS = (
    "scipy.special",
    "profiler.findings.find",
    "profiler.findings.why.find",
    "profiler.findings.document",
    "profiler.comparison.run_entries",
    "profiler.commands.answers",
    "profiler.commands.index",
    "profiler.render.index",
    "profiler.render.console.tables",
)
_TABLES = ("pyarrow.parquet", "pandas.core.arrays.arrow.extension_types")
"""Package that writes summary.parquet, if installed."""
_PAGE = ("profiler.render.page",)


@contextmanager
def measuring_imported(earlier: RunFolder | None = None) -> Iterator[Future[AttemptReader]]:
    """While the body runs, import the measuring modules and pandas, which the body does not need.

    Gives the reader of attempts to come, which has read those of the run `earlier`. What cannot be
    imported is an error where it is needed, and not here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="imports") as beside:
        yield beside.submit(_reader_of, earlier)


def _reader_of(earlier: RunFolder | None) -> AttemptReader:
    _import(_MEASURING)
    from profiler.run_folder.load.attempts import AttemptReader

    reader = AttemptReader()
    for attempt in () if earlier is None else earlier.attempts():
        if was_signalled():
            break
        reader.read_table(attempt)
    return reader


def import_ahead(*, page: bool) -> None:
    """Import the modules that find and print results, and compile a page's templates.

    While the first session starts, which takes seconds too. What cannot be imported is an error
    where it is needed, and not here.
    """
    _import((*_RESULTS, *(_PAGE if page else ())))
    _import(_TABLES)
    if page:
        from profiler.planning.page_kinds import PAGE_KINDS

        _import(kind.view.partition(":")[0] for kind in PAGE_KINDS.values())
        with suppress(ImportError):
            from profiler.render.html import compile_templates

            if not was_signalled():
                compile_templates()


def _import(names: Iterable[str]) -> None:
    """Import modules until one fails, or a signal asks the command to end, which waits here."""
    with suppress(ImportError):
        for name in names:
            if was_signalled():
                return
            importlib.import_module(name)


RARELY = 100_000
"""Objects between two looks for garbage from which on the looks cost next to nothing."""


@contextmanager
def kept_from_collector() -> Iterator[None]:
    """Keep all existing objects from the garbage collector until the body ends.

    The journals and samples of a run are millions of objects that stay. Going through them each
    time that new objects have come takes a seventh of the time of a large page.
    """
    # The command line looks seldom, or somebody keeps more than that. What is frozen is counted one
    # by one: that is asked last.
    if gc.get_threshold()[0] >= RARELY or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
