"""Strip of all configurations by problem, with the references as lines."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profiler.findings.findings import Findings, Ranking
from profiler.findings.values import Value
from profiler.model import Problem
from profiler.render.figures import strips
from profiler.render.figures.axes import Handle, symbol_handle
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.palette import colour_of
from profiler.render.figures.strips import RowText, reference_handle
from profiler.render.tables.heats import heat_ratio
from profiler.render.words import numbers
from profiler.render.words.names import shorten

MOST_PROBLEMS = 16
_COLUMNS = ["row", "ratio", "role", "mark", "cell"]


def configurations_chart(findings: Findings) -> Chart | None:
    """Ratio of every configuration at each problem; None without a correct result."""
    problems = _shown(findings.ranking)
    dots, references = strip_tables(findings, problems)
    if dots.empty:
        return None
    metric = findings.numbers.primary
    against = (
        f"that of {findings.programs.baseline.label}"
        if findings.programs.baseline
        else ("that of the best of the problem")
    )
    reading = "A dot for each configuration; right, the best of them."
    left_out = len(findings.programs.problems) - len(problems)
    if left_out:
        reading += f" {left_out} smaller problems stand in the tables only."
    figure = strips.strip(
        dots,
        references,
        [_row_text(findings, problem) for problem in problems],
        _entries(findings.ranking, dots, references),
        f"{metric.label} \u00f7 {against}",
    )
    return make_chart("first", f"{metric.label} of every configuration by problem", reading, figure)


def _shown(ranking: Ranking) -> tuple[Problem, ...]:
    """Problems that have room, the ones that take longest; in the order of the plan."""
    with_winner = [
        problem for problem in ranking.programs.problems if problem.id in ranking.rival_winners
    ]
    longest = sorted(
        with_winner, key=lambda problem: -ranking.rival_winners[problem.id].value.median
    )[:MOST_PROBLEMS]
    return tuple(problem for problem in with_winner if problem in longest)


def strip_tables(
    findings: Findings, problems: Sequence[Problem]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows for `strips.strip`: dots of rivals, and lines of references."""
    dots: list[tuple[float | str, ...]] = []
    references: list[tuple[float | str, ...]] = []
    for row, problem in enumerate(problems):
        for variant in findings.programs.variants:
            cell = findings.programs.by_place.get((variant.id, problem.id))
            if cell is None or not findings.programs.correct(cell):
                continue
            ratio = heat_ratio(findings, cell)[0]
            values = (
                row,
                ratio,
                findings.ranking.role(variant),
                findings.programs.marks[variant.id],
            )
            if ratio > 0:
                rows = references if variant.id in findings.programs.references else dots
                rows.append((*values, findings.programs.cell_numbers[cell.id]))
    return pd.DataFrame(dots, columns=_COLUMNS), pd.DataFrame(references, columns=_COLUMNS)


def _row_text(findings: Findings, problem: Problem) -> RowText:
    value: Value = findings.ranking.rival_winners[problem.id].value
    return RowText(problem.name, numbers.show(value.median, findings.numbers.primary.unit))


def _entries(ranking: Ranking, dots: pd.DataFrame, references: pd.DataFrame) -> tuple[Handle, ...]:
    """Legend: the named configurations, all others, then the references."""

    def named(table: pd.DataFrame) -> list[tuple[str, str]]:
        marks = table[table["role"] != "other"]["mark"].unique()
        variants = [ranking.programs.variants[int(mark)] for mark in sorted(marks)]
        return [(shorten(each.label), colour_of(ranking.role(each))) for each in variants]

    others = dots[dots["role"] == "other"]["mark"].nunique()
    return (
        *(symbol_handle(*entry) for entry in named(dots)),
        *([symbol_handle(f"{others} others", colour_of("other"))] if others else []),
        *(reference_handle(*entry) for entry in named(references)),
    )
