"""What the autotuners of inductor and of Triton print, and the caches of the first."""

from __future__ import annotations

from collections import Counter

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer, unread_notices
from profiler.importers.tunings import ImportedTunings
from profiler.parse.inductor import is_inductor_log, parse_inductor_log


def _read(file: GivenFile) -> ImportedTunings:
    unread: Counter[str] = Counter()
    configurations = parse_inductor_log(file.text, file.name, unread)
    return ImportedTunings(configurations, unread_notices(file.name, unread))


IMPORTER = Importer(
    name="a log or a cache of an autotuner",
    files="logs and caches of inductor's autotuner ([fusion.md](fusion.md)), whatever a notebook, "
    "a rank or a server puts before their lines; what Triton prints with "
    "`TRITON_PRINT_AUTOTUNING=1` (what it tried and chose, without times)",
    gives=ImportedTunings,
    read=_read,
    is_in=is_inductor_log,
    among_others=True,
)
