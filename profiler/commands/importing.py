"""`profiler import`: tables and a page of files that the user already has."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import (
    Stages,
    csv_parts,
    default_page,
    is_table,
    warn,
    write_json_target,
    write_page,
    write_table,
)
from profiler.commands.requests import ImportRequest
from profiler.errors import ExitCode, UsageError
from profiler.findings.why.pairs import PairWhy, files_document, files_why
from profiler.importers.given_file import Imported, notices_document
from profiler.importers.launches import ImportedLaunches
from profiler.importers.registry import files_in, read_files
from profiler.importers.timelines import ImportedTimelines, timelines_to_draw
from profiler.importers.tunings import ImportedTunings
from profiler.machine.console import make_console
from profiler.notices import Notice, NoticeKind, counted_kind, remedy, text
from profiler.outside_text import safe

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.render.imported import ImportedPage


_TABLE_ENDING = ".kinds.csv"
_NAMED = 5
"""Files of a folder that are not read, by name."""


def _names(request: ImportRequest) -> list[str]:
    """Names of the files, without their folders."""
    return [safe(file.name) for file in request.files]


def _console(request: ImportRequest) -> Console:
    """Console for messages about the files: stderr where stdout is for JSON."""
    return make_console(request.color, stderr=request.json_target == "-")


def import_files(unexpanded: ImportRequest) -> ExitCode:
    """Read files of any format of `profiler.importers`; write tables and a page, or JSON."""
    files, passed_over = _files_named(unexpanded.files)
    request, stages = replace(unexpanded, files=files), Stages(unexpanded.color)
    with stages.stage(f"Reading {', '.join(_names(request))}"):
        if request.compare:
            imported, notices, pair = _compared_launches(request)
        else:
            imported, notices = read_files(files, request.limit_bytes)
            pair = None
    if request.json_target is not None:
        document = imported.document()  # made while it is written
        warnings = notices_document((*passed_over, *notices))
        document["warnings"] = [*document.get("warnings", ()), *warnings]
        if pair is not None:
            document["comparison"] = files_document(pair)
        write_json_target(document, request.json_target)
    if request.only_json:
        return ExitCode.COMPLETE
    _print_notices((*passed_over, *notices), request)
    if isinstance(imported, ImportedLaunches):
        _show_launches(imported, request, stages, pair)
    else:
        page = _other_page(imported)
        _print(page, request, imported.notices)
        with stages.stage("Writing the page"):
            _write_page(page, request, imported.notices)
    return ExitCode.COMPLETE


def _files_named(paths: Sequence[Path]) -> tuple[list[Path], list[Notice]]:
    """Files to import of paths, folders and quoted patterns, and notices on unreadable files.

    Raises UsageError for a folder without a file that can be imported.
    """
    files: list[Path] = []
    notices: list[Notice] = []
    for path in paths:
        if path.is_dir():
            importable, unread_notices = _files_of(path)
            files += importable
            notices += unread_notices
        elif not path.exists() and glob.has_magic(str(path)):
            files += sorted(map(Path, glob.glob(str(path)))) or [path]  # noqa: PTH207 - of text
        else:
            files.append(path)
    distinct: dict[str, Path] = {}  # one that a folder and its own name stand for is counted once
    for file in files:
        distinct.setdefault(os.path.realpath(file), file)
    return list(distinct.values()), notices


def _files_of(folder: Path) -> tuple[list[Path], list[Notice]]:
    files = list(files_in(folder))
    importable = [path for path, is_known in files if is_known]
    if not importable:
        raise UsageError(
            f"{folder}: no file in this folder can be imported",
            remedy="docs/import.md lists those that can.",
        )
    unread_names = [path.name for path, is_known in files if not is_known]
    first_names = ", ".join(unread_names[:_NAMED]) + (", …" if len(unread_names) > _NAMED else "")
    count = counted_kind(len(unread_names), "file of no format that is read")
    unread_text = f"{count} ({first_names})"
    notice = Notice(
        NoticeKind.IMPORT_NOT_READ, {"file": folder.name or str(folder), "what": unread_text}
    )
    return importable, [notice] if unread_names else []


def _compared_launches(request: ImportRequest) -> tuple[Imported, tuple[Notice, ...], PairWhy]:
    """Launches of two files, notices on them, and the account of their difference.

    Raises UsageError where the files are not two with launches of ncu.
    """
    files_read = [read_files([file], request.limit_bytes) for file in request.files]
    launch_files = [
        launch_file
        for launch_file, _ in files_read
        if isinstance(launch_file, ImportedLaunches) and len(launch_file.launches)
    ]
    if len(files_read) != 2 or len(launch_files) != 2:
        count = len(launch_files if len(files_read) == 2 else files_read)
        raise UsageError(
            f"--compare takes two different files with launches of ncu, not {count}.",
            remedy="Runs are compared by `profiler compare`.",
        )
    names = _names(request)
    if names[0] == names[1]:
        names = [safe(f"{file.resolve().parent.name}/{file.name}") for file in request.files]
    pair = files_why(names, [launch_file.launches for launch_file in launch_files])
    notices = tuple(notice for _, of_file in files_read for notice in of_file)
    return ImportedLaunches.joined(launch_files), notices, pair


def _show_launches(
    imported: ImportedLaunches, request: ImportRequest, stages: Stages, pair: PairWhy | None
) -> None:
    from profiler.render.console.explain import COLUMNS, files_text
    from profiler.render.imported_launches import group_launches, launches_page

    groups = group_launches(imported.launches)
    page = launches_page(imported.launches, groups, imported.kernels)
    console = _console(request)
    account = "" if pair is None else files_text(pair, min(COLUMNS, console.width))
    _print(page, request, imported.notices, account)
    table = None if groups.whole_on_page else _table_target(request)
    csv = "" if table is None else table.name
    with stages.stage("Writing the page"):
        account_text = "" if pair is None else files_text(pair)
        _write_page(page, request, imported.notices, account_text, csv)
    if table is not None:
        with stages.stage("Writing the table"):
            write_table(table, csv_parts(groups.table))
        text = f"All {len(groups)} kinds: {table}"
        console.print(text)


def _other_page(imported: Imported) -> ImportedPage:
    """Page content of files without launches of ncu."""
    from profiler.render.imported import timeline_section, timelines_page, tunings_page

    match imported:
        case ImportedTimelines():
            sections = [
                timeline_section(
                    timeline.file, timeline.recorded_by, timeline.overview, timeline.unread
                )
                for timeline in imported.timelines
            ]
            return timelines_page(sections, timelines_to_draw(imported.timelines))
        case ImportedTunings():
            return tunings_page(imported.configurations)
    raise TypeError(imported)


def _print(
    page: ImportedPage, request: ImportRequest, notices: Sequence[Notice], account: str = ""
) -> None:
    """Print tables, unless stdout is for JSON; `account`: text on the difference of two files."""
    from profiler.render.imported import imported_text

    if request.json_target != "-":
        console = _console(request)
        console.print(imported_text(page))
        if account:
            console.print(account)
    _print_notices(notices, request)


def _print_notices(notices: Sequence[Notice], request: ImportRequest) -> None:
    for notice in notices:
        warn(f"{text(notice)} {remedy(notice)}".strip(), request.color)


def _write_page(
    page: ImportedPage,
    request: ImportRequest,
    notices: Sequence[Notice],
    account: str = "",
    csv: str = "",
) -> None:
    from profiler.render.imported import render_imported

    html = render_imported(page, _names(request), notices, account=account, csv=csv)
    target = _page_target(request)
    write_page(target, html, request.files)
    _console(request).print(f"Page: {target}")


def _table_target(request: ImportRequest) -> Path | None:
    """Path of the table of all kinds of launches, beside the page; None where that is no file.

    Raises UsageError where something else stands there.
    """
    from profiler.render.imported_launches import COUNT, IDENTITY

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


def _page_target(request: ImportRequest) -> Path:
    """Path of the page: by default in the current folder, as the files' may be somebody else's.

    Raises as `default_page`.
    """
    if request.page is not None:
        return request.page
    name = request.files[0].name
    page = Path(name.removesuffix(".gz") or name).with_suffix(".html")
    return default_page(page, request.files)
