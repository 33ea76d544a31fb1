"""External commands as workloads: finding the program that a command line names."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from profiler.errors import SpecError, nearest_file


def find_program(argv: Sequence[str], folder: Path) -> Path:
    """Where the program of a command line is: on PATH, or relative to `folder`."""
    name = argv[0]
    candidate = str(folder / name) if "/" in name else name
    path = shutil.which(candidate)
    if path is None:
        place = f" in {folder}{nearest_file(Path(candidate))}" if "/" in name else " on PATH"
        raise SpecError(
            f"command: no program {name!r} that can be run{place}",
            remedy="Build it first, or give its path relative to the experiment file.",
        )
    return Path(path)
