"""Formats that are named for what they are, and not read."""

from __future__ import annotations

import re

from profiler.importers.given_file import SQLITE
from profiler.importers.registry import not_read

_NCU_SUMMARY = re.compile(
    r", Invocations \d+\s*$|^\"(?:Process ID|Kernel Name)\",.*\"Invocations\",.*\"Minimum\"",
    re.MULTILINE,
)
_NVPROF = re.compile(
    r"==\d+== (?:NVPROF is profiling|Profiling result|Profiling application)"
    r"|^\"?Type\"?,\"?Time ?\(%\)|^\"?Start\"?,\"?Duration\"?,\"?Grid X"
    r"|^[ \t]*Type +Time\(%\) +Time +Calls|^[ \t]*Start +Duration +Grid Size"
    r"|^\"?Device\"?,\"?Kernel\"?,\"?Invocations",
    re.MULTILINE,
)
_ROCPROF = re.compile(
    r"^\"?(?:Index|Name|Kind|Domain|Correlation_Id|Dispatch_ID|Node_Id)\"?,.*"
    r"(?:KernelName|gpu-id|Agent_Id|TotalDurationNs|Start_Timestamp|GPU_ID|Counter_Name"
    r"|Logical_Node_Id)",
    re.MULTILINE,
)
_T1 = re.compile(r'^\s*\{(?=.*"ConfigurationSpace"\s*:)(?=.*"TuningParameters"\s*:)', re.DOTALL)


def _is_of_nvprof(text: str) -> bool:
    if text.startswith(SQLITE):
        return "StringTable" in text and "CUPTI_ACTIVITY_KIND" in text
    return _NVPROF.search(text) is not None


def _is_of_rocprof(text: str) -> bool:
    if text.startswith(SQLITE):
        return "rocpd_" in text
    return _ROCPROF.search(text) is not None or '"rocprofiler-sdk-tool"' in text


IMPORTERS = (
    not_read(
        "a summary of ncu",
        lambda text: _NCU_SUMMARY.search(text) is not None,
        "Print the launches: leave out --print-summary.",
    ),
    not_read(
        "output of nvprof",
        _is_of_nvprof,
        "Measure with ncu or nsys, which have taken its place; `import` reads their files.",
    ),
    not_read(
        "output of rocprof",
        _is_of_rocprof,
        "Record the program with torch.profiler, if it uses torch: Chrome traces of AMD's GPUs are "
        "read.",
    ),
    not_read(
        "a space to search in the format T1",
        lambda text: _T1.match(text) is not None,
        "Search it: `simulate` and `search.space` of an experiment take it (docs/search.md); its "
        "results, in the format T4, are imported.",
    ),
)
