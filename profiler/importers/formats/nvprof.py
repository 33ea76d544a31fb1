"""Output and databases of nvprof, which are not read."""

from __future__ import annotations

import re

from profiler.importers.given_file import SQLITE
from profiler.importers.importer import not_read

_OUTPUT = re.compile(
    r"==\d+== (?:NVPROF is profiling|Profiling result|Profiling application)"
    r"|^\"?Type\"?,\"?Time ?\(%\)|^\"?Start\"?,\"?Duration\"?,\"?Grid X"
    r"|^[ \t]*Type +Time\(%\) +Time +Calls|^[ \t]*Start +Duration +Grid Size"
    r"|^\"?Device\"?,\"?Kernel\"?,\"?Invocations",
    re.MULTILINE,
)


def _is_in(text: str) -> bool:
    if text.startswith(SQLITE):
        return "StringTable" in text and "CUPTI_ACTIVITY_KIND" in text
    return _OUTPUT.search(text) is not None


IMPORTER = not_read(
    "output of nvprof",
    _is_in,
    "Measure with ncu or nsys, which have taken its place; `import` reads their files.",
)
