"""Tables of `nsys stats`."""

from __future__ import annotations

import re

from profiler.importers.importer import not_read

_TABLE = re.compile(
    r"^\"?(?:Time ?\(%\)\"?,\"?Total (?:Time|\()|Start \(ns\)\"?,\"?Duration)"
    r"|^Processing \[.*\.sqlite\] with \[|^ \*\* .* \(\w+(?:_sum|_trace|sum|trace)\):",
    re.MULTILINE,
)

IMPORTER = not_read(
    "a table of `nsys stats`",
    lambda text: _TABLE.search(text) is not None,
    "Give the report itself (.nsys-rep), or its export (nsys export --type sqlite): they have "
    "each launch.",
)
