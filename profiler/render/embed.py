"""The data inside a page: for downloads, filters, details and the switch between baselines.

Everything is written by columns, and a column in the shortest of five forms:

- a list: one value a cell of the plan;
- `{"values": [value]}`: the same value in every cell;
- `{"values": [...], "index": [...]}`: few values, and which of them each cell has;
- `{"parts": [...], "texts": [[...], ...], "index": [...]}`: sentences, each as the places of its
  clauses in `parts`, and which of them each cell has;
- a name: the same as that column of the same table; with a metric's name and a point before it, of
  that metric's table.

A comparison whose ratios are those of an earlier one has the key of that one in their place.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any

from markupsafe import Markup

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import nearest_peak
from profiler.findings.findings import Findings, NamedBaseline
from profiler.metrics.catalogue import CEILING_PARTS
from profiler.metrics.queries import Label
from profiler.model import SCHEMA_VERSION, Cell, cell_id
from profiler.render.tables.details import (
    CellSamples,
    explain_start,
    is_planned,
    problem_facts,
    rerun_start,
    timing_blocks,
)
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word
from profiler.render.words.signs import CSS, ORDER, OUTCOME_WORDS, word
from profiler.render.words.verdicts import baseline_label, details, why_no_verdict, within

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
    "source",
)
_SOURCE = "source"
"""The only field that is no number."""
_DIGITS = 6
"""Significant digits: ncu prints two decimals, and the run folder has all digits."""
_CLAUSE_END = re.compile(r"(?<=[;,] )")
_FEW = 4
"""A column with a quarter as many different values as cells is written by index."""

# What would end a script element, or begin a comment in one; and line ends of JavaScript.
_ESCAPES = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def payload(
    findings: Findings,
    facets: Sequence[Mapping[str, Any]],
    samples: CellSamples,
) -> dict[str, Any]:
    """Data for the page's script; numbers are raw, missing is null."""
    ranking, programs = findings.ranking, findings.programs
    report = findings.report
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": report.experiment.name,
        "created": report.execution.created,
        "baseline": report.plan.baseline,
        "primary": report.settings.primary,
        "replayed": None if report.execution.replay is None else vars(report.execution.replay),
        "variants": [
            {
                "id": variant.id,
                "name": variant.name,
                "label": variant.label,
                "params": dict(variant.params),
            }
            | ({"also": list(aliases)} if (aliases := programs.aliases.get(variant.id)) else {})
            for variant in programs.variants
        ],
        "problems": [
            {
                "id": problem.id,
                "name": problem.name,
                "params": dict(problem.params),
                "facts": list(problem_facts(programs, problem)),
            }
            for problem in programs.problems
        ],
        "order": [programs.marks[rank.variant.id] for rank in ranking.ranks],
        "tags": {
            programs.marks[variant.id]: [
                role,
                best_word(ranking) if role == "best" else role,
            ]
            for variant in programs.variants
            if (role := ranking.role(variant)) in ("best", "baseline")
        },
        "outcomes": {
            str(outcome): [OUTCOME_WORDS[outcome], outcome.correct]
            for outcome in programs.outcome_counts()
        },
        "largest": ranking.largest_problem and programs.problem_numbers[ranking.largest_problem.id],
        "rerun": rerun_start(report.experiment.spec_path),
        "explain": explain_start(report.experiment.spec_path),
        "of_parts": not all(map(is_planned, programs.cells)),
        "kernels": list(samples.kernel_names),
        "scales": {
            metric.unit: numbers.steps(metric.unit)
            for metric in findings.numbers.metrics
            if numbers.says_unit(metric.unit)
        },
        "samples": samples.packed(),
        "cells": _cells(findings, samples),
        "metrics": _metrics(findings.numbers),
        "facets": {
            "groups": [
                {"label": group["label"], "values": list(group["choices"])} for group in facets
            ],
            "cells": [_column(group["cells"]) for group in facets],
        },
        "verdicts": [
            {"name": verdict.value, "word": word(verdict), "css": CSS[verdict]} for verdict in ORDER
        ],
        "comparisons": _comparisons(findings),
    }


def pack(document: object) -> Markup:
    """JSON, deflated, in base64: for what the page's script unpacks when it is asked for."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    return Markup(packed)  # noqa: S704 - base64 has no character of HTML


def dump(data: dict[str, Any]) -> Markup:
    """JSON that is safe inside a script element: `<`, `>` and `&` are written as escapes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for sign, escape in _ESCAPES.items():  # `translate` goes from letter to letter
        text = text.replace(sign, escape)
    return Markup(text)  # noqa: S704 - escaped right above


def _cells(findings: Findings, samples: CellSamples) -> dict[str, Any]:
    cells = findings.programs.cells
    statuses = [findings.programs.status(cell) for cell in cells]
    return {
        "variant": [findings.programs.marks[cell.variant.id] for cell in cells],
        "problem": [findings.programs.problem_numbers[cell.problem.id] for cell in cells],
    } | _table(
        {
            # Of most cells it follows from their variant and problem (data.js).
            "id": [
                None if cell.id == cell_id(cell.variant, cell.problem) else cell.id
                for cell in cells
            ],
            "outcome": [str(status.outcome) for status in statuses],
            "cause": [status.cause or None for status in statuses],
            "duplicate_of": [status.duplicate_of for status in statuses],
            "missing_metrics": [list(status.missing_metrics) for status in statuses],
            "slowdown": [
                _number(findings.ranking.slowdowns.get(cell.id, math.nan)) for cell in cells
            ],
            "blocks": [_blocks(findings.numbers, cell) for cell in cells],
            "slow": [_slow(findings.numbers, cell) for cell in cells],
            "nearest_peak": [nearest_peak(findings.numbers, cell) for cell in cells],
            "kernels": [list(samples.kernel_numbers(cell)) for cell in cells],
        }
    )


def _blocks(numbers: CellNumbers, cell: Cell) -> list[Any] | None:
    blocks = timing_blocks(numbers, cell)
    return None if blocks is None else [_number(blocks[0]), blocks[1]]


def _slow(numbers: CellNumbers, cell: Cell) -> list[Any] | None:
    """Number of slow timing visits, of all, their factor, median and 95th percentile in ns."""
    slow = numbers.slow_visits.get(cell.id)
    return None if slow is None else list(map(_number, astuple(slow)))


def _summary(numbers: CellNumbers, metric: Label) -> dict[str, Any]:
    values = [numbers.value(cell, metric.name) for cell in numbers.programs.cells]
    presence = [value.present for value in values]
    columns: dict[str, list[Any]] = {}
    for name in SUMMARY_FIELDS:
        column = zip(map(attrgetter(name), values), presence, strict=True)
        if name == _SOURCE:
            columns[name] = [source if present else None for source, present in column]
        else:  # as `_number` does it, which is called for a quarter of a million of them
            columns[name] = [
                _rounded(number) if present and isfinite(number) else None
                for number, present in column
            ]
    return _table(columns)


def _metrics(numbers: CellNumbers) -> list[dict[str, Any]]:
    """Metrics with their columns; a column that an earlier metric has as well is its name."""
    labels = [metric for metric in numbers.metrics if metric.name not in CEILING_PARTS]
    names: dict[str, str] = {}
    return [
        {
            "name": metric.name,
            "label": metric.label,
            "unit": metric.unit,
            "better": metric.better,
            "summary": {
                field: _shared(names, column, f"{metric.name}.{field}")
                for field, column in _summary(numbers, metric).items()
            },
        }
        for metric in labels
    ]


def _shared(names: dict[str, str], column: Any, name: str) -> Any:
    """The column, or where an earlier one is the same and longer than its name, that name."""
    text = json.dumps(column)
    if isinstance(column, str) or len(text) <= len(name):
        return column
    first = names.setdefault(text, name)
    return column if first == name else first


def _comparisons(findings: Findings) -> list[dict[str, Any]]:
    comparisons = [_comparison(findings, baseline) for baseline in findings.verdicts.baselines]
    distinct: dict[str, str] = {}
    for comparison in comparisons:
        text = json.dumps(comparison["ratios"])
        if distinct.setdefault(text, comparison["key"]) != comparison["key"]:
            comparison["ratios"] = distinct[text]
    return comparisons


def _comparison(findings: Findings, baseline: NamedBaseline) -> dict[str, Any]:
    cells = findings.programs.cells
    verdicts = [baseline.verdicts[cell.id] for cell in cells]
    columns: dict[str, list[Any]] = {
        name: [_number(getattr(pair, name)) for pair in verdicts]
        for name in ("ratio", "low", "high", "noise_floor", "median", "against_median")
    }
    columns["verdict"] = [
        None if pair.verdict is None else ORDER.index(pair.verdict) for pair in verdicts
    ]
    columns["within"] = [within([pair]) for pair in verdicts]
    columns["title"] = [
        why_no_verdict(findings.verdicts, baseline, cell) if pair.verdict is None else details(pair)
        for cell, pair in zip(cells, verdicts, strict=True)
    ]
    ratios = _table(columns)
    ratios["title"] = _sentences(columns["title"])
    return {"key": baseline.key, "label": baseline_label(baseline), "ratios": ratios}


def _sentences(texts: Sequence[str]) -> list[Any] | dict[str, Any]:
    """One column of sentences, which share most of their clauses."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    clauses = {text: _CLAUSE_END.split(text) for text in places}
    parts = {part: place for place, part in enumerate(dict.fromkeys(chain(*clauses.values())))}
    by_clauses = {
        "parts": list(parts),
        "texts": [[parts[part] for part in clauses[text]] for text in places],
        "index": [places[text] for text in texts],
    }
    plain = _column(texts)
    return min((plain, by_clauses), key=lambda column: len(json.dumps(column)))


def _table(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns of one table, each in its shortest form."""
    written: dict[str, Any] = {}
    for name, values in columns.items():
        equal_column = next((earlier for earlier in written if columns[earlier] == values), None)
        short = _column(values)
        plain = isinstance(short, list) or "index" in short
        written[name] = equal_column if equal_column is not None and plain else short
    return written


def _column(values: Sequence[Any]) -> list[Any] | dict[str, Any]:
    """One column as a list, or by its different values where these are few."""
    try:
        hashable, different = values, len(set(values))
    except TypeError:  # a list in it
        hashable = [json.dumps(value) if isinstance(value, list) else value for value in values]
        different = len(set(hashable))
    if different > 1 and different * _FEW > len(values):
        return list(values)
    # 1 is written otherwise than 1.0
    keys = list(zip(map(type, values), hashable, strict=True))
    distinct = dict(zip(keys, values, strict=True))
    if len(distinct) == 1 and len(values) > 1:
        return {"values": list(distinct.values())}
    if len(distinct) * _FEW > len(values):
        return list(values)
    places = {key: place for place, key in enumerate(distinct)}
    return {"values": list(distinct.values()), "index": [places[key] for key in keys]}


def _number(value: float) -> float | int | None:
    return _rounded(value) if math.isfinite(value) else None


@cache
def _rounded(value: float) -> float | int:
    """A finite number with `_DIGITS`: most of a page are in it several times."""
    if value == int(value) and abs(value) < 2**53:
        return int(value)
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
