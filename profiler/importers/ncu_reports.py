"""`profiler import` of reports of ncu, which only ncu itself can read: it prints their pages."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from profiler.analyse.safe_frames import safe_frames
from profiler.collect.ncu import LAUNCHES, SASS, SOURCE, find_ncu, report_pages
from profiler.errors import EnvironmentUnusable, ParseError, UsageError, naming
from profiler.findings.why.hot_lines import ListedKernel
from profiler.importers.ncu_files import Imported, launches_as_written
from profiler.importers.source_pages import listed_kernels
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import Ran, ran_together
from profiler.notices import Notice
from profiler.parse.bounded_files import unpack
from profiler.parse.ncu_source import EXECUTED, Listing, join_lines, read_source_page

_NAMES = (".ncu-rep", ".ncu-repz")
_PAGE_TIMEOUT_S = 600.0


@dataclass(frozen=True, eq=False)
class ImportedReports:
    """Launches of one or several reports, and where their warps could not issue."""

    launches: Imported
    kernels: tuple[ListedKernel, ...]
    """Empty where no report has counters of instructions (section SourceCounters)."""


def read_reports(
    files: Sequence[Path],
    environ: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> ImportedReports | None:
    """Launches of reports, packed by gzip or not; None where no file is one.

    `limit`: most bytes that a packed file may hold, by default bounded_files.MAX_UNPACKED_BYTES.

    Raises UsageError where only some are, ParseError where one cannot be read, and
    EnvironmentUnusable where ncu is not installed.
    """
    reports = [file for file in files if file.name.removesuffix(".gz").endswith(_NAMES)]
    if not reports:
        return None
    if len(reports) < len(files):
        other = next(file for file in files if file not in reports)
        raise UsageError(
            f"{reports[0].name} is a report of ncu, and {other.name} is none.",
            remedy="Import reports and files of other kinds one kind at a time.",
        )
    for report in reports:
        _require(report)
    ncu = _ncu(reports[0], environ)
    parts = [_read(ncu, report, limit) for report in reports]
    launches = [part.launches for part in parts]
    imported = ImportedReports(
        launches=Imported(
            launches=pd.concat([part.launches for part in launches], ignore_index=True),
            metrics=tuple(dict.fromkeys(name for part in launches for name in part.metrics)),
            notices=tuple(notice for part in launches for notice in part.notices),
        ),
        kernels=tuple(kernel for part in parts for kernel in part.kernels),
    )
    return safe_frames(imported)


def _require(report: Path) -> None:
    if not report.is_file():
        raise ParseError(f"{report.name}: no such file.")


def _ncu(report: Path, environ: Mapping[str, str] | None) -> Path:
    try:
        return find_ncu(environ)
    except EnvironmentUnusable as error:
        name = report.name.removesuffix(".gz")
        raise EnvironmentUnusable(
            f"{report.name} is a report, which only ncu can read: {error.message}",
            remedy=f"{error.remedy} Or print its pages where ncu is, and import those: "
            f"ncu --import {name} --csv --page raw --print-units base > launches.csv; "
            f"ncu --import {name} --csv --page source --print-source sass > source.csv",
        ) from error


def _read(ncu: Path, report: Path, limit: int | None) -> ImportedReports:
    with temporary_folder() as folder:
        commands = report_pages(ncu, _unpacked(report, folder, limit))
        # Side by side: ncu reads the whole report for each.
        names = (LAUNCHES, SASS, SOURCE)
        ends = ran_together([commands[name] for name in names], _PAGE_TIMEOUT_S)
        pages = {
            name: _written(end, folder / f"{report.name}.{name}")
            for name, end in zip(names, ends, strict=True)
        }
        launches = launches_as_written([pages[LAUNCHES]])
        listings, notices = _listings(pages[SASS], pages[SOURCE], launches.launches)
    return ImportedReports(
        Imported(launches.launches, launches.metrics, (*launches.notices, *notices)),
        listed_kernels(report.name, listings),
    )


def _written(end: Ran | EnvironmentUnusable, page: Path) -> Path:
    """File with a page of a report, or with what ncu says of it; raises what kept ncu from it."""
    if isinstance(end, EnvironmentUnusable):
        raise end
    with naming(page):
        page.write_text(end.printed, encoding="utf-8")
    return page


def _unpacked(report: Path, folder: Path, limit: int | None) -> Path:
    """The report itself, or a copy in the folder of what was packed in it."""
    if not report.name.endswith(".gz"):
        return report.resolve()
    plain = folder / report.name.removesuffix(".gz")
    try:
        unpack(report, plain, limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ParseError(f"{report.name}: cannot be unpacked: {error}.") from error
    return plain


def _listings(
    sass: Path, source: Path, launches: pd.DataFrame
) -> tuple[tuple[Listing, ...], tuple[Notice, ...]]:
    """Listings with their source lines; none where the report has no counters of instructions."""
    kernels = [str(kernel) for kernel in launches["kernel"]]
    try:
        page, lined = read_source_page(sass, kernels), read_source_page(source)
    except ParseError:
        return (), ()
    counted = [listing for listing in page.listings if listing.instructions[EXECUTED].sum() > 0]
    return join_lines(counted, lined.listings), (*page.notices, *lined.notices)
