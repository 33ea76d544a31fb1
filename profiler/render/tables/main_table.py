"""The main table: every cell of the plan, with what it can be filtered by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.lookup import OUTCOME_WORDS, Lookup
from profiler.findings.named_baselines import Comparison
from profiler.findings.roles import Ranking
from profiler.findings.rulings import Ruling
from profiler.findings.values import Value
from profiler.model import Cell, Problem
from profiler.render.tables.rows import (
    Datum,
    MetricColumn,
    metric_column,
    outcome_css,
    raw_or_none,
)
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.problems import distinct, varying

MOST_COLUMNS = 12
_MOST_FACET_VALUES = 12


@dataclass(frozen=True)
class CellRow:
    """One cell in the main table."""

    cell: Cell
    mark: int
    role: str
    words: tuple[Datum, ...]
    """Problem parameters."""
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


def main_table(ranking: Ranking, against: Comparison) -> MainTable:
    """All cells, by problem and best first within each; a column has one unit.

    Ratios and verdicts are those `against` one of the named baselines.
    """
    lookup = ranking.lookup
    keys = varying(lookup.problems)
    constants = {
        key: value
        for problem in lookup.problems
        for key, value in problem.params.items()
        if key not in keys
    }
    others = tuple(one for one in lookup.shown_metrics if one != lookup.primary)
    metrics = others[:MOST_COLUMNS]
    cells = [
        lookup.cells[variant.id, problem.id]
        for problem in lookup.problems
        for variant, _ in ranking.sorted_at(problem, lookup.report.primary)
        if (variant.id, problem.id) in lookup.cells
    ]
    columns = [metric_column(lookup, cells, metric) for metric in (lookup.primary, *metrics)]
    rows = tuple(
        _cell_row(ranking, cell, keys, against, [column.data[row] for column in columns])
        for row, cell in enumerate(cells)
    )
    fixed = tuple(f"{key} = {value}" for key, value in constants.items())
    return MainTable(keys, fixed, tuple(columns), len(others) - len(metrics), rows)


def _cell_row(
    ranking: Ranking, cell: Cell, keys: Sequence[str], against: Comparison, data: Sequence[Datum]
) -> CellRow:
    lookup = ranking.lookup
    status = lookup.status(cell)
    value = lookup.value(cell, lookup.report.primary)
    correct = lookup.correct(cell)
    width = numbers.half_width(value.median, value.low, value.high)
    spread = (value.high - value.low) / 2 / value.median if width else math.nan
    return CellRow(
        cell=cell,
        mark=lookup.marks[cell.variant.id],
        role=ranking.role(cell.variant),
        words=tuple(_parameter(cell.problem, key) for key in keys),
        outcome=OUTCOME_WORDS[status.outcome],
        outcome_css=outcome_css(status.outcome),
        cause=status.cause,
        primary=data[0],
        spread=Datum(
            width or numbers.MISSING,
            raw_or_none(spread),
            numbers.interval(value.low, value.high, lookup.primary.unit) or "no interval",
            "" if width else "none",
        ),
        ratio=ratio_datum(against.rulings[cell.id], correct=correct),
        verdict=verdict_datum(against.rulings[cell.id], against.without(cell)),
        rank=_rank(value, correct=correct),
        data=tuple(data[1:]),
    )


def ratio_datum(ruling: Ruling, *, correct: bool) -> Datum:
    """Ratio to a baseline; that of a wrong result is not shown."""
    if not correct or not math.isfinite(ruling.ratio):
        return Datum(title="no ratio" if correct else "not compared: no correct result", css="none")
    between = numbers.interval(ruling.low, ruling.high)
    return Datum(
        numbers.ratio(ruling.ratio), numbers.raw(ruling.ratio), between or "ratio of medians"
    )


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


def facets(lookup: Lookup) -> tuple[tuple[Facet, ...], tuple[tuple[int, ...], ...]]:
    """Groups to filter by, and for every cell of the plan its value in each group."""
    found: list[Facet] = []
    columns: list[list[int]] = []
    for label, items, side in (
        ("problem", lookup.problems, "problem"),
        ("variant", lookup.variants, "variant"),
    ):
        for key in varying(items):
            values = tuple(str(value) for value in distinct(items, key))
            if len(values) > _MOST_FACET_VALUES:
                continue
            index = {value: number for number, value in enumerate(values)}
            found.append(Facet(f"{label} \u00b7 {key}", values, index))
            columns.append(
                [
                    index[str(getattr(cell, side).params.get(key))]
                    for cell in lookup.report.plan.cells
                ]
            )
    outcomes = tuple(OUTCOME_WORDS[outcome] for outcome in lookup.outcome_counts())
    index = {word: number for number, word in enumerate(outcomes)}
    found.append(Facet("outcome", outcomes, index))
    cells = lookup.report.plan.cells
    columns.append([index[OUTCOME_WORDS[lookup.status(cell).outcome]] for cell in cells])
    return tuple(found), tuple(zip(*columns, strict=True))
