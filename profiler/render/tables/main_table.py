"""The main table: every cell of the plan, with what it can be filtered by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiler.findings.cell_numbers import CellNumbers, Value
from profiler.findings.counters import nearest_roof
from profiler.findings.findings import Findings, NamedBaseline
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.findings.verdicts import PairVerdict
from profiler.metrics.queries import Label
from profiler.model import Cell, Outcome, Problem
from profiler.planning.problem_names import distinct_values, is_number, varying_parameters
from profiler.render.tables.rows import (
    Datum,
    outcome_css,
    raw_or_none,
    shown_metrics,
    verdict_datum,
    with_unit,
)
from profiler.render.words import numbers
from profiler.render.words.counters import NEAREST_ROOF, nearest_roof_label, short_roof
from profiler.render.words.signs import OUTCOME_WORDS, why_missing
from profiler.render.words.verdicts import quotient_words, why_no_verdict

MOST_COLUMNS = 12
BAR_STEPS = 20
_FAR, _CUT = 4.0, 2.5
"""Bars beyond the first times the upper quartile are cut at the second times it."""
TRAFFIC = ("dram_read_bytes", "dram_write_bytes")
DRAM_BYTES = Label(
    name="dram_bytes",
    label="DRAM bytes",
    unit="byte",
    better=None,
    definition="Read from and written to device memory, together.",
    source="ncu",
)
_MOST_FACET_VALUES = 12


@dataclass(frozen=True)
class CellRow:
    """Row of a cell in the main table."""

    cell: Cell
    also: tuple[str, ...]
    """Further names of its variant: the same machine code."""
    mark: int
    role: str
    problem_params: tuple[Datum, ...]
    outcome: Datum
    primary: Datum
    spread: Datum
    ratio: Datum
    verdict: Datum
    rank: Datum
    data: tuple[Datum, ...]
    """Other metrics."""

    @property
    def verdict_css(self) -> str:
        """Class of the verdict, by which the page's script filters; empty without one."""
        return self.verdict.css.removeprefix("verdict").removesuffix("none").strip()


@dataclass(frozen=True)
class MainTable:
    """Every cell, with heads and what it can be filtered by."""

    parameters: tuple[str, ...]
    constants: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    """The primary metric, then others."""
    left_out: int
    """Metrics without a column."""
    rows: tuple[CellRow, ...]


def main_table(findings: Findings, against: NamedBaseline) -> MainTable:
    """All cells, by problem and best first within each; a column has one unit.

    Ratios and verdicts are those `against` one of the named baselines.
    """
    keys = varying_parameters(findings.programs.problems)
    constants = {
        key: value
        for problem in findings.programs.problems
        for key, value in problem.params.items()
        if key not in keys
    }
    cells = [
        findings.programs.by_place[variant.id, problem.id]
        for problem in findings.programs.problems
        for variant, _ in findings.numbers.sorted_at(problem, findings.numbers.primary.name)
        if (variant.id, problem.id) in findings.programs.by_place
    ]
    other_metrics = _other_metrics(findings)
    columns = [
        metric_column(findings.numbers, cells, metric)
        for metric in (findings.numbers.primary, *other_metrics[:MOST_COLUMNS])
    ]
    rows = tuple(
        _cell_row(findings, cell, keys, against, [column.data[row] for column in columns])
        for row, cell in enumerate(cells)
    )
    return MainTable(
        parameters=keys,
        constants=tuple(f"{key} = {value}" for key, value in constants.items()),
        columns=tuple(columns),
        left_out=max(0, len(other_metrics) - MOST_COLUMNS),
        rows=rows,
    )


def _other_metrics(findings: Findings) -> tuple[Label, ...]:
    """Metrics beside the primary one; first those that questions are about.

    These are the nearest roof, traffic and kernels.
    """
    metric_names = dict.fromkeys(shown_metrics(findings))
    measured = {metric.name: metric for metric in findings.numbers.metrics}
    has_traffic = measured.keys() >= set(TRAFFIC)
    roof = nearest_roof_label(findings.numbers)
    first = [roof] if roof else []
    first += [DRAM_BYTES] if has_traffic else []
    if any(findings.numbers.value(cell, "kernels").median > 1 for cell in findings.programs.cells):
        first.append(measured["kernels"])
    repeated = {findings.numbers.primary.name, *(TRAFFIC if has_traffic else ())}
    return tuple(
        metric for metric in dict.fromkeys([*first, *metric_names]) if metric.name not in repeated
    )


@dataclass(frozen=True)
class MetricColumn:
    """Metric in one unit, over the rows of the table."""

    label: Label
    unit: str
    """Unit as written in this column, with its prefix."""
    data: tuple[Datum, ...]

    @property
    def head(self) -> str:
        """Name and unit."""
        return with_unit(self.label, self.unit)


def metric_column(cell_numbers: CellNumbers, cells: Sequence[Cell], metric: Label) -> MetricColumn:
    """Numbers of cells in one unit, with their bars; a roof has its name after the percent."""
    roofs: list[tuple[str, float] | None] = [None] * len(cells)
    if metric.name == NEAREST_ROOF:
        roofs = [nearest_roof(cell_numbers, cell.variant, cell.problem) for cell in cells]
        values = [math.nan if roof is None else roof[1] for roof in roofs]
    elif metric == DRAM_BYTES:
        values = traffic(cell_numbers, cells)
    else:
        values = [cell_numbers.value(cell, metric.name).median for cell in cells]
    unit, texts = numbers.column(values, metric.unit)
    bars = _bars(cells, texts, unit)
    data = tuple(
        Datum(title=why_missing(cell_numbers, cell, metric.name), css="none")
        if text == numbers.MISSING
        else Datum(f"{text} {short_roof(roof[0])}" if roof else text, text, css=bar)
        for cell, text, roof, bar in zip(cells, texts, roofs, bars, strict=True)
    )
    return MetricColumn(metric, unit, data)


def traffic(numbers: CellNumbers, cells: Sequence[Cell]) -> list[float]:
    """Bytes read from and written to device memory; NaN where either is missing."""
    return [sum(numbers.value(cell, name).median for name in TRAFFIC) for cell in cells]


def _bars(cells: Sequence[Cell], texts: Sequence[str], unit: str) -> list[str]:
    """Length of a bar at each number: a class from `w1` to `w20`, empty where there is none.

    Percentages are of 100, other numbers of the largest at the same problem.
    """
    values = [0.0 if text == numbers.MISSING else float(text) for text in texts]
    by_problem: dict[str, list[float]] = {}
    for cell, value in zip(cells, values, strict=True):
        by_problem.setdefault(cell.problem.id, []).append(abs(value))
    full = {
        problem: 100.0 if unit == "%" else _full_bar(of_problem)
        for problem, of_problem in by_problem.items()
    }
    shares = (
        value and value / full[cell.problem.id] for cell, value in zip(cells, values, strict=True)
    )
    return [
        f"w{min(BAR_STEPS, max(1, round(BAR_STEPS * share)))}" if share > 0 else ""
        for share in shares
    ]


def _full_bar(values: Sequence[float]) -> float:
    """The number with the longest bar: the largest, unless it would flatten all others."""
    upper = sorted(values)[3 * (len(values) - 1) // 4]
    return _CUT * upper if max(values) > _FAR * upper > 0 else max(values)


def _cell_row(
    findings: Findings,
    cell: Cell,
    keys: Sequence[str],
    against: NamedBaseline,
    data: Sequence[Datum],
) -> CellRow:
    status = findings.programs.status(cell)
    value = findings.numbers.duration(cell)
    correct = findings.programs.correct(cell)
    width = numbers.half_width(value.median, value.low, value.high)
    spread = (value.high - value.low) / 2 / value.median if width else math.nan
    return CellRow(
        cell=cell,
        also=findings.programs.aliases.get(cell.variant.id, ()),
        mark=findings.programs.marks[cell.variant.id],
        role=findings.ranking.role(cell.variant),
        problem_params=tuple(_parameter(cell.problem, key) for key in keys),
        outcome=Datum(OUTCOME_WORDS[status.outcome], css=outcome_css(status.outcome)),
        primary=data[0],
        spread=Datum(
            width or numbers.MISSING,
            raw_or_none(spread),
            "" if width else "no interval",
            "" if width else "none",
        ),
        ratio=ratio_datum(against.verdicts[cell.id], correct=correct),
        verdict=verdict_datum(against.verdicts[cell.id], why_no_verdict(against, cell)),
        rank=_rank(findings.ranking, cell, value),
        data=tuple(data[1:]),
    )


def ratio_datum(pair: PairVerdict, *, correct: bool) -> Datum:
    """Ratio to a baseline; that of a wrong result is not shown."""
    if not correct:
        return Datum(title="not compared: no correct result", css="none")
    return Datum.times(pair.ratio, "no ratio", quotient_words(pair))


def _rank(ranking: Ranking, cell: Cell, value: Value) -> Datum:
    """Rank within the problem, with what verdicts allow to say of it."""
    if not ranking.programs.correct(cell) or not math.isfinite(value.rank):
        return Datum(title="not ranked", css="none")
    return Datum(f"{value.rank:g} {standing(ranking, cell)}".rstrip(), numbers.raw(value.rank))


def standing(ranking: Ranking, cell: Cell) -> str:
    """Word on a rank by the verdicts: fastest, lowest, same, not told apart; else empty."""
    winner = ranking.winners.get(cell.problem.id)
    if winner is None or not winner.judged:
        return ""
    if cell == winner.cell:
        return "fastest" if winner.best else "lowest"
    if cell in winner.same_cells:
        return "same"
    return "not told apart" if cell in winner.not_told_apart else ""


def _parameter(problem: Problem, key: str) -> Datum:
    value = problem.params.get(key)
    return Datum("" if value is None else str(value), str(value) if is_number(value) else None)


def facets(programs: Programs) -> list[dict[str, Any]]:
    """Groups of check boxes: a cell of the plan passes with any of the checked values.

    `cells`: number of its value, for each cell.
    """
    groups = []
    for side, items in (("problem", programs.problems), ("variant", programs.variants)):
        for key in varying_parameters(items):
            values = tuple(str(value) for value in distinct_values(items, key))
            if len(values) <= _MOST_FACET_VALUES:
                of_cells = [str(getattr(cell, side).params.get(key)) for cell in programs.cells]
                groups.append((f"{side} \u00b7 {key}", values, of_cells))
    outcomes = [programs.status(cell).outcome for cell in programs.cells]
    outcome_words = tuple(OUTCOME_WORDS[outcome] for outcome in Outcome if outcome in outcomes)
    groups.append(("outcome", outcome_words, [OUTCOME_WORDS[outcome] for outcome in outcomes]))
    return [
        {"label": label, "choices": values, "cells": list(map(values.index, of_cells))}
        for label, values, of_cells in groups
    ]
