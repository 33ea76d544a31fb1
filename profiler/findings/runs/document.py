"""A comparison of runs as one JSON document: raw numbers, units in the keys, missing is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from profiler.comparison.runs import ComparedRun
from profiler.findings.gates import Gate, regressions
from profiler.findings.runs.changes import CellChange
from profiler.findings.runs.comparison import RunComparison, RunTimes
from profiler.findings.runs.steps import RunStep
from profiler.model import SCHEMA_VERSION, Cell
from profiler.notices import remedy, severity, text

_NUMBERS = {
    "older_duration_ns": "older_ns",
    "newer_duration_ns": "newer_ns",
    "ratio": "ratio",
    "ratio_low": "ratio_low",
    "ratio_high": "ratio_high",
    "duration_ratio": "raw_ratio",
    "duration_ratio_low": "raw_low",
    "duration_ratio_high": "raw_high",
    "margin": "margin",
    "noise_floor": "noise_floor",
    "clock_floor": "clock_floor",
    "control_floor": "control_floor",
    "session_floor": "session_floor",
    "clock_ratio": "clock_ratio",
    "detectable": "detectable",
    "blocks_older": "blocks_older",
    "blocks_newer": "blocks_newer",
}
"""Fields of `CellChange` by key of the document."""
_TIMES = {
    "run": "run",
    "blocks": "blocks",
    "duration_ns": "median_ns",
    "duration_low_ns": "low_ns",
    "duration_high_ns": "high_ns",
    "ratio": "ratio",
    "ratio_low": "ratio_low",
    "ratio_high": "ratio_high",
}
"""Fields of `RunTimes` by key of the document."""


def comparison_document(comparison: RunComparison, gate: Gate | None = None) -> dict[str, Any]:
    """The whole comparison, for programs; `gate` adds the cells that trip it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [_run(run) for run in comparison.runs],
        "differences": [asdict(difference) for difference in comparison.differences],
        "notices": [
            {
                "kind": notice.kind.value,
                "severity": severity(notice).value,
                "text": text(notice),
                "remedy": remedy(notice),
            }
            for notice in comparison.notices
        ],
        "steps": [_step(step, comparison.planned) for step in comparison.steps],
        "history": [
            {"cell": cell, "runs": [_times(entry) for entry in entries.values()]}
            for cell, entries in comparison.history.items()
        ],
        "gate": None if gate is None else _gate(comparison, gate),
    }


def _run(run: ComparedRun) -> dict[str, Any]:
    report = run.report
    return {
        "name": run.name,
        "experiment": report.experiment,
        "created": report.created,
        "baseline": report.baseline,
        "cells": len(report.plan.cells),
        "environment": asdict(report.environment),
    }


def _step(step: RunStep, cells: Mapping[str, Cell]) -> dict[str, Any]:
    return {
        "older": step.older,
        "newer": step.newer,
        "reversed": step.reversed,
        "machines": step.machines.value,
        "control": step.control,
        "withheld": None if step.refused is None else step.refused.value,
        "only_older": list(step.only_older),
        "only_newer": list(step.only_newer),
        "edited_files": [asdict(file) for file in step.edited_files],
        "cells": [_change(change, cells[name]) for name, change in step.cells.items()],
    }


def _change(change: CellChange, cell: Cell) -> dict[str, Any]:
    values = {
        kind: {
            metric.metric: {"older": number(metric.older), "newer": number(metric.newer)}
            for metric in change.metrics
            if metric.is_fact is (kind == "facts")
        }
        for kind in ("facts", "metrics")
    }
    return {
        "id": change.cell,
        "variant": cell.variant.name,
        "problem": cell.problem.name,
        "problem_params": dict(cell.problem.params),
        "controlled": change.controlled,
        "verdict": None if change.verdict is None else change.verdict.value,
        "reason": change.reason.value,
        "program": change.program.value,
        "older_outcome": change.older_outcome.value,
        "newer_outcome": change.newer_outcome.value,
        **{key: number(getattr(change, field)) for key, field in _NUMBERS.items()},
        **values,
        "retuned": [asdict(operation) for operation in change.retuned],
    }


def _times(times: RunTimes) -> dict[str, float | int | None]:
    return {key: number(getattr(times, field)) for key, field in _TIMES.items()}


def _gate(comparison: RunComparison, gate: Gate) -> dict[str, Any]:
    tripped = regressions(comparison.judged, gate)
    return {
        "rule": str(gate),
        "tripped": bool(len(tripped)),
        "cells": [str(cell) for cell in tripped["cell"]],
    }


def number(value: float | None) -> float | int | None:
    """A number as JSON can hold it: whole ones without a point, None for what is missing."""
    if value is None or pd.isna(value):
        return None
    given = float(value)
    return int(given) if given.is_integer() and abs(given) < 2**53 else given
