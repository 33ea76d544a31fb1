"""The data inside a page: for downloads, filters, details and the switch between baselines."""

from __future__ import annotations

import base64
import json
import math
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd
from markupsafe import Markup

from profiler.findings.cell_numbers import FINAL, CellNumbers
from profiler.findings.counters import nearest_peak
from profiler.findings.findings import Findings, NamedBaseline
from profiler.findings.programs import Programs
from profiler.metrics.catalogue import CATALOGUE, CEILING_PARTS
from profiler.metrics.queries import Label
from profiler.model import SCHEMA_VERSION, Cell, CellStatus, Problem, SessionKind, cell_id
from profiler.render.tables.rows import shown_metrics
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word
from profiler.render.words.names import kernel_lists_by_cell
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
)
_DIGITS = 6
"""Significant digits: ncu prints two decimals, and the run folder has all digits."""


def payload(findings: Findings, facets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Data for the page's script; numbers are raw, missing is null."""
    ranking, programs = findings.ranking, findings.programs
    report = findings.report
    command = f"python -m profiler {shlex.quote(report.experiment.spec_path)}"
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": report.experiment.name,
        "created": report.execution.created,
        "baseline": report.plan.baseline,
        "primary": findings.numbers.primary.name,
        "replayed": report.execution.replay,
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
        # Commands up to the ids of cells, which are safe in a shell.
        "rerun": f"{command} --fresh --only",
        "explain": f"{command} --explain",
        # Cells of parts were made from what was measured: their ids are others.
        "of_parts": any(cell.id != cell_id(cell.variant, cell.problem) for cell in programs.cells),
        "scales": {
            metric.unit: numbers.steps(metric.unit)
            for metric in findings.numbers.metrics
            if numbers.says_unit(metric.unit)
        },
        "samples": _samples(findings),
        "cells": _cells(findings),
        "metrics": [
            {
                "name": metric.name,
                "label": metric.label,
                "unit": metric.unit,
                "better": metric.better,
                "summary": _summary(findings.numbers, metric),
            }
            for metric in findings.numbers.metrics
            if metric.name not in CEILING_PARTS
        ],
        "facets": {
            "groups": [
                {"label": group["label"], "values": list(group["choices"])} for group in facets
            ],
            "cells": [group["cells"] for group in facets],
        },
        "verdicts": [
            {"name": verdict.value, "word": word(verdict), "css": CSS[verdict]} for verdict in ORDER
        ],
        "comparisons": [
            _comparison(findings, baseline) for baseline in findings.verdicts.baselines
        ],
    }


def pack(document: object) -> Markup:
    """JSON, deflated, in base64: what `unpacked` of the page's script reads."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    return Markup(packed)  # noqa: S704 - base64 has no character of HTML


def _samples(findings: Findings) -> dict[str, list[Any]]:
    """Samples by metric of each cell, as [name of the set, values]; None where all are the same."""
    metrics = [metric.name for metric in sampled_metrics(findings)]
    varying = dict(varying_samples(findings.report.measured.samples, metrics))
    sources = list(map(findings.programs.source, findings.programs.cells))
    return {
        metric: [
            [
                [name, list(map(_number, values.tolist()))]
                for name, values in varying.get((source, metric), ())
            ]
            or None
            for source in sources
        ]
        for metric in metrics
    }


def _cells(findings: Findings) -> dict[str, list[Any]]:
    """Facts of the cells, a column each."""
    cells = findings.programs.cells
    statuses = [findings.programs.status(cell) for cell in cells]
    kernels = kernel_lists_by_cell(findings.report.measured.samples)
    return {
        "id": [cell.id for cell in cells],
        "variant": [findings.programs.marks[cell.variant.id] for cell in cells],
        "problem": [findings.programs.problem_numbers[cell.problem.id] for cell in cells],
        "outcome": [str(status.outcome) for status in statuses],
        "cause": [status.cause or None for status in statuses],
        "duplicate_of": [status.duplicate_of for status in statuses],
        "missing_metrics": [list(status.missing_metrics) for status in statuses],
        "slowdown": [_number(findings.ranking.slowdowns.get(cell.id, math.nan)) for cell in cells],
        "blocks": [_blocks(findings.numbers, cell) for cell in cells],
        "slow": [_slow(findings.numbers, cell) for cell in cells],
        "nearest_peak": [nearest_peak(findings.numbers, cell) for cell in cells],
        "kernels": [
            list(dict.fromkeys(chain(*kernels.get(findings.programs.source(cell), ()))))
            for cell in cells
        ],
    }


def _blocks(numbers: CellNumbers, cell: Cell) -> list[Any] | None:
    blocks = timing_blocks(numbers, cell)
    return None if blocks is None else [_number(blocks[0]), blocks[1]]


def _slow(numbers: CellNumbers, cell: Cell) -> list[Any] | None:
    """Number of slow timing visits, of all, their factor, median and 95th percentile in ns."""
    slow = numbers.slow_visits.get(cell.id)
    return None if slow is None else list(map(_number, astuple(slow)))


def _summary(numbers: CellNumbers, metric: Label) -> dict[str, list[Any]]:
    """Statistics of a metric, a column each."""
    values = [numbers.value(cell, metric.name) for cell in numbers.programs.cells]
    present = [value if value.present else None for value in values]
    columns: dict[str, list[Any]] = {
        name: [value and _number(getattr(value, name)) for value in present]
        for name in SUMMARY_FIELDS
    }
    return columns | {"source": [value and value.source for value in present]}


def _comparison(findings: Findings, baseline: NamedBaseline) -> dict[str, Any]:
    cells = findings.programs.cells
    verdicts = [baseline.verdicts[cell.id] for cell in cells]
    ratios: dict[str, list[Any]] = {
        name: [_number(getattr(pair, name)) for pair in verdicts]
        for name in ("ratio", "low", "high", "median", "against_median")
    }
    ratios["noise_floor"] = [_number(pair.resolution.noise_floor) for pair in verdicts]
    ratios["verdict"] = [
        None if pair.verdict is None else ORDER.index(pair.verdict) for pair in verdicts
    ]
    ratios["within"] = [within([pair]) for pair in verdicts]
    ratios["title"] = [
        why_no_verdict(baseline, cell) if pair.verdict is None else details(pair)
        for cell, pair in zip(cells, verdicts, strict=True)
    ]
    return {"key": baseline.key, "label": baseline_label(baseline), "ratios": ratios}


def _number(value: float) -> float | int | None:
    return _rounded(value) if math.isfinite(value) else None


@cache
def _rounded(value: float) -> float | int:
    """A finite number with `_DIGITS`: most of a page are in it several times."""
    if value == int(value) and abs(value) < 2**53:
        return int(value)
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


# ---- samples -------------------------------------------------------------------------------------


MOST_SAMPLES = 250_000
"""Above this many numbers the page would grow past some megabytes: only those of the shown metrics
are written."""

SampleSet = tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]
"""Where samples come from (`ncu timing`, `ncu timing again`), and their values in order."""


def sampled_metrics(findings: Findings) -> tuple[Label, ...]:
    """Metrics whose samples a page has: no rates and shares, which follow from others."""
    metrics = findings.numbers.metrics
    if len(findings.report.measured.samples) * len(metrics) > MOST_SAMPLES:
        metrics = shown_metrics(findings)
    return tuple(metric for metric in metrics if not _is_derived(metric))


def _is_derived(metric: Label) -> bool:
    entry = CATALOGUE.get(metric.name)
    return entry is not None and entry.formula is not None


def varying_samples(
    frame: pd.DataFrame, metrics: Sequence[str]
) -> Iterator[tuple[tuple[str, str], tuple[SampleSet, ...]]]:
    """Samples by cell and metric in the order of measurement, where they are not all the same.

    Where two collectors, sessions or visits of a block delivered the same metric, each is named.
    """
    present = [name for name in metrics if name in frame.columns]
    if not present or frame.empty:
        return
    sets: dict[tuple[str, str], list[SampleSet]] = {}
    values = frame[present].to_numpy(dtype=float, na_value=np.nan)
    groups = frame.groupby(["cell", "collector", "kind", "arm"], sort=False).indices
    # A frame of its own for each of 10,000 groups would take ten times as long.
    for key, rows in sorted(groups.items(), key=lambda group: int(group[1][0])):
        cell, collector, kind, arm = cast("tuple[object, ...]", key)
        session = "confirmation" if kind == SessionKind.FINAL else kind
        source = f"{collector} {session}{' again' if arm else ''}"
        of_group = values[rows]
        finite = ~np.isnan(of_group)
        for place in np.flatnonzero(finite.any(axis=0)).tolist():
            column = of_group[finite[:, place], place]
            sets.setdefault((str(cell), present[place]), []).append((source, column))
    for where, of_metric in sets.items():
        if len({value for _, column in of_metric for value in column.tolist()}) > 1:
            yield where, tuple(of_metric)


# ---- sentences -----------------------------------------------------------------------------------


def timing_blocks(cell_numbers: CellNumbers, cell: Cell) -> tuple[float, int] | None:
    """Median by the timing blocks and their number; None unless the cell has a confirmation."""
    if cell_numbers.duration(cell).source != FINAL:
        return None
    value = cell_numbers.block_value(cell)
    return None if numbers.is_missing(value.median) else (value.median, value.n)


def problem_facts(programs: Programs, problem: Problem) -> tuple[str, ...]:
    """Sentences on the operations and traffic of a problem, and on errors against its reference."""
    cells = (cell for cell in programs.cells if cell.problem.id == problem.id)
    return tuple(_facts([programs.status(cell) for cell in cells]))


def _facts(statuses: Sequence[CellStatus]) -> Iterator[str]:
    for fact, unit, name in (
        ("Operations stated by the workload", "FLOP", "flops"),
        ("Least traffic stated by the workload", "byte", "bytes"),
    ):
        stated = sorted(_finite(getattr(status.facts, name) for status in statuses))
        if stated:
            stated_texts = dict.fromkeys(numbers.show(value, unit) for value in stated)
            yield f"{fact}: {' to '.join([*stated_texts][:: max(1, len(stated_texts) - 1)])}."
    for kind, name in (("absolute", "max_abs_error"), ("relative", "max_rel_error")):
        errors = _finite(
            getattr(status.facts, name) for status in statuses if not status.outcome.failed
        )
        if errors:
            largest = numbers.significant(max(errors), 3)
            yield f"Largest {kind} error against the reference: {largest}."


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
