"""What ncu says where it has no table: the error has its words."""

from __future__ import annotations

import re

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.launches import ImportedLaunches
from profiler.parse.ncu_csv import read_ncu_csv

_MESSAGE = re.compile(r"^==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)


def _is_in(text: str) -> bool:
    return _MESSAGE.search(text) is not None


def _read(file: GivenFile) -> ImportedLaunches:
    return ImportedLaunches.of(read_ncu_csv(file.path, limit=file.limit))


IMPORTER = Importer(
    name="messages of ncu",
    files="messages of ncu without a table: the error says them",
    gives=None,
    read=_read,
    is_in=_is_in,
    among_others=True,
)
