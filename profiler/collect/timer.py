"""The runner without a tool around it: the collectors that time or record its own launches.

The runner's errors that are faults of the machine are here too: every collector starts the runner.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import profiler
from profiler.collect import (
    STDERR,
    Collector,
    CollectorKind,
    Command,
    Need,
    Records,
    read_text,
    tail,
)
from profiler.errors import EnvironmentUnusable

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
"""Output of the runner where the machine, not a cell, is at fault: pattern, message, remedy."""


def runner_argv(job: Path, python: str | None = None) -> tuple[str, ...]:
    """Command line of the runner; `python` defaults to the interpreter of the orchestrator."""
    return (python or sys.executable, "-P", str(RUNNER), str(job))


_SURVIVED_FAILURE = re.compile(r"^runner: .* in \w+: .*\n", re.MULTILINE)
"""Line that the runner prints for each failure that it survives."""


def after_survived_failures(stderr: str) -> str:
    """Stderr after the last failure that the runner survived: earlier lines are of other cells."""
    failure_ends = [match.end() for match in _SURVIVED_FAILURE.finditer(stderr)]
    return stderr[failure_ends[-1] :] if failure_ends else stderr


def diagnose_runner(stderr: str) -> EnvironmentUnusable | None:
    """Error of the machine that the end of the runner's stderr shows, or None."""
    last_lines = tail(after_survived_failures(stderr))
    for pattern, message, remedy in _PROBLEMS:
        if pattern.search(last_lines):
            return EnvironmentUnusable(message, remedy=remedy)
    return None


@dataclass(frozen=True)
class Timer(Collector):
    """Collector without a tool: the runner has a stopwatch for each name (`runner/timing.py`).

    The runner measures any workload and sees every fault itself, and its results are in the
    journal as soon as they are measured.
    """

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


def _timer_kind(name: str, records: Records = Records.TIMES, **facts: Any) -> CollectorKind:
    """Kind of a collector whose sessions are the runner's process alone."""
    return CollectorKind(
        name=name,
        records=records,
        in_journal=records is Records.TIMES,
        create=lambda tools: Timer(tools.python, name),
        **facts,
    )


CUDA_EVENTS = _timer_kind(
    "timer",
    alias="cuda_events",
    title="CUDA events",
    measures="launches by CUDA events, gaps between their kernels included; on a CPU by the "
    "host's clock",
    metric="timer_duration_ns",
    settings=("repeats",),
)
PROFILER_KERNELS = _timer_kind(
    "torch_kernels",
    alias="profiler_kernels",
    title="torch.profiler kernels",
    measures="the kernels of a launch as torch.profiler reports them, with a cold L2 cache; "
    "on a CPU the own time of operators",
    metric="profiler_duration_ns",
    needs=frozenset({Need.TORCH}),
    visit_s=2e-3,
)
WALL_CLOCK = _timer_kind(
    "wall_clock",
    alias="plain_timer",
    title="wall clock",
    measures="the wall clock from a launch until the device is idle again, mean of three "
    "launches, as in a quick benchmark",
    metric="wall_clock_duration_ns",
    launches=4,
    visit_s=2e-4,
)
SUSTAINED = _timer_kind(
    "sustained",
    alias=None,
    title="sustained",
    measures="launches that follow each other without a gap, inputs taken in turn, once clock and "
    "power have settled, as in training or serving; with the energy of a launch",
    metric="sustained_duration_ns",
    needs=frozenset({Need.GPU}),
    settings=("sustained_s",),
    visit_s=2.0,
)
PROFILER_TIMELINE = _timer_kind(
    "torch",
    alias="profiler_timeline",
    title="torch.profiler timeline",
    measures="the kernels of a launch on the timeline of torch.profiler, launches one after "
    "another without a flush of caches; on a CPU the launch",
    records=Records.TIMELINE,
    metric="torch_duration_ns",
    needs=frozenset({Need.TORCH}),
    settings=("timeline",),
)
IN_KERNEL = _timer_kind(
    "in_kernel",
    alias=None,
    title="in-kernel timeline",
    measures="when each warpgroup of a few blocks of a kernel began each activity, in a build with "
    "stamps of its own; for kernels that include `profiler/timeline.cuh`",
    records=Records.STAMPS,
    metric=None,
    needs=frozenset({Need.GPU, Need.TORCH}),
    visit_s=3e-3,
)
TIMERS = (CUDA_EVENTS, PROFILER_KERNELS, SUSTAINED, WALL_CLOCK)
"""Collectors that time launches; verdicts are about the first of them in a run."""
RECORDERS = (PROFILER_TIMELINE, IN_KERNEL)
"""Collectors that record launches over time; no verdict is about them."""
