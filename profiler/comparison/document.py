"""A comparison of runs as one JSON document: raw numbers, units in the keys, missing is null."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from profiler.comparison.facts import EXACT
from profiler.comparison.joined import Comparison
from profiler.comparison.sides import Side
from profiler.comparison.steps import Step
from profiler.findings.gates import Gate, regressions
from profiler.model import SCHEMA_VERSION, Cell
from profiler.notices import remedy, severity, text

_NUMBERS = (
    "older_ns",
    "newer_ns",
    "ratio",
    "ratio_low",
    "ratio_high",
    "raw_ratio",
    "raw_low",
    "raw_high",
    "margin",
    "noise_floor",
    "clock_floor",
    "control_floor",
    "clock_ratio",
    "detectable",
    "blocks_older",
    "blocks_newer",
)
_KEYS = {
    "older_ns": "older_duration_ns",
    "newer_ns": "newer_duration_ns",
    "raw_ratio": "duration_ratio",
    "raw_low": "duration_ratio_low",
    "raw_high": "duration_ratio_high",
}
_WORDS = ("verdict", "reason", "program", "older_outcome", "newer_outcome")


def comparison_document(comparison: Comparison, gate: Gate | None = None) -> dict[str, Any]:
    """Everything that a comparison says, for programs; `gate` adds what it found."""
    cells = {cell.id: cell for cell in comparison.cells}
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [_run(side) for side in comparison.sides],
        "differences": [asdict(one) for one in comparison.differences],
        "notices": [
            {
                "kind": one.kind.value,
                "severity": severity(one).value,
                "text": text(one),
                "remedy": remedy(one),
            }
            for one in comparison.notices
        ],
        "steps": [_step(step, cells) for step in comparison.steps],
        "history": _history(comparison),
        "gate": None if gate is None else _gate(comparison, gate),
    }


def _run(side: Side) -> dict[str, Any]:
    report = side.report
    return {
        "name": side.name,
        "experiment": report.experiment,
        "created": report.created,
        "baseline": report.baseline,
        "cells": len(report.plan.cells),
        "environment": asdict(report.environment),
    }


def _step(step: Step, cells: Mapping[str, Cell]) -> dict[str, Any]:
    metrics = _metrics(step)
    return {
        "older": step.older,
        "newer": step.newer,
        "machines": step.machines.value,
        "control": step.control,
        "withheld": None if step.withheld is None else step.withheld.value,
        "only_older": list(step.only_older),
        "only_newer": list(step.only_newer),
        "cells": [
            {
                "id": str(row["cell"]),
                "variant": cells[str(row["cell"])].variant.name,
                "problem": cells[str(row["cell"])].problem.name,
                "problem_params": dict(cells[str(row["cell"])].problem.params),
                "controlled": bool(row["controlled"]),
                **{name: word(row[name]) for name in _WORDS},
                **{_KEYS.get(name, name): number(row[name]) for name in _NUMBERS},
                "facts": metrics.get(str(row["cell"]), {}).get("facts", {}),
                "metrics": metrics.get(str(row["cell"]), {}).get("metrics", {}),
                "retuned": [asdict(one) for one in step.retuned.get(str(row["cell"]), ())],
            }
            for row in step.cells.reset_index().to_dict("records")
        ],
    }


def _metrics(step: Step) -> dict[str, dict[str, dict[str, dict[str, float | int | None]]]]:
    """By cell: what does not scatter, and all other metrics."""
    found: dict[str, dict[str, dict[str, dict[str, float | int | None]]]] = {}
    for row in step.metrics.to_dict("records"):
        kind = "facts" if row["metric"] in EXACT else "metrics"
        values = {side: number(row[side]) for side in ("older", "newer")}
        found.setdefault(str(row["cell"]), {}).setdefault(kind, {})[str(row["metric"])] = values
    return found


def _history(comparison: Comparison) -> list[dict[str, Any]]:
    keys = {"median_ns": "duration_ns", "low_ns": "duration_low_ns", "high_ns": "duration_high_ns"}
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in comparison.history.to_dict("records"):
        values = {
            keys.get(str(name), str(name)): number(value)
            for name, value in row.items()
            if name != "cell"
        }
        rows.setdefault(str(row["cell"]), []).append(values)
    return [{"cell": cell, "runs": runs} for cell, runs in rows.items()]


def _gate(comparison: Comparison, gate: Gate) -> dict[str, Any]:
    found = regressions(comparison.judged, gate)
    return {
        "rule": str(gate),
        "tripped": bool(len(found)),
        "cells": [str(cell) for cell in found["cell"]],
    }


def word(value: Hashable) -> str | None:
    """A word of a frame; None where there is none."""
    return None if pd.isna(value) else str(value)  # type: ignore[call-overload]


def number(value: Any) -> float | int | None:
    """A number as JSON can hold it: whole ones without a point, None for what is missing."""
    if value is None or pd.isna(value):
        return None
    given = float(value)
    return int(given) if given.is_integer() and abs(given) < 2**53 else given
