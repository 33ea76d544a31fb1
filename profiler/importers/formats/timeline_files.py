"""Chrome traces of torch.profiler, exports and reports of Nsight Systems.

A report holds the whole environment of the profiled process. nsys itself exports it in a private
temporary folder, and only what `profiler.parse.nsys` takes out of the export is kept. Of traces,
paths and names of the machine are not taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from profiler.collect.nsys import convert_command, convert_failed, find_nsys
from profiler.errors import EnvironmentUnusable
from profiler.importers.given_file import SQLITE, GivenFile
from profiler.importers.registry import Importer
from profiler.importers.timelines import ImportedTimelines, imported_timeline
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import printed
from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys import read_nsys

# ---- traces --------------------------------------------------------------------------------------


_PHASE = re.compile(r'"ph"\s*:')


def _is_trace(text: str) -> bool:
    """Whether it is an object with events, or the list of them alone."""
    beginning = text.lstrip()
    if beginning.startswith("["):
        return _PHASE.search(text) is not None
    return beginning.startswith("{") and '"traceEvents"' in text


def _read_trace(file: GivenFile) -> ImportedTimelines:
    recorded = read_traces([file.path], file.limit)
    return imported_timeline(file, "torch.profiler", "torch", recorded)


_TRACE = Importer(
    name="a trace of torch.profiler",
    files="Chrome traces of torch.profiler (`export_chrome_trace`)",
    gives=ImportedTimelines,
    read=_read_trace,
    is_in=_is_trace,
)


# ---- exports of nsys -----------------------------------------------------------------------------


_OF_OTHERS = ("StringTable", "rocpd_")
"""Tables of nvprof and of rocprofv3."""


def _is_export(text: str) -> bool:
    is_database = text.startswith(SQLITE)
    return is_database and not any(table in text for table in _OF_OTHERS)


def _read_export(file: GivenFile) -> ImportedTimelines:
    with file.unpacked() as export:
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_others=True))


_EXPORT = Importer(
    name="a timeline of nsys",
    files="SQLite exports of Nsight Systems (`nsys export --type sqlite`)",
    gives=ImportedTimelines,
    read=_read_export,
    is_in=_is_export,
    # Whoever gives a file of that name wants to hear what is wrong with it as an export.
    endings=(".sqlite",),
)


# ---- reports of nsys -----------------------------------------------------------------------------


_TIMEOUT_S = 1800.0


def _read_report(file: GivenFile) -> ImportedTimelines:
    with file.unpacked() as report, temporary_folder() as folder:
        export = _exported(report, folder, file.environ)
        return imported_timeline(file, "nsys", "nsys", read_nsys(export, of_others=True))


def _exported(report: Path, folder: Path, environ: Mapping[str, str] | None) -> Path:
    """SQLite export of a report, in that folder."""
    try:
        nsys = find_nsys(environ)
    except EnvironmentUnusable as error:
        raise EnvironmentUnusable(
            f"{report.name} is a report, which only nsys can read: {error.message}",
            remedy=f"{error.remedy} Or export it where nsys is (nsys export --type sqlite "
            f"{report.name}), and import that.",
        ) from error
    export = folder / "export.sqlite"
    output = printed(convert_command(nsys, report, export), _TIMEOUT_S)
    failed = convert_failed(export, report.name, output)
    if failed is not None:
        raise failed
    return export


_REPORT = Importer(
    name="a report of nsys",
    files="reports of Nsight Systems (`.nsys-rep`, `.qdrep`), where nsys is installed "
    "(`PROFILER_NSYS`, PATH, NVIDIA's folders, inside Nsight Compute)",
    gives=ImportedTimelines,
    read=_read_report,
    endings=(".nsys-rep", ".qdrep"),
)

IMPORTERS = (_TRACE, _EXPORT, _REPORT)
