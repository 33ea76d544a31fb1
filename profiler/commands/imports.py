"""Imports the modules of a run while something else is waited for."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from profiler.machine.signals import was_signalled

if TYPE_CHECKING:
    from profiler.run_folder.folder import RunFolder
    from profiler.run_folder.load.attempts import AttemptReader

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
