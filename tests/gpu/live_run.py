"""Runs the profiler as a user would, on the GPU of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_live(
    spec: Path | str, out: Path, *flags: str, timeout_s: float = 300, code: int = 0
) -> str:
    """What a run said on stderr that ended with this code; its run folders are below `out`."""
    command = [sys.executable, "-m", "profiler", str(spec), "--live", "--out", str(out), *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stderr
