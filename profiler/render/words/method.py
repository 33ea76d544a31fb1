"""How a run was measured: machine, tools, what was left out, what was started, what words mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.samples import metric_columns
from profiler.findings.findings import Findings
from profiler.findings.funnel import Stage, funnel
from profiler.metrics.labels import Label
from profiler.model import Environment
from profiler.render.words import numbers
from profiler.run_folder.load.report import Report

_ENVIRONMENT_WORDS: tuple[tuple[str, str, str], ...] = (
    ("gpu", "GPU", ""),
    ("compute_capability", "Compute capability", ""),
    ("gpu_uuid", "GPU UUID", ""),
    ("sm_count", "SMs", ""),
    ("memory_bytes", "Device memory", "byte"),
    ("l2_bytes", "L2 cache", "byte"),
    ("peak_dram_bytes_per_s", "Peak DRAM bandwidth", "byte/s"),
    ("max_sm_clock_mhz", "Highest SM clock", "MHz"),
    ("max_memory_clock_mhz", "Highest memory clock", "MHz"),
    ("clock_control", "Clock control", ""),
    ("cache_control", "Cache control", ""),
    ("driver", "Driver", ""),
    ("cuda_driver", "CUDA of the driver", ""),
    ("nvcc", "nvcc", ""),
    ("ncu", "ncu", ""),
    ("torch", "torch", ""),
    ("python", "Python", ""),
    ("cpu", "CPU", ""),
    ("profiler_version", "Profiler", ""),
    ("git_commit", "Commit", ""),
)


@dataclass(frozen=True)
class SessionRow:
    """One planned session, and the command that ran it."""

    name: str
    collector: str
    kind: str
    visits: int
    blocks: int
    metrics: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Method:
    """Everything that the last section shows."""

    environment: tuple[tuple[str, str], ...]
    funnel: tuple[Stage, ...]
    sessions: tuple[SessionRow, ...]
    other_commands: tuple[tuple[str, str], ...]
    stages: tuple[tuple[str, str], ...]
    glossary: tuple[Label, ...]


def method(findings: Findings) -> Method:
    """Collect what the section shows; what was not recorded is left out, never guessed."""
    report = findings.report
    named = {session.name for session in report.plan.sessions} | set(report.samples["session"])
    return Method(
        environment=tuple(_environment(report.environment)),
        funnel=funnel(report.plan.cells, report.statuses, report.plan.excluded),
        sessions=tuple(_sessions(report)),
        other_commands=tuple(
            (name, command) for name, command in report.commands.items() if name not in named
        ),
        stages=tuple((name, numbers.seconds(value)) for name, value in report.stages.items()),
        glossary=findings.metrics,
    )


def _sessions(report: Report) -> Iterator[SessionRow]:
    """Planned sessions, then those that followed from what they found: the finals.

    Visits are those that were made, where any were: later looks are not in a plan.
    """
    # What a cell shares with another of the same machine code was measured for that one.
    twins = [cell for cell, status in report.statuses.items() if status.duplicate_of]
    own = report.samples[~report.samples["cell"].isin(twins)]
    made = {str(name): rows for name, rows in own.groupby("session", sort=False)}
    for session in report.plan.sessions:
        visits, blocks = _made(made.pop(session.name, None)) or (
            len(session.visits),
            len({visit.block for visit in session.visits}),
        )
        command = report.commands.get(session.name, "")
        kind, metrics = str(session.kind), session.metrics
        yield SessionRow(session.name, session.collector, kind, visits, blocks, metrics, command)
    for name, rows in made.items():
        first, counted = rows.iloc[0], _made(rows)
        metrics = tuple(one for one in metric_columns(rows) if rows[one].notna().any())
        command = report.commands.get(name, "")
        if counted:
            yield SessionRow(
                name, str(first["collector"]), str(first["kind"]), *counted, metrics, command
            )


def _made(rows: pd.DataFrame | None) -> tuple[int, int] | None:
    """Visits that have samples, and the number of their blocks."""
    if rows is None or rows.empty:
        return None
    return len(rows[["cell", "block", "arm"]].drop_duplicates()), int(rows["block"].nunique())


def _environment(environment: Environment) -> Iterator[tuple[str, str]]:
    for name, words, unit in _ENVIRONMENT_WORDS:
        value = getattr(environment, name)
        if value is None:
            continue
        text = numbers.show(float(value), unit) if unit else str(value)
        if name == "git_commit" and environment.git_dirty:
            text += " with uncommitted changes"
        yield words, text
