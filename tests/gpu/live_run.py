"""Runs the profiler as a user would, on the GPU of this machine."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_live(spec, out, *flags, timeout_s=300, code=0):
    """What a run said on stderr that ended with this code; its run folders are below `out`."""
    command = [sys.executable, "-m", "profiler", str(spec), "--live", "--out", str(out), *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stderr
