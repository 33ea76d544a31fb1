"""Whether CUPTI counts on this machine, by counting one kernel: only that proves it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from profiler.collect import cupti
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_compiler

_TRY = cupti.SOURCE.with_name("try_range.py")
_LIMIT_S = 120.0


def duration_by_cupti(python: str = sys.executable) -> float:
    """Duration of a small kernel in ns, by the library that counts in the runner.

    It is built in a folder that goes again. Raises EnvironmentUnusable where it cannot be built,
    and where CUPTI or the driver refuses.
    """
    with tempfile.TemporaryDirectory(prefix="profiler.") as folder:
        library = Path(folder) / "range_profiler.so"
        nvcc = find_compiler().path
        headers = [word for path in cupti.header_folders(nvcc) for word in ("-I", str(path))]
        into = ("-o", str(library), str(cupti.SOURCE))
        _output([str(nvcc), "-shared", "-Xcompiler", "-fPIC", *headers, *into])
        said = _output([python, "-P", str(_TRY), str(library)])
    try:
        return float(said)
    except ValueError as error:
        raise EnvironmentUnusable(said.strip(), remedy=cupti.WITHOUT_CUPTI) from error


def _output(command: list[str]) -> str:
    """What a command printed; EnvironmentUnusable where it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnusable(str(error), remedy=cupti.WITHOUT_CUPTI) from error
    if done.returncode == 0:
        return done.stdout
    known = cupti.refusal(done.stderr)
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else f"exit code {done.returncode}"
    raise known or EnvironmentUnusable(said, remedy=cupti.WITHOUT_CUPTI)
