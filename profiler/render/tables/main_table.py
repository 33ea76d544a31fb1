"""The main table: every cell of the plan, with what it can be filtered by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.findings.findings import Findings
from profiler.findings.named_baselines import NamedBaseline
from profiler.findings.values import Value
from profiler.findings.verdicts import PairVerdict
from profiler.model import Cell, Outcome, Problem
from profiler.planning.problem_names import distinct, varying
from profiler.render.tables.rows import (
    Datum,
    MetricColumn,
    has_many_cells,
    metric_column,
    outcome_css,
    raw_or_none,
)
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.baselines import why_no_verdict
from profiler.render.words.metrics import shown_metrics
from profiler.render.words.outcomes import OUTCOME_WORDS

MOST_COLUMNS = 12
_MOST_FACET_VALUES = 12


@dataclass(frozen=True)
class CellRow:
    """One cell in the main table."""

    cell: Cell
    also: tuple[str, ...]
    """Further names of its variant: the same machine code."""
    mark: int
    role: str
    problem_params: tuple[Datum, ...]
    outcome: str
    outcome_css: str
    cause: str
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
    linked: bool
    """Whether each cell has a row under `Every cell in full`."""


def main_table(findings: Findings, against: NamedBaseline) -> MainTable:
    """All cells, by problem and best first within each; a column has one unit.

    Ratios and verdicts are those `against` one of the named baselines.
    """
    keys = varying(findings.problems)
    constants = {
        key: value
        for problem in findings.problems
        for key, value in problem.params.items()
        if key not in keys
    }
    others = tuple(metric for metric in shown_metrics(findings) if metric != findings.primary)
    metrics = others[:MOST_COLUMNS]
    cells = [
        findings.cells[variant.id, problem.id]
        for problem in findings.problems
        for variant, _ in findings.sorted_at(problem, findings.report.primary)
        if (variant.id, problem.id) in findings.cells
    ]
    columns = [metric_column(findings, cells, metric) for metric in (findings.primary, *metrics)]
    rows = tuple(
        _cell_row(findings, cell, keys, against, [column.data[row] for column in columns])
        for row, cell in enumerate(cells)
    )
    many = has_many_cells(findings)
    if many:
        rows = tuple(
            replace(row, spread=_without_title(row.spread), verdict=_without_title(row.verdict))
            for row in rows
        )
    fixed = tuple(f"{key} = {value}" for key, value in constants.items())
    return MainTable(
        parameters=keys,
        constants=fixed,
        columns=tuple(columns),
        left_out=len(others) - len(metrics),
        rows=rows,
        linked=not many,
    )


def _without_title(datum: Datum) -> Datum:
    """The page's script says it on hover."""
    return replace(datum, title="") if datum.raw is not None else datum


def _cell_row(
    findings: Findings,
    cell: Cell,
    keys: Sequence[str],
    against: NamedBaseline,
    data: Sequence[Datum],
) -> CellRow:
    status = findings.status(cell)
    value = findings.value(cell, findings.report.primary)
    correct = findings.correct(cell)
    width = numbers.half_width(value.median, value.low, value.high)
    spread = (value.high - value.low) / 2 / value.median if width else math.nan
    return CellRow(
        cell=cell,
        also=findings.aliases.get(cell.variant.id, ()),
        mark=findings.marks[cell.variant.id],
        role=findings.role(cell.variant),
        problem_params=tuple(_parameter(cell.problem, key) for key in keys),
        outcome=OUTCOME_WORDS[status.outcome],
        outcome_css=outcome_css(status.outcome),
        cause=status.cause,
        primary=data[0],
        spread=Datum(
            width or numbers.MISSING,
            raw_or_none(spread),
            numbers.interval(value.low, value.high, findings.primary.unit) or "no interval",
            "" if width else "none",
        ),
        ratio=ratio_datum(against.verdicts[cell.id], correct=correct),
        verdict=verdict_datum(against.verdicts[cell.id], why_no_verdict(findings, against, cell)),
        rank=_rank(value, correct=correct),
        data=tuple(data[1:]),
    )


def ratio_datum(pair: PairVerdict, *, correct: bool) -> Datum:
    """Ratio to a baseline; that of a wrong result is not shown."""
    if not correct or not math.isfinite(pair.ratio):
        return Datum(title="no ratio" if correct else "not compared: no correct result", css="none")
    between = numbers.interval(pair.low, pair.high)
    return Datum(numbers.ratio(pair.ratio), numbers.raw(pair.ratio), between or "ratio of medians")


def _rank(value: Value, *, correct: bool) -> Datum:
    if not correct or not math.isfinite(value.rank):
        return Datum(title="not ranked", css="none")
    return Datum(f"{value.rank:g}", numbers.raw(value.rank))


def _parameter(problem: Problem, key: str) -> Datum:
    value = problem.params.get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Datum("" if value is None else str(value), str(value) if number else None)


@dataclass(frozen=True)
class Facet:
    """One group of check boxes: a cell passes with any of the checked values."""

    label: str
    values: tuple[str, ...]
    index: Mapping[str, int]


def facets(findings: Findings) -> tuple[tuple[Facet, ...], tuple[tuple[int, ...], ...]]:
    """Groups to filter by, and for every cell of the plan its value in each group."""
    groups: list[Facet] = []
    columns: list[list[int]] = []
    for label, items, side in (
        ("problem", findings.problems, "problem"),
        ("variant", findings.variants, "variant"),
    ):
        for key in varying(items):
            values = tuple(str(value) for value in distinct(items, key))
            if len(values) > _MOST_FACET_VALUES:
                continue
            index = {value: number for number, value in enumerate(values)}
            groups.append(Facet(f"{label} \u00b7 {key}", values, index))
            columns.append(
                [
                    index[str(getattr(cell, side).params.get(key))]
                    for cell in findings.distinct_cells
                ]
            )
    of_cells = [findings.status(cell).outcome for cell in findings.distinct_cells]
    outcomes = tuple(OUTCOME_WORDS[outcome] for outcome in Outcome if outcome in of_cells)
    index = {word: number for number, word in enumerate(outcomes)}
    groups.append(Facet("outcome", outcomes, index))
    columns.append([index[OUTCOME_WORDS[outcome]] for outcome in of_cells])
    return tuple(groups), tuple(zip(*columns, strict=True))
