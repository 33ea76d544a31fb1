"""Summaries of ncu (`--print-summary`), which have no launches."""

from __future__ import annotations

import re

from profiler.importers.importer import not_read

_SUMMARY = re.compile(
    r", Invocations \d+\s*$|^\"(?:Process ID|Kernel Name)\",.*\"Invocations\",.*\"Minimum\"",
    re.MULTILINE,
)

IMPORTER = not_read(
    "a summary of ncu",
    lambda text: _SUMMARY.search(text) is not None,
    "Print the launches: leave out --print-summary.",
)
