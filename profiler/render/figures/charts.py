"""From look-ups to the tables that figures draw, and to figures with their words around them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from markupsafe import Markup

from profiler.findings.cell_numbers import Value
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.metrics.queries import Label
from profiler.model import Problem, Variant, slug
from profiler.planning.problem_names import distinct_values, is_number, varying_parameters
from profiler.render.figures import version_figures as figures
from profiler.render.figures.drawing import Drawing, Mark, to_svg
from profiler.render.tables.rows import (
    Column,
    Datum,
    Row,
    SmallTable,
    verdict_datum,
)
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word
from profiler.render.words.names import shorten
from profiler.render.words.signs import OUTCOME_WORDS
from profiler.render.words.verdicts import ratio_and_symbol, verdict_key

MOST_BARS = 40
_FAR, _CUT = 4.0, 2.5
"""Bars beyond the first times the upper quartile are cut at the second times it."""
MOST_DOTS = 15
MOST_PANELS = 12
MOST_PROBLEM_FIGURES = 16
MOST_METRIC_FIGURES = 10


@dataclass(frozen=True)
class Chart:
    """A figure in the page: what it is called, how to read it, and its drawing."""

    id: str
    title: str
    reading: str
    drawing: Markup
    table: SmallTable | None = None
    """Numbers of the figure."""


def bar_chart(findings: Findings, metric: Label, problem: Problem) -> Chart:
    """Bars of a metric for all variants at one problem."""
    marks, left_out = bar_marks(findings, metric, problem)
    title = f"{metric.label} by variant at {problem.name}"
    limit = _limit([mark.value for mark in marks])
    reading = (
        f"{colours(findings.ranking)} Bar: median. Thin line: 95\u202f% interval of the median, "
        "where it can be seen."
    )
    if math.isfinite(limit):
        reading += " Bars with an arrow are cut: their numbers tell their length."
    if left_out:
        reading += f" The main table alone shows {left_out} more."
    return make_chart(
        f"bars-{metric.name}",
        title,
        reading,
        figures.bars(marks, metric.label, metric.unit, limit),
    )


def mark_of(  # noqa: PLR0913 - what a mark is made of
    ranking: Ranking,
    variant: Variant,
    value: float,
    *,
    ends: tuple[float, float] = (math.nan, math.nan),
    text: str = "",
    name: str | None = None,
    cell: int | None = None,
    place: float = math.nan,
) -> Mark:
    """Mark of a variant, with its role, its number and its label, if it has no other name."""
    number, role = ranking.programs.marks[variant.id], ranking.role(variant)
    name = variant.label if name is None else name
    return Mark(name, value, *ends, text, role, number, cell, place)


def bar_marks(findings: Findings, metric: Label, problem: Problem) -> tuple[list[Mark], int]:
    """Marks for `figures.bars`, best first, and how many variants had no room."""

    def text(variant: Variant, value: Value) -> str:
        if value.present:
            return numbers.show(value.median, metric.unit)
        return _short_reason(findings.programs, variant, problem)

    rows = findings.numbers.sorted_at(problem, metric.name)
    marks = [
        mark_of(
            findings.ranking,
            variant,
            value.median,
            ends=(value.low, value.high),
            text=text(variant, value),
        )
        for number, (variant, value) in enumerate(rows)
        if number < MOST_BARS or variant == findings.programs.baseline
    ]
    return marks, len(rows) - len(marks)


def dot_chart(findings: Findings, problem: Problem) -> Chart | None:
    """Ratios to the baseline at one problem with their intervals; None without any."""
    marks, left_out = dot_marks(findings, problem)
    if not marks:
        return None
    metric, baseline = findings.numbers.primary, findings.programs.baseline
    name = baseline.label if baseline else ""
    reading = (
        f"{colours(findings.ranking)} Bar: 95\u202f% interval of the paired ratio, where it can be "
        f"seen; further left is better. After the number: {verdict_key()}."
    )
    if left_out:
        reading += f" The first {MOST_DOTS} are shown; {left_out} more stand in the main table."
    number = findings.programs.problems.index(problem)
    title = f"{metric.label} relative to {name} at {problem.name}"
    return make_chart(
        f"dots-{number}",
        title,
        reading,
        figures.dots(marks, f"{metric.label} \u00f7 that of {shorten(name, 30)}"),
        table=_dot_table(findings, problem, title, marks),
    )


def dot_marks(findings: Findings, problem: Problem) -> tuple[list[Mark], int]:
    """Marks for `figures.dots`: the best variants and the baseline, and how many had no room."""
    rows = [
        (variant, value)
        for variant, value in findings.numbers.sorted_at(problem, findings.numbers.primary.name)
        if not math.isnan(value.ratio)
    ]
    marks = [
        mark_of(
            findings.ranking,
            variant,
            value.ratio,
            ends=(value.ratio_low, value.ratio_high),
            text=ratio_and_symbol(value.ratio, [findings.verdicts.at(variant, problem)]),
        )
        for number, (variant, value) in enumerate(rows)
        if number < MOST_DOTS or variant == findings.programs.baseline
    ]
    return marks, len(rows) - len(marks)


def line_chart(findings: Findings, metric: Label) -> Chart | None:
    """A metric over the problem's main numeric parameter; None where there is nothing to draw."""
    parameter = main_parameter(findings.programs.problems)
    if parameter is None:
        return None
    every_panel = line_marks(findings, metric, parameter, findings.programs.problems)
    panels = dict(list(every_panel.items())[:MOST_PANELS])
    if all(math.isnan(mark.value) for marks in panels.values() for mark in marks):
        return None
    reading = "A line per variant; colours as in the legend."
    if left_out := len(every_panel) - len(panels):
        reading += f" {left_out} more panels would follow: see the table."
    return make_chart(
        f"lines-{metric.name}",
        f"{metric.label} over {parameter}",
        reading,
        figures.lines(panels, parameter, metric.label, metric.unit),
    )


def main_parameter(problems: Sequence[Problem]) -> str | None:
    """Choose the numeric problem parameter that needs the fewest panels; of several, the last."""
    numeric = [
        key
        for key in varying_parameters(problems)
        if all(map(is_number, distinct_values(problems, key)))
    ]
    panels = {key: len(_panels(problems, key)) for key in numeric}
    fewest = min(panels.values(), default=0)
    return next((key for key, count in reversed(panels.items()) if count == fewest), None)


def line_marks(
    findings: Findings, metric: Label, parameter: str, problems: Sequence[Problem]
) -> dict[str, list[Mark]]:
    """Marks for `figures.lines` by panel: one for each value of the other parameters."""
    return {
        panel: [
            mark_of(
                findings.ranking,
                variant,
                findings.numbers.correct_at(variant, problem, metric.name).median,
                place=float(problem.params[parameter] or 0),
            )
            for problem in of_panel
            for variant in findings.programs.variants
        ]
        for panel, of_panel in _panels(problems, parameter).items()
    }


def _panels(problems: Sequence[Problem], parameter: str) -> dict[str, list[Problem]]:
    other_keys = [key for key in varying_parameters(problems) if key != parameter]
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        name = ", ".join(f"{key} = {problem.params.get(key)}" for key in other_keys)
        groups.setdefault(name, []).append(problem)
    return groups


def problem_charts(findings: Findings) -> Iterator[tuple[str, int, Chart]]:
    """Ratio figures with the name and number of their problem; at most `MOST_PROBLEM_FIGURES`.

    The largest problem comes first.
    """
    largest = findings.ranking.largest_problem
    ordered = sorted(findings.programs.problems, key=lambda problem: problem != largest)
    for problem in ordered[:MOST_PROBLEM_FIGURES]:
        if (chart := dot_chart(findings, problem)) is not None:
            yield problem.name, findings.programs.problem_numbers[problem.id], chart


def _dot_table(
    findings: Findings, problem: Problem, caption: str, marks: Sequence[Mark]
) -> SmallTable:
    def verdict(mark: Mark) -> Datum:
        variant = findings.programs.variants[mark.variant]
        return verdict_datum(findings.verdicts.at(variant, problem))

    columns: tuple[Column[Mark], ...] = (
        Column("ratio", lambda mark: Datum.times(mark.value, "no interval")),
        Column("low", lambda mark: Datum.times(mark.low, "no interval")),
        Column("high", lambda mark: Datum.times(mark.high, "no interval")),
        Column("verdict", verdict, is_text=True),
    )
    return SmallTable.of(
        caption,
        "variant",
        columns,
        marks,
        lambda mark: Row(mark.name, mark=mark.variant, role=mark.role),
    )


def make_chart(  # noqa: PLR0913 - what a chart is made of
    identifier: str,
    title: str,
    reading: str,
    figure: Drawing,
    *,
    hovers: Mapping[int, str] = MappingProxyType({}),
    table: SmallTable | None = None,
) -> Chart:
    """Draw a figure and put its words around it; `identifier` must be unique in the page.

    `hovers`: what stands behind the marks of a variant, by its number.
    """
    identifier = slug(f"figure-{identifier}")
    drawing = to_svg(figure, identifier, title, reading, hovers)
    return Chart(identifier, title, reading, drawing, table)


def colours(ranking: Ranking) -> str:
    """Sentence on the meaning of the two colours."""
    best, baseline = ranking.best, ranking.programs.baseline
    where = "as the only one" if ranking.tunes else "over all problems"
    meaning = f"Blue: {best.label}, the {best_word(ranking)} {where}." if best else ""
    if baseline and baseline != best:
        meaning += f" Orange: {baseline.label}, the baseline."
    return meaning.strip()


def _limit(values: Sequence[float]) -> float:
    """Length at which bars are cut, so that a few do not flatten all others; else infinite.

    Quartiles would not see one long bar, and a mean would follow it. Where most are 0, none is cut.
    """
    present = [value for value in values if not math.isnan(value)]
    usual = float(np.quantile(present, 0.75)) if present else 0.0
    return _CUT * usual if usual > 0 and max(present) > _FAR * usual else math.inf


def _short_reason(programs: Programs, variant: Variant, problem: Problem) -> str:
    cell = programs.at(variant, problem)
    if cell is None:
        return "not in the plan"
    return "no value" if programs.correct(cell) else OUTCOME_WORDS[programs.status(cell).outcome]
