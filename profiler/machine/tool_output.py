"""Short commands of tools whose output is read: versions, exports."""

from __future__ import annotations

import os
import subprocess

from profiler.collect import Command
from profiler.errors import EnvironmentUnusable

_VERSION_TIMEOUT_S = 60.0


def printed(command: Command, timeout_s: float = _VERSION_TIMEOUT_S) -> str:
    """Output of a command, stdout before stderr, whatever its exit code; raises as `ran` does."""
    return ran(command, timeout_s)[1]


def ran(command: Command, timeout_s: float = _VERSION_TIMEOUT_S) -> tuple[int, str]:
    """Exit code of a command, and its output: stdout before stderr.

    Raises EnvironmentUnusable where it cannot be started or does not end in time.
    """
    try:
        done = subprocess.run(
            command.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **command.env},
            cwd=command.cwd,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentUnusable(
            f"{command.argv[0]} did not end within {timeout_s:.0f} s.",
            remedy="Start it by hand to see what it waits for.",
        ) from error
    except OSError as error:
        raise EnvironmentUnusable(
            f"{command.argv[0]} cannot be run: {error.strerror}", remedy="Install it again."
        ) from error
    return done.returncode, f"{done.stdout}\n{done.stderr}"
