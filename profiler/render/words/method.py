"""Method of a run: machine, tools, exclusions, sessions, glossary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.method import run_funnel
from profiler.model import Environment
from profiler.render.words import numbers

ENVIRONMENT_WORDS: Mapping[str, tuple[str, str]] = {
    "gpu": ("GPU", ""),
    "compute_capability": ("Compute capability", ""),
    "gpu_uuid": ("GPU (hash of its UUID)", ""),
    "sm_count": ("SMs", ""),
    "memory_bytes": ("Device memory", "byte"),
    "l2_bytes": ("L2 cache", "byte"),
    "peak_dram_bytes_per_s": ("Peak DRAM bandwidth", "byte/s"),
    "max_sm_clock_mhz": ("Highest SM clock", "MHz"),
    "max_memory_clock_mhz": ("Highest memory clock", "MHz"),
    "clock_control": ("Clock control", ""),
    "cache_control": ("Cache control", ""),
    "driver": ("Driver", ""),
    "cuda_driver": ("CUDA of the driver", ""),
    "nvcc": ("nvcc", ""),
    "ncu": ("ncu", ""),
    "torch": ("torch", ""),
    "python": ("Python", ""),
    "cpu": ("CPU", ""),
    "profiler_version": ("Profiler", ""),
    "git_commit": ("Commit", ""),
}
"""By field: its heading, and the unit of its number."""


def method(findings: Findings) -> dict[str, Any]:
    """Parts of the last section; what was not recorded is left out, never guessed."""
    report = findings.report
    named = {session.name for session in findings.sessions}
    commands, stages = report.execution.commands, report.execution.stages
    return {
        "environment": tuple(_environment(report.environment)),
        "funnel": run_funnel(report),
        "sessions": findings.sessions,
        "other_commands": [item for item in commands.items() if item[0] not in named],
        "stages": [(name, numbers.seconds(value)) for name, value in stages.items()],
        "glossary": findings.numbers.metrics,
    }


def _environment(environment: Environment) -> Iterator[tuple[str, str]]:
    for name, (heading, unit) in ENVIRONMENT_WORDS.items():
        value = getattr(environment, name)
        if value is None:
            continue
        text = numbers.show(float(value), unit) if unit else str(value)
        if name == "git_commit" and environment.git_dirty:
            text += " with uncommitted changes"
        yield heading, text
