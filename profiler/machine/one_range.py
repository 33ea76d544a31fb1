"""Whether CUPTI counts on this machine, by counting one kernel: only that proves it."""

from __future__ import annotations

import sys
from pathlib import Path

from profiler.collect import Command, cupti
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_compiler
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import ran

_TRY = cupti.SOURCE.with_name("try_range.py")
_LIMIT_S = 120.0


def duration_by_cupti(python: str = sys.executable) -> float:
    """Duration of a small kernel in ns, by the library that counts in the runner.

    It is built in a folder that goes again. Raises EnvironmentUnusable where it cannot be built,
    and where CUPTI or the driver refuses.
    """
    with temporary_folder() as folder:
        library = built_library(folder)
        said = _stdout(python, "-P", str(_TRY), str(library))
    try:
        return float(said)
    except ValueError as error:
        raise EnvironmentUnusable(said.strip(), remedy=cupti.WITHOUT_CUPTI) from error


def built_library(folder: Path) -> Path:
    """The library that counts in the runner, built in a folder.

    Raises EnvironmentUnusable where it cannot be built.
    """
    library = folder / "range_profiler.so"
    nvcc = find_compiler().path
    flags = ("-shared", "-Xcompiler", "-fPIC", *cupti.header_flags(nvcc))
    _stdout(str(nvcc), *flags, "-o", str(library), str(cupti.SOURCE))
    return library


def _stdout(*argv: str) -> str:
    """Stdout of a command; raises EnvironmentUnusable where it fails, with what it said last."""
    end = ran(Command(argv), _LIMIT_S)
    if end.code == 0:
        return end.stdout
    lines = end.stderr.strip().splitlines()
    said = lines[-1] if lines else f"exit code {end.code}"
    raise cupti.refusal(end.stderr) or EnvironmentUnusable(said, remedy=cupti.WITHOUT_CUPTI)
