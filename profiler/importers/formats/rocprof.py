"""Tables and databases of rocprof, rocprofv2 and rocprofv3, which are not read."""

from __future__ import annotations

import re

from profiler.importers.given_file import SQLITE
from profiler.importers.importer import not_read

_TABLE = re.compile(
    r"^\"?(?:Index|Name|Kind|Domain|Correlation_Id|Dispatch_ID|Node_Id)\"?,.*"
    r"(?:KernelName|gpu-id|Agent_Id|TotalDurationNs|Start_Timestamp|GPU_ID|Counter_Name"
    r"|Logical_Node_Id)",
    re.MULTILINE,
)


def _is_in(text: str) -> bool:
    if text.startswith(SQLITE):
        return "rocpd_" in text
    return _TABLE.search(text) is not None or '"rocprofiler-sdk-tool"' in text


IMPORTER = not_read(
    "output of rocprof",
    _is_in,
    "Record the program with torch.profiler, if it uses torch: Chrome traces of AMD's GPUs are "
    "read.",
)
