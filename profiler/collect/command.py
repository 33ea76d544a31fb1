"""External commands as workloads: finding the program that a command line names."""

from __future__ import annotations

import os
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
        if "=" in name:
            raise SpecError(
                f"command: {name!r} is no program",
                remedy="Variables are set by `env`: " + f"`env {name} …`.",
            )
        place = f" in {folder}{_nearest_program(Path(candidate))}" if "/" in name else " on PATH"
        raise SpecError(
            f"command: no program {name!r} that can be run{place}",
            remedy="Build it first, or give its path relative to the experiment file.",
        )
    return Path(path)


def _nearest_program(path: Path) -> str:
    """Hint that a file is not executable, or at the nearest one that can be run; else empty."""
    if path.is_file():
        return ": it is not executable (chmod +x)"
    hint = nearest_file(path)
    nearest = Path(hint.partition("'")[2].rpartition("'")[0])
    return hint if hint and os.access(nearest, os.X_OK) else ""
