"""Output of nvprof, which is not read."""

from __future__ import annotations

import re

from profiler.importers.importer import not_read

_OUTPUT = re.compile(
    r"==\d+== NVPROF is profiling|^\"?Type\"?,\"?Time ?\(%\)|^\"?Start\"?,\"?Duration\"?,"
    r"\"?Grid X",
    re.MULTILINE,
)

IMPORTER = not_read(
    "output of nvprof",
    lambda text: _OUTPUT.search(text) is not None,
    "Measure with ncu or nsys, which have taken its place; `import` reads their files.",
)
