"""`make gallery`: the page of every recording in a folder, comparisons of them, and an index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from profiler.commands.output import is_own_page
from profiler.commands.report import read_run
from profiler.commands.requests import GalleryRequest
from profiler.errors import ExitCode, UsageError
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.machine.console import make_console
from profiler.model import EXPERIMENT_NAME
from profiler.planning.spec.source import read_document
from profiler.planning.spec.values import SpecModel
from profiler.render.index import INDEX_FILE, IndexEntry, render_gallery
from profiler.run_folder.archive import open_run
from profiler.run_folder.documents import write_atomic
from profiler.run_folder.runs import recordings_in, require_folder

CONTENTS_FILE = "gallery.yaml"


_PageName = Annotated[str, Field(pattern=rf"^{EXPERIMENT_NAME.pattern}$")]


class _Comparison(SpecModel):
    """A page that compares recordings."""

    title: str
    runs: tuple[str, ...] = Field(min_length=2)
    """Names of recordings, the older one first."""


class _NotMade(SpecModel):
    """A page that the recordings do not suffice for."""

    reason: str
    commands: tuple[str, ...] = ()


class _Contents(SpecModel):
    """Content of `gallery.yaml`."""

    comparisons: dict[_PageName, _Comparison] = Field(default_factory=dict)
    """Comparisons by page name."""
    not_made: dict[str, _NotMade] = Field(default_factory=dict)
    """Pages that are not made by name, with the reason and the commands that make them."""


def make_gallery(request: GalleryRequest) -> ExitCode:
    """Write all pages in as many processes as there are cores, and an index of them."""
    require_folder(request.out, "DIR")
    contents = read_contents(request.recordings / CONTENTS_FILE)
    _refuse_taken_names(request.recordings, contents)
    console = make_console("auto")
    # Started anew: a fork would inherit the locks of the libraries' threads.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        pages = []
        for future in list(_submit_pages(request, contents, pool)):
            pages.append(future.result())
            console.print(f"Page: {request.out / pages[-1].file}")
    index = _own_target(request.out / INDEX_FILE)
    missing = {name: (page.reason, page.commands) for name, page in contents.not_made.items()}
    write_atomic(index, render_gallery(pages, missing))
    console.print(f"Index: {index}")
    return ExitCode.COMPLETE


def _refuse_taken_names(folder: Path, contents: _Contents) -> None:
    """Raise UsageError where two pages of a gallery would share a name."""
    recordings = recordings_in(folder)
    index = INDEX_FILE.partition(".")[0]
    for name in (*contents.comparisons, *recordings):
        if name == index or (name in contents.comparisons and name in recordings):
            owner = "the index" if name == index else f"the recording {name}"
            raise UsageError(
                f"{folder}: a page cannot be called {name!r} as {owner} is",
                remedy=f"Give it another name ({CONTENTS_FILE}, or that of the recording).",
            )


def read_contents(file: Path) -> _Contents:
    """Content of `gallery.yaml`; empty where the file is missing or empty."""
    if not file.exists() or (file.is_file() and not file.stat().st_size):
        return _Contents()
    try:
        return _Contents.model_validate(read_document(file).data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file}: {where}: {first['msg']}") from error


def _submit_pages(
    request: GalleryRequest, contents: _Contents, pool: ProcessPoolExecutor
) -> Iterator[Future[IndexEntry]]:
    """Submit the making of each page; raises UsageError without recordings."""
    recordings = recordings_in(request.recordings)
    if not recordings:
        raise UsageError(f"{request.recordings}: no recordings in it")
    for name, recording in recordings.items():
        target = _own_target(request.out / f"{name}.html")
        yield pool.submit(_write_recording_page, recording, target)
    for name, comparison in contents.comparisons.items():
        runs = tuple(str(recordings.get(run, request.recordings / run)) for run in comparison.runs)
        target = _own_target(request.out / f"{name}.html")
        yield pool.submit(_write_comparison_page, runs, comparison.title, target)


def _own_target(page: Path) -> Path:
    """The path of a page; raises UsageError where a file of another program lies there."""
    if (page.exists() or page.is_symlink()) and not is_own_page(page):
        raise UsageError(
            f"{page}: is no page of this program, and is not replaced",
            remedy="Take it away, or give another folder with --out.",
        )
    return page


def find_recorded(recording: Path) -> Findings:
    """Findings of a recording."""
    return find(read_run(open_run(recording)))


def _write_recording_page(recording: Path, target: Path) -> IndexEntry:
    from profiler.render.index import page_of_run
    from profiler.render.page import render_page

    findings = find_recorded(recording)
    write_atomic(target, render_page(findings))
    return page_of_run(findings, target.name)


def _write_comparison_page(runs: tuple[str, ...], title: str, target: Path) -> IndexEntry:
    from profiler.comparison.compare import compare
    from profiler.comparison.runs import find_runs, read_runs
    from profiler.render.runs.page import page_of_comparison, render_comparison

    comparison = compare(read_runs(find_runs(runs, target.parent)))
    write_atomic(target, render_comparison(comparison))
    return page_of_comparison(comparison, title, target.name)
