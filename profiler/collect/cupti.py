"""Counters by CUPTI's range profiler, in the process that launches."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import profiler
from profiler.collect import STDERR, CollectorKind, Need, Records, read_text, tail
from profiler.collect.ncu import PERMISSION
from profiler.collect.timer import Timer, after_survived_failures
from profiler.errors import EnvironmentUnusable

SOURCE: Path = Path(profiler.__file__).parent / "runner" / "cupti" / "range_profiler.cpp"
_HEADER = "cupti_range_profiler.h"
WITHOUT_CUPTI = "Measure with ncu instead: collect.collectors=ncu."

_PROBLEMS: Sequence[tuple[re.Pattern[str], str, str]] = (
    (
        re.compile(r"CUPTI: .*(INSUFFICIENT_PRIVILEGES|permission)", re.IGNORECASE),
        "CUPTI may not read the GPU's performance counters.",
        PERMISSION,
    ),
    (
        re.compile(r"CUPTI: .*(MULTIPLE_SUBSCRIBERS|RESOURCE|BUSY)", re.IGNORECASE),
        "Another tool holds CUPTI or the GPU's performance counters.",
        "End other profilers on this GPU (ncu, nsys, torch.profiler, DCGM: `dcgmi profile "
        f"--pause`); a workload that uses CUPTI itself cannot be counted by it. {WITHOUT_CUPTI}",
    ),
    (
        re.compile(r"CUPTI cannot be loaded"),
        "CUPTI, or the project's library that calls it, cannot be loaded.",
        f"It comes with torch's CUDA builds (libcupti.so). {WITHOUT_CUPTI}",
    ),
    (
        re.compile(r"CUPTI: cu\w+\("),
        "CUPTI refused what was asked of it.",
        "A metric that CUPTI does not have, MIG, vGPU, WSL or an older driver are the usual "
        f"reasons. {WITHOUT_CUPTI}",
    ),
)
"""Errors of CUPTI that are faults of the machine, as the runner prints them: pattern, message,
remedy."""


def refusal(stderr: str) -> EnvironmentUnusable | None:
    """Error for a refusal of CUPTI or of the driver at the end of the runner's stderr, or None."""
    last_lines = tail(after_survived_failures(stderr))
    for pattern, message, remedy in _PROBLEMS:
        match = pattern.search(last_lines)
        if match is not None:
            line = last_lines[match.start() :].partition("\n")[0]
            return EnvironmentUnusable(f"{message}\n  It said: {line[:400]}", remedy=remedy)
    return None


def header_flags(nvcc: Path) -> tuple[str, ...]:
    """Flags by which nvcc finds CUPTI's headers; none where nvcc's own include folder has them.

    The headers are of the toolkit of `nvcc`, or else of a package of NVIDIA in this Python.
    """
    toolkit = nvcc.resolve().parents[1]
    if (toolkit / "include" / _HEADER).exists():
        return ()
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    folders = (toolkit / "extras" / "CUPTI" / "include", *sorted(packages.glob("*/include")))
    folder = next((folder for folder in folders if (folder / _HEADER).exists()), None)
    return () if folder is None else ("-I", str(folder))


@dataclass(frozen=True)
class Cupti(Timer):
    """Collector without a tool: the runner reads counters itself."""

    name: str = "cupti"

    def diagnose(self, folder: Path, returncode: int) -> EnvironmentUnusable | None:
        """Error of the machine, or of CUPTI, that the runner's stderr shows, or None."""
        refused = refusal(read_text(folder / STDERR)) if returncode != 0 else None
        return refused or super().diagnose(folder, returncode)


KIND: CollectorKind = CollectorKind(
    name="cupti",
    alias=None,
    title="CUPTI",
    measures="each kernel alone on the GPU, by its hardware counters, gaps left out, as ncu does, "
    "but in the runner's own process; caches are empty when a launch begins, except with warm "
    "caches",
    records=Records.COUNTERS,
    metric="cupti_duration_ns",
    in_journal=True,
    create=lambda tools: Cupti(tools.python),
    needs=frozenset({Need.GPU, Need.TORCH}),
    settings=("metrics", "counter_samples", "cache_control"),
    visit_s=2e-3,
)
