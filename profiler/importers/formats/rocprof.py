"""Tables of rocprof, which are not read."""

from __future__ import annotations

import re

from profiler.importers.importer import not_read

_TABLE = re.compile(
    r"^\"?(?:Index|Name|Kind)\"?,.*\"?(?:KernelName|gpu-id|Agent_Id|TotalDurationNs)",
    re.MULTILINE,
)

IMPORTER = not_read(
    "a table of rocprof",
    lambda text: _TABLE.search(text) is not None,
    "Kernels of AMD's GPUs are not what this project measures.",
)
