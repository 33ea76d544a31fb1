"""CSV of ncu, raw or details page, and what ncu says where it has no table."""

from __future__ import annotations

import re

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.launches import ImportedLaunches
from profiler.parse.ncu_csv import parse_ncu_csv, read_ncu_csv
from profiler.parse.ncu_lines import HEADER, OTHER_ORDER

_HEADER = re.compile(
    rf"^(?:{HEADER}|{OTHER_ORDER})|\"ID\",\"(?:Process ID|Kernel Name)\"", re.MULTILINE
)
_MESSAGE = re.compile(r"^==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)


def _read(file: GivenFile) -> ImportedLaunches:
    if file.is_wrapped:
        return ImportedLaunches.of(parse_ncu_csv(file.text, file.name), file.name)
    return ImportedLaunches.of(read_ncu_csv(file.path, limit=file.limit), file.name)


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
)
