"""CSV of ncu: raw and details pages, source pages, and what it says where it has no table."""

from __future__ import annotations

import re

from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile
from profiler.importers.launches import ImportedLaunches
from profiler.importers.registry import Importer
from profiler.parse.ncu_csv import parse_ncu_csv, read_ncu_csv
from profiler.parse.ncu_lines import HEADER, OTHER_ORDER
from profiler.parse.ncu_source import is_source_page, read_source_page

_HEADER = re.compile(
    rf"^(?:{HEADER}|{OTHER_ORDER})|\"ID\",\"(?:Process ID|Kernel Name)\"", re.MULTILINE
)
_MESSAGE = re.compile(r"^==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)


def _read(file: GivenFile) -> ImportedLaunches:
    if file.is_wrapped:
        return ImportedLaunches.of(parse_ncu_csv(file.text, file.name), file.name)
    return ImportedLaunches.of(read_ncu_csv(file.path, limit=file.limit), file.name)


def _read_source(file: GivenFile) -> ImportedLaunches:
    page = read_source_page(file.text if file.is_wrapped else file.path)
    if not page.listings:
        raise ParseError(
            f"{file.name}: a source page without instructions",
            remedy="Print it with --print-source sass or cuda,sass.",
        )
    return ImportedLaunches.of_source(page, file.name)


IMPORTERS = (
    Importer(
        name="CSV of ncu",
        files="CSV that ncu wrote, any page ([what is understood](parse.md))",
        gives=ImportedLaunches,
        read=_read,
        is_in=lambda text: _HEADER.search(text) is not None,
    ),
    Importer(
        name="messages of ncu",
        files="messages of ncu without a table: the error says them",
        gives=None,
        read=_read,
        is_in=lambda text: _MESSAGE.search(text) is not None,
        among_others=True,
    ),
    Importer(
        name="a source page of ncu",
        files="CSV of `ncu --import FILE --csv --page source --print-source sass` or `cuda,sass`: "
        "of each launch the 20 lines with the most samples in which the warp could not issue, what "
        "it waited for, and executed warp instructions by class",
        gives=ImportedLaunches,
        read=_read_source,
        is_in=is_source_page,
    ),
)
