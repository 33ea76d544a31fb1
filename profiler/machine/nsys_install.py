"""Whether the nsys that was found works: its version, and the importer that makes its reports."""

from __future__ import annotations

from pathlib import Path

from profiler.collect.nsys import Nsys, missing_library, read_version, version_command
from profiler.errors import EnvironmentUnusable
from profiler.machine.tool_output import printed, ran

_CANNOT_START = (126, 127)
"""Exit codes of a program that could not be loaded."""


def nsys_version(path: Path) -> str:
    """Version of an nsys; raises EnvironmentUnusable where it cannot be run or does not say."""
    return read_version(printed(version_command(path)))


def importer_fault(nsys: Nsys) -> EnvironmentUnusable | None:
    """Error of an nsys whose importer cannot start, most often for a missing library; else None.

    None where it starts, whatever it answers (that of another release may not know the question),
    and where it is not found: behind a script of a CUDA toolkit it may lie elsewhere.
    """
    command = nsys.importer_command()
    if command is None:
        return None
    try:
        end = ran(command)
    except EnvironmentUnusable as error:
        return error
    missing = missing_library(end.printed)
    if missing is not None or end.code not in _CANNOT_START:
        return missing
    return EnvironmentUnusable(
        f"its importer does not start: {end.printed.strip()[:300]}",
        remedy="Install Nsight Systems again, or set PROFILER_NSYS to one that works.",
    )
