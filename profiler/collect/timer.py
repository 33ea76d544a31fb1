"""The runner without a tool around it: it times its own launches.

Also what the runner's own errors say about the machine, because every collector starts it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import profiler
from profiler.collect import STDERR, Command, read_text, tail
from profiler.errors import EnvironmentUnusable
from profiler.model import Outcome

RUNNER = Path(profiler.__file__).parent / "runner" / "__main__.py"

_PROBLEMS: Sequence[tuple[re.Pattern[str], str, str]] = (
    (
        re.compile(r"No module named '?torch'?$", re.MULTILINE),
        "The runner cannot import torch.",
        "Install it into this environment: pip install torch.",
    ),
    (
        re.compile(r"No module named '?nvtx'?$", re.MULTILINE),
        "The runner cannot import nvtx.",
        "Install this project's dependencies again: pip install -e .",
    ),
    (
        re.compile(r"No CUDA GPUs are available|no CUDA-capable device is detected"),
        "CUDA sees no GPU in the runner.",
        "Check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, pass the GPU through.",
    ),
    (
        re.compile(r"CUDA driver version is insufficient|NVIDIA driver on your system is too old"),
        "The NVIDIA driver is older than the CUDA version of torch.",
        "Update the driver, or install a build of torch for an older CUDA.",
    ),
    (
        re.compile(r"Torch not compiled with CUDA enabled"),
        "The installed torch has no CUDA support.",
        "Install a CUDA build of torch (pytorch.org shows the command).",
    ),
)
"""What the runner prints when the machine, not a cell, is at fault: pattern, message, remedy."""


def runner_argv(job: Path, python: str | None = None) -> tuple[str, ...]:
    """Command line of the runner; `python` defaults to the interpreter of the orchestrator."""
    return (python or sys.executable, "-P", str(RUNNER), str(job))


_SURVIVED = re.compile(r"^runner: .* in \w+: .*\n", re.MULTILINE)
"""What the runner says of each failure that it goes on from."""


def since_survived(stderr: str) -> str:
    """Stderr after the last failure that the runner survived: the rest is of other cells."""
    survived = [match.end() for match in _SURVIVED.finditer(stderr)]
    return stderr[survived[-1] :] if survived else stderr


def diagnose_runner(stderr: str) -> EnvironmentUnusable | None:
    """Error of the machine that the end of the runner's stderr shows, or None."""
    last_words = tail(since_survived(stderr))
    for pattern, message, remedy in _PROBLEMS:
        if pattern.search(last_words):
            return EnvironmentUnusable(message, remedy=remedy)
    return None


@dataclass(frozen=True)
class Timer:
    """Collector without a tool: the runner has a stopwatch for each name (`runner/timing.py`)."""

    python: str | None = None
    name: str = "timer"
    wraps_target: bool = False

    def session_command(self, job: Path, folder: Path, metrics: Sequence[str]) -> Command:
        """Command of a session; a timer has no metrics to choose and no files but the journal."""
        del folder, metrics
        return Command(argv=runner_argv(job, self.python))

    def diagnose(self, folder: Path, returncode: int) -> EnvironmentUnusable | None:
        """Error of the machine that the runner's stderr shows, or None."""
        return diagnose_runner(read_text(folder / STDERR)) if returncode != 0 else None

    def nothing_seen(self, folder: Path) -> EnvironmentUnusable | None:
        """None: the runner measures whatever a workload does."""
        del folder
        return None

    def cell_fault(self, folder: Path) -> tuple[Outcome, str] | None:
        """None: without a tool, the runner sees every fault itself."""
        del folder
        return None

    def recover_command(self, folder: Path) -> Command | None:
        """None: results are in the journal as soon as they are measured."""
        del folder
        return None
