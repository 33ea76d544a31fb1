"""Chrome traces of torch.profiler, of which paths and names of the machine are not taken."""

from __future__ import annotations

import re

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.timelines import ImportedTimelines, imported_timeline
from profiler.parse.chrome_trace import read_traces

_PHASE = re.compile(r'"ph"\s*:')


def _is_in(text: str) -> bool:
    """Whether it is an object with events, or the list of them alone."""
    beginning = text.lstrip()
    if beginning.startswith("["):
        return _PHASE.search(text) is not None
    return beginning.startswith("{") and '"traceEvents"' in text


def _read(file: GivenFile) -> ImportedTimelines:
    recorded = read_traces([file.path], file.limit)
    return imported_timeline(file, "torch.profiler", "torch", recorded)


IMPORTER = Importer(
    name="a trace of torch.profiler",
    files="Chrome traces of torch.profiler (`export_chrome_trace`)",
    gives=ImportedTimelines,
    read=_read,
    is_in=_is_in,
)
