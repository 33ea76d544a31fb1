"""The data inside a page: for downloads, filters, hover and the switch between baselines.

Everything is written by columns, and a column in the shortest of four forms:

- a list: one value a cell of the plan;
- `{"values": [value]}`: the same value in every cell;
- `{"values": [...], "index": [...]}`: few values, and which of them each cell has;
- a name: the same as that column of the same table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from profiler.findings.lookup import Lookup
from profiler.findings.named_baselines import Comparison
from profiler.findings.rulings import CSS, ORDER, word
from profiler.model import SCHEMA_VERSION
from profiler.render.tables.main_table import Facet
from profiler.render.words.labels import Label

SUMMARY_FIELDS = (
    "n",
    "median",
    "low",
    "high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "rank",
    "mean",
    "min",
    "max",
)
_DIGITS = 6
"""Significant digits: ncu prints two decimals, and the run folder has all digits."""
_FEW = 4
"""A column with a quarter as many different values as cells is written by index."""

# What would end a script element, or begin a comment in one; and line ends of JavaScript.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def payload(
    lookup: Lookup,
    comparisons: tuple[Comparison, ...],
    facets: tuple[tuple[Facet, ...], tuple[tuple[int, ...], ...]],
) -> dict[str, Any]:
    """Everything that the page's script reads; numbers are raw, missing is null."""
    report = lookup.report
    groups, membership = facets
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": report.experiment,
        "created": report.created,
        "baseline": report.baseline,
        "primary": report.primary,
        "replayed": None if report.replay is None else vars(report.replay),
        "variants": [
            {"id": one.id, "name": one.name, "params": dict(one.params)} for one in lookup.variants
        ],
        "problems": [
            {"id": one.id, "name": one.name, "params": dict(one.params)} for one in lookup.problems
        ],
        "cells": _cells(lookup),
        "metrics": [
            {
                "name": one.name,
                "label": one.label,
                "unit": one.unit,
                "better": one.better,
                "summary": _summary(lookup, one),
            }
            for one in lookup.measured_metrics
        ],
        "facets": {
            "groups": [{"label": one.label, "values": list(one.values)} for one in groups],
            "cells": [_column(column) for column in zip(*membership, strict=True)],
        },
        "verdicts": [{"name": one.value, "word": word(one), "css": CSS[one]} for one in ORDER],
        "comparisons": [_comparison(lookup, one) for one in comparisons],
    }


def dump(data: dict[str, Any]) -> Markup:
    """JSON that is safe inside a script element: `<`, `>` and `&` are written as escapes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.translate(_ESCAPES))  # noqa: S704 - escaped on this very line


def _cells(lookup: Lookup) -> dict[str, Any]:
    cells = lookup.report.plan.cells
    statuses = [lookup.status(cell) for cell in cells]
    return {
        "id": [cell.id for cell in cells],
        "variant": [lookup.marks[cell.variant.id] for cell in cells],
        "problem": [lookup.problem_numbers[cell.problem.id] for cell in cells],
    } | _table(
        {
            "outcome": [str(status.outcome) for status in statuses],
            "cause": [status.cause or None for status in statuses],
            "duplicate_of": [status.duplicate_of for status in statuses],
            "missing_metrics": [list(status.missing_metrics) for status in statuses],
        }
    )


def _summary(lookup: Lookup, metric: Label) -> dict[str, Any]:
    values = [lookup.recorded_value(cell, metric.name) for cell in lookup.report.plan.cells]
    columns = {
        name: [_number(getattr(value, name)) if value.known else None for value in values]
        for name in SUMMARY_FIELDS
    }
    return _table(columns)


def _comparison(lookup: Lookup, one: Comparison) -> dict[str, Any]:
    cells = lookup.report.plan.cells
    rulings = [one.rulings[cell.id] for cell in cells]
    columns: dict[str, list[Any]] = {
        name: [_number(getattr(ruling, name)) for ruling in rulings]
        for name in ("ratio", "low", "high")
    }
    columns["verdict"] = [
        None if ruling.verdict is None else ORDER.index(ruling.verdict) for ruling in rulings
    ]
    columns["title"] = [
        one.without(cell) if ruling.verdict is None else ruling.details
        for cell, ruling in zip(cells, rulings, strict=True)
    ]
    return {"key": one.key, "label": one.label, "ratios": _table(columns)}


def _table(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns of one table, each in its shortest form."""
    written: dict[str, Any] = {}
    for name, values in columns.items():
        same = next((other for other in written if columns[other] == values), None)
        short = _column(values)
        plain = isinstance(short, list) or "index" in short
        written[name] = same if same is not None and plain else short
    return written


def _column(values: Sequence[Any]) -> list[Any] | dict[str, Any]:
    """One column as a list, or by its different values where these are few."""
    known = {json.dumps(value): value for value in values}
    if len(known) == 1 and len(values) > 1:
        return {"values": list(known.values())}
    if len(known) * _FEW > len(values):
        return list(values)
    places = {text: place for place, text in enumerate(known)}
    return {
        "values": list(known.values()),
        "index": [places[json.dumps(value)] for value in values],
    }


def _number(value: float) -> float | int | None:
    if pd.isna(value) or not math.isfinite(value):
        return None
    if value == int(value) and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.{_DIGITS}g}")
