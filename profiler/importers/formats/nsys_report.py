"""Reports of Nsight Systems, which only nsys itself can read: it exports them.

A report holds the whole environment of the profiled process. It is exported in a private temporary
folder, and only what `profiler.parse.nsys` takes out of the export is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profiler.collect.nsys import convert_command, convert_failed, find_nsys
from profiler.errors import EnvironmentUnusable
from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.timelines import ImportedTimelines, imported_timeline
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import printed
from profiler.parse.nsys import read_nsys

_TIMEOUT_S = 1800.0


def _read(file: GivenFile) -> ImportedTimelines:
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


IMPORTER = Importer(
    name="a report of nsys",
    files="reports of Nsight Systems (`.nsys-rep`, `.qdrep`), where nsys is installed "
    "(`PROFILER_NSYS`, PATH, NVIDIA's folders, inside Nsight Compute)",
    gives=ImportedTimelines,
    read=_read,
    endings=(".nsys-rep", ".qdrep"),
)
