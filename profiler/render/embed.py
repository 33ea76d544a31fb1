"""The data inside a page: for downloads, filters and the switch between baselines."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
from markupsafe import Markup

from profiler.model import SCHEMA_VERSION
from profiler.render.compare import Comparison
from profiler.render.lookup import Lookup, Value
from profiler.render.tables import Facet

SPREAD_FIELDS = ("mean", "min", "max")
SUMMARY_FIELDS = (
    "n",
    "median",
    "low",
    "high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "rank",
    *SPREAD_FIELDS,
)
"""Fields of a row; those of the spread are left out where all of them equal the median."""

# What would end a script element, or begin a comment in one; and line ends of JavaScript.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def payload(
    lookup: Lookup,
    comparisons: tuple[Comparison, ...],
    facets: tuple[tuple[Facet, ...], tuple[tuple[int, ...], ...]],
) -> dict[str, Any]:
    """Everything that the page's script reads; numbers are raw, missing is null."""
    report = lookup.report
    metrics = [metric.name for metric in lookup.measured_metrics]
    groups, membership = facets
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": report.experiment,
        "created": report.created,
        "baseline": report.baseline,
        "replayed": None if report.replay is None else vars(report.replay),
        "variants": [
            {"id": one.id, "name": one.name, "params": dict(one.params)} for one in lookup.variants
        ],
        "problems": [
            {"id": one.id, "name": one.name, "params": dict(one.params)} for one in lookup.problems
        ],
        "cells": [_cell(lookup, index) for index in range(len(report.plan.cells))],
        "metrics": [
            {"name": one.name, "label": one.label, "unit": one.unit, "better": one.better}
            for one in lookup.measured_metrics
        ],
        "summary": {
            "fields": ["cell", "metric", *SUMMARY_FIELDS],
            "rows": [
                [index, number, *_fields(lookup.value(cell, name))]
                for index, cell in enumerate(report.plan.cells)
                for number, name in enumerate(metrics)
                if lookup.value(cell, name).known
            ],
        },
        "facets": {
            "groups": [{"label": one.label, "values": list(one.values)} for one in groups],
            "cells": [list(row) for row in membership],
        },
        "comparisons": [_comparison(lookup, one) for one in comparisons],
    }


def dump(data: dict[str, Any]) -> Markup:
    """JSON that is safe inside a script element: `<`, `>` and `&` are written as escapes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.translate(_ESCAPES))  # noqa: S704 - escaped on this very line


def _cell(lookup: Lookup, index: int) -> dict[str, Any]:
    cell = lookup.report.plan.cells[index]
    status = lookup.status(cell)
    return {
        "id": cell.id,
        "variant": lookup.marks[cell.variant.id],
        "problem": lookup.problem_numbers[cell.problem.id],
        "outcome": str(status.outcome),
        "cause": status.cause or None,
        "duplicate_of": status.duplicate_of,
        "missing_metrics": list(status.missing_metrics),
    }


def _comparison(lookup: Lookup, one: Comparison) -> dict[str, Any]:
    data = [one.ratios[cell.id] for cell in lookup.report.plan.cells]
    return {
        "key": one.key,
        "label": one.label,
        "cells": [[datum.text, datum.raw, datum.title] for datum in data],
    }


def _fields(value: Value) -> list[float | int | None]:
    constant = all(getattr(value, name) == value.median for name in SPREAD_FIELDS)
    names = SUMMARY_FIELDS[: -len(SPREAD_FIELDS)] if constant else SUMMARY_FIELDS
    return [_number(getattr(value, name)) for name in names]


def _number(value: float) -> float | int | None:
    if pd.isna(value) or not math.isfinite(value):
        return None
    if value == int(value) and abs(value) < 2**53:
        return int(value)
    # Eight digits: ncu prints two decimals, and the run folder has all digits.
    return float(f"{value:.8g}")
