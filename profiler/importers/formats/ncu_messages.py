"""What ncu says where it has no table: the error has its words."""

from __future__ import annotations

import re

from profiler.importers.formats import ncu_csv
from profiler.importers.importer import Importer

_MESSAGE = re.compile(r"^==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)


def _is_in(text: str) -> bool:
    return _MESSAGE.search(text) is not None


IMPORTER = Importer(
    name="messages of ncu",
    files="messages of ncu without a table: the error says them",
    gives=None,
    read=ncu_csv.IMPORTER.read,
    is_in=_is_in,
    among_others=True,
)
