"""`profiler import`: tables and a page of files that the user already has."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import csv_parts, write_json_target
from profiler.commands.requests import ImportRequest
from profiler.commands.stages import Stages
from profiler.commands.targets import is_own_page, is_table, write_page, write_table
from profiler.errors import ExitCode, ParseError, UsageError
from profiler.model import TunedConfig
from profiler.notices import Notice, remedy, text
from profiler.outside_text import safe
from profiler.sessions.progress import make_console

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.findings.why.hot_lines import ListedKernel
    from profiler.importers.ncu_files import Imported
    from profiler.importers.source_pages import ImportedSource
    from profiler.importers.timelines import ImportedTimeline


_ENDINGS = (".csv", ".ncu-rep", ".sqlite", ".nsys-rep", ".json", ".log")
"""What files of a folder end in that are imported."""
_TABLE_ENDING = ".kinds.csv"


class _Import(ImportRequest):
    """A request whose files were found."""

    @cached_property
    def stages(self) -> Stages:
        """Messages on reading and writing, where these take long."""
        return Stages(self.color)

    @property
    def names(self) -> list[str]:
        """Names of the files, without their folders."""
        return [safe(file.name) for file in self.files]

    def console(self) -> Console:
        """Console for what is said about the files: stderr where stdout is for JSON."""
        return make_console(self.color, stderr=self.json_target == "-")


def import_files(asked: ImportRequest) -> ExitCode:
    """Read timelines, reports and CSV of ncu or logs of inductor's autotuner.

    Writes table and page, or JSON.
    """
    from profiler.importers.ncu_files import read_imports
    from profiler.importers.ncu_reports import read_reports
    from profiler.importers.source_pages import read_source_pages
    from profiler.importers.timelines import read_timelines
    from profiler.importers.tuning_logs import read_tuning_logs

    files = list(_files_named(asked.files))
    request = _Import(**(vars(asked) | {"files": files}))
    reading = f"Reading {', '.join(request.names)}"
    with request.stages.stage(reading):
        timelines = read_timelines(request.files, limit=request.limit_bytes)
    if timelines is not None:
        _import_timelines(timelines, request)
        return ExitCode.COMPLETE
    with request.stages.stage(reading):
        reports = read_reports(request.files, limit=request.limit_bytes)
        source = read_source_pages(request.files) if reports is None else None
    if reports is not None:
        _import_launches(reports.launches, request, reports.kernels)
        return ExitCode.COMPLETE
    if source is not None:
        _import_source(source, request)
        return ExitCode.COMPLETE
    try:
        with request.stages.stage(reading):
            launches = read_imports(request.files, request.limit_bytes)
    except ParseError:
        configs = read_tuning_logs(request.files, request.limit_bytes)
        if configs is None:
            raise
        _import_tuning(configs, request)
    else:
        _import_launches(launches, request)
    return ExitCode.COMPLETE


def _files_named(paths: Sequence[Path]) -> Iterator[Path]:
    """Files, those of a folder that can be imported, and those of a pattern in quotes.

    Raises UsageError for a folder without such files.
    """
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if _can_be_imported(file))
            if not files:
                raise UsageError(
                    f"{path}: no file in this folder can be imported",
                    remedy=f"Those that can end in {', '.join(_ENDINGS)}, packed (.gz) or not.",
                )
            yield from files
        elif not path.exists() and glob.has_magic(str(path)):
            yield from sorted(map(Path, glob.glob(str(path)))) or [path]  # noqa: PTH207 - of text
        else:
            yield path


def _can_be_imported(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(_ENDINGS) and file.is_file()


def _import_launches(
    imported: Imported, request: _Import, kernels: Sequence[ListedKernel] = ()
) -> None:
    """Launches of ncu: table, warnings and page, or JSON; `kernels` with counted instructions."""
    from profiler.importers.ncu_files import import_document
    from profiler.importers.source_pages import kernels_document

    if request.json_target is not None:  # of 100,000 launches a document takes a gigabyte
        document = import_document(imported)
        if kernels:
            document["kernels"] = kernels_document(kernels)
        write_json_target(document, request.json_target)
    if request.only_json:
        return
    from profiler.render.console.tables import import_table
    from profiler.render.import_page import render_import_page, whole_on_page
    from profiler.render.source_page import source_tables
    from profiler.render.tables.launches import group_launches

    console = request.console()
    groups = group_launches(imported.launches)
    if request.json_target != "-":
        console.print(import_table(groups), *source_tables(kernels))
    _print_notices(imported.notices, request)
    table = None if whole_on_page(groups) else _table_target(request)
    with request.stages.stage("Writing the page"):
        csv = "" if table is None else table.name
        html = render_import_page(
            imported.launches, groups, imported.notices, request.names, kernels, csv=csv
        )
    _write_page(html, request, console)
    if table is not None:
        with request.stages.stage("Writing the table"):
            write_table(table, csv_parts(groups.table.join(groups.medians)))
        console.print(f"All {len(groups)} kinds: {table}", markup=False, soft_wrap=True)


def _import_source(imported: ImportedSource, request: _Import) -> None:
    """Source pages of ncu: tables, warnings and page, or JSON."""
    from profiler.importers.source_pages import source_document

    write_json_target(source_document(imported), request.json_target)
    if request.only_json:
        return
    from profiler.render.source_page import render_source_page, source_tables

    console = request.console()
    if request.json_target != "-":
        console.print(*source_tables(imported.kernels))
    _print_notices(imported.notices, request)
    html = render_source_page(imported.kernels, imported.notices, request.names)
    _write_page(html, request, console)


def _print_notices(notices: Sequence[Notice], request: _Import) -> None:
    console = make_console(request.color, stderr=True)
    for notice in notices:
        line = f"{text(notice)} {remedy(notice)}".strip()
        console.print(line, markup=False, soft_wrap=True)


def _import_timelines(imported: Sequence[ImportedTimeline], request: _Import) -> None:
    """Timelines of nsys or torch.profiler: tables and page, or JSON."""
    from profiler.importers.timelines import timelines_document, timelines_to_draw

    write_json_target(timelines_document(imported), request.json_target)
    if request.only_json:
        return
    from profiler.render.import_timeline import (
        render_timelines_page,
        timeline_part,
        timelines_console,
    )

    parts = [
        timeline_part(timeline.file, timeline.recorded_by, timeline.overview, timeline.unread)
        for timeline in imported
    ]
    console = request.console()
    if request.json_target != "-":
        console.print(timelines_console(parts))
    with request.stages.stage("Writing the page"):
        html = render_timelines_page(parts, timelines_to_draw(imported))
    _write_page(html, request, console)


def _import_tuning(configs: Sequence[TunedConfig], request: _Import) -> None:
    """Configurations that inductor's autotuner tried: tables and page, or JSON."""
    from profiler.importers.tuning_logs import tuning_document

    write_json_target(tuning_document(configs), request.json_target)
    if request.only_json:
        return
    from profiler.render.tuning_page import console_tables, render_tuning_page

    console = request.console()
    if request.json_target != "-":
        for table in console_tables(configs):
            console.print(table)
    _write_page(render_tuning_page(configs, request.names), request, console)


def _write_page(html: str, request: _Import, console: Console) -> None:
    target = _page_target(request)
    write_page(target, html)
    console.print(f"Page: {target}", markup=False, soft_wrap=True)


def _table_target(request: _Import) -> Path | None:
    """Where the table of all kinds of launches goes, beside the page; None where that is no file.

    Raises UsageError where something else stands there.
    """
    from profiler.render.tables.launches import COUNT, IDENTITY

    page = _page_target(request)
    if page.exists() and not page.is_file():
        return None
    table = page.with_suffix(_TABLE_ENDING)
    if os.path.lexists(table) and not is_table(table, (*IDENTITY, COUNT)):
        raise UsageError(
            f"{table}: already there, and no table of this program: it is not overwritten.",
            remedy="Name another file for the page with --out: the table goes beside it.",
        )
    return table


def _page_target(request: _Import) -> Path:
    """Where the page goes: by default the current folder, as the files' may be somebody else's.

    Raises UsageError where something stands there that is no page of this program.
    """
    if request.page is not None:
        return request.page
    target = Path(request.files[0].name.removesuffix(".gz")).with_suffix(".html")
    if os.path.lexists(target) and not is_own_page(target):
        raise UsageError(
            f"{target}: already there, and no page of this program: it is not overwritten.",
            remedy="Name another file for the page with --out.",
        )
    return target
