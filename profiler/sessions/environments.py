"""A run in another Python environment: another torch, Triton or CUDA, by the same profiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import profiler
from profiler.errors import EnvironmentUnusable, ExitCode

_HERE = Path(profiler.__file__).parents[1]


def run_in_environment(python: Path, arguments: Sequence[str]) -> None:
    """Have an interpreter run an experiment with this profiler; raises EnvironmentUnusable.

    The environment needs what the profiler needs: the method is the same in all of them. A run that
    was interrupted goes on.
    """
    path = os.pathsep.join(filter(None, (str(_HERE), os.environ.get("PYTHONPATH"))))
    command = [str(python), "-m", "profiler", "run", *arguments]
    try:
        completed = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,  # stdout is for the answer
            check=False,
        )
    except OSError as error:
        raise EnvironmentUnusable(f"{python} cannot be started: {error}") from error
    if completed.returncode not in (ExitCode.COMPLETE, ExitCode.SOME_CELLS_FAILED):
        raise EnvironmentUnusable(
            f"The run by {python} ended with {completed.returncode}.",
            remedy="The same command goes on; what it said stands above.",
        )
