"""SQLite exports of Nsight Systems."""

from __future__ import annotations

from profiler.importers.given_file import SQLITE, GivenFile
from profiler.importers.importer import Importer
from profiler.importers.timelines import ImportedTimelines, imported_timeline
from profiler.parse.nsys import read_nsys

_OF_OTHERS = ("StringTable", "rocpd_")
"""Tables of nvprof and of rocprofv3."""


def _is_in(text: str) -> bool:
    is_database = text.startswith(SQLITE)
    return is_database and not any(table in text for table in _OF_OTHERS)


def _read(file: GivenFile) -> ImportedTimelines:
    with file.unpacked() as export:
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_others=True))


IMPORTER = Importer(
    name="a timeline of nsys",
    files="SQLite exports of Nsight Systems (`nsys export --type sqlite`)",
    gives=ImportedTimelines,
    read=_read,
    is_in=_is_in,
    # Whoever gives a file of that name wants to hear what is wrong with it as an export.
    endings=(".sqlite",),
)
