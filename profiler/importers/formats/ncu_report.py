"""Reports of ncu: it prints their pages; else NVIDIA's module `ncu_report` has what is in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.collect.ncu import LAUNCHES, SASS, SOURCE, find_ncu, report_pages
from profiler.errors import EnvironmentUnusable, ParseError, naming
from profiler.importers.given_file import GivenFile
from profiler.importers.launches import ImportedLaunches, listed_kernels
from profiler.importers.ncu_report_module import read_report, report_module
from profiler.importers.registry import Importer
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import Ran, ran_together
from profiler.notices import Notice
from profiler.parse.ncu_csv import parse_ncu_csv, read_ncu_csv
from profiler.parse.ncu_source import EXECUTED, Listing, join_lines, read_source_page

_PAGE_TIMEOUT_S = 600.0


def _read(file: GivenFile) -> ImportedLaunches:
    try:
        ncu = find_ncu(file.environ)
    except EnvironmentUnusable as error:
        if (module := report_module()) is not None:
            return _by_module(module, file)
        raise _no_ncu(file, error) from error
    with file.unpacked() as report, temporary_folder() as folder:
        commands = report_pages(ncu, report)
        # Side by side: ncu reads the whole report for each.
        names = (LAUNCHES, SASS, SOURCE)
        ends = ran_together([commands[name] for name in names], _PAGE_TIMEOUT_S)
        pages = {
            name: _written(end, folder / f"{file.path.name}.{name}")
            for name, end in zip(names, ends, strict=True)
        }
        table = read_ncu_csv(pages[LAUNCHES])
        listings, notices = _listings(pages[SASS], pages[SOURCE], table.launches)
    read = ImportedLaunches.of(table, file.name)
    kernels = listed_kernels(file.name, listings)
    return replace(read, kernels=kernels, notices=(*read.notices, *notices))


def _by_module(module: Any, file: GivenFile) -> ImportedLaunches:
    with file.unpacked() as report:
        page, listings = read_report(module, report, file.name)
    read = ImportedLaunches.of(parse_ncu_csv(page, file.name), file.name)
    return replace(read, kernels=listed_kernels(file.name, listings))


def _no_ncu(file: GivenFile, error: EnvironmentUnusable) -> EnvironmentUnusable:
    name = file.plain_name
    return EnvironmentUnusable(
        f"{file.name} is a report, which only ncu can read: {error.message}",
        remedy=f"{error.remedy} Or install NVIDIA's module for reports (pip install ncu-report). "
        "Or print its pages where ncu is, and import those: "
        f"ncu --import {name} --csv --page raw --print-units base > launches.csv; "
        f"ncu --import {name} --csv --page source --print-source sass > source.csv",
    )


def _written(end: Ran | EnvironmentUnusable, page: Path) -> Path:
    """File with a page of a report, or with what ncu says of it; raises what kept ncu from it."""
    if isinstance(end, EnvironmentUnusable):
        raise end
    with naming(page):
        page.write_text(end.printed, encoding="utf-8")
    return page


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


IMPORTER = Importer(
    name="a report of ncu",
    files="`.ncu-rep` and `.ncu-repz`, where ncu is installed (`PROFILER_NCU`, PATH, NVIDIA's "
    "folders), or else its Python module `ncu_report` can be imported; also what a source page "
    "shows, of launches whose instructions were counted (section `SourceCounters`)",
    gives=ImportedLaunches,
    read=_read,
    endings=(".ncu-rep", ".ncu-repz"),
)
