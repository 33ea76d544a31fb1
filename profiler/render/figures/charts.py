"""From look-ups to the tables that figures draw, and to figures with their words around them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from profiler.findings.lookup import OUTCOME_WORDS, Lookup
from profiler.findings.overall import tunes
from profiler.findings.roles import Ranking
from profiler.findings.rulings import symbol, verdict_key
from profiler.findings.values import NAN
from profiler.model import Problem, Variant, slug
from profiler.render.figures import svg
from profiler.render.figures import version_figures as figures
from profiler.render.figures.canvas import Axis
from profiler.render.tables.rows import Datum, Row
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.labels import Label, shorten
from profiler.render.words.problems import distinct, is_number, varying

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


@dataclass(frozen=True)
class Words:
    """What stands around a figure, before its problem is known."""

    id: str
    title: str
    reading: str = ""


@dataclass(frozen=True)
class ProblemChart:
    """The figure of one problem and its table."""

    problem: str
    chart: Chart
    rows: tuple[Row, ...]


def bar_chart(ranking: Ranking, metric: Label, problem: Problem) -> Chart:
    """Bars of a metric for all variants at one problem."""
    table, left_out = bar_table(ranking, metric, problem)
    title = f"{metric.label} by variant at {problem.name}"
    limit = _limit(table["value"])
    reading = (
        f"{colours(ranking)} Bar: median. Thin line: 95\u202f% interval of the median, where it "
        "can be seen."
    )
    if math.isfinite(limit):
        reading += " Bars with an arrow are cut: their numbers tell their length."
    if left_out:
        reading += f" {left_out} more variants stand in the main table only."
    return make_chart(
        f"bars-{metric.name}",
        title,
        reading,
        figures.bars(table, Axis(metric.label, metric.unit), limit),
    )


def bar_table(ranking: Ranking, metric: Label, problem: Problem) -> tuple[pd.DataFrame, int]:
    """Rows for `figures.bars`, best first, and how many variants had no room."""
    rows = ranking.sorted_at(problem, metric.name)
    kept = _keep(ranking, [variant for variant, _ in rows], MOST_BARS)
    table = [
        {
            "name": variant.name,
            "value": value.median,
            "low": value.low,
            "high": value.high,
            "text": numbers.show(value.median, metric.unit)
            if value.known
            else _short_reason(ranking.lookup, variant, problem),
            "role": pole(ranking, variant),
            "mark": ranking.lookup.marks[variant.id],
        }
        for variant, value in rows
        if variant.id in kept
    ]
    return pd.DataFrame(table), len(rows) - len(table)


def dot_chart(ranking: Ranking, problem: Problem, table: pd.DataFrame, left_out: int) -> Chart:
    """Ratios to the baseline at one problem with their intervals, from a `dot_table`."""
    metric, baseline = ranking.lookup.primary, ranking.lookup.baseline
    name = baseline.name if baseline else ""
    better = "right" if metric.better == "higher" else "left"
    reading = (
        f"{colours(ranking)} Bar: 95\u202f% interval of the paired ratio, where it can be seen; "
        f"further {better} is better."
    )
    if ranking.lookup.rulings.given:
        reading += f" After the number: {verdict_key()}."
    if left_out:
        reading += f" The first {MOST_DOTS} are shown; {left_out} more stand in the main table."
    number = ranking.lookup.problems.index(problem)
    return make_chart(
        f"dots-{number}",
        f"{metric.label} relative to {name} at {problem.name}",
        reading,
        figures.dots(table, f"{metric.label} \u00f7 that of {shorten(name, 30)}"),
    )


def dot_table(ranking: Ranking, problem: Problem) -> tuple[pd.DataFrame, int]:
    """Rows for `figures.dots`: the best variants and the baseline, and how many had no room."""
    rows = [
        (variant, value)
        for variant, value in ranking.sorted_at(problem, ranking.lookup.report.primary)
        if pd.notna(value.ratio)
    ]
    baseline = ranking.lookup.report.baseline
    kept = [
        (variant, value)
        for number, (variant, value) in enumerate(rows)
        if number < MOST_DOTS or variant.id == baseline
    ]
    table = [
        {
            "name": variant.name,
            "ratio": value.ratio,
            "low": value.ratio_low,
            "high": value.ratio_high,
            "text": f"{numbers.ratio(value.ratio)} {_symbol(ranking, variant, problem)}".rstrip(),
            "role": pole(ranking, variant),
            "mark": ranking.lookup.marks[variant.id],
        }
        for variant, value in kept
    ]
    return pd.DataFrame(table), len(rows) - len(kept)


def line_chart(ranking: Ranking, metric: Label) -> Chart | None:
    """A metric over the problem's main numeric parameter; None where there is nothing to draw."""
    parameter = main_parameter(ranking.lookup.problems)
    if parameter is None:
        return None
    table, left_out = line_table(ranking, metric, parameter)
    if table["value"].notna().sum() == 0:
        return None
    reading = "A line per variant; colours as in the legend."
    if left_out:
        reading += f" {left_out} more panels would follow: see the table."
    return make_chart(
        f"lines-{metric.name}",
        f"{metric.label} over {parameter}",
        reading,
        figures.lines(table, parameter, Axis(metric.label, metric.unit)),
    )


def main_parameter(problems: Sequence[Problem]) -> str | None:
    """Choose the numeric problem parameter that needs the fewest panels; of several, the last."""
    numeric = [key for key in varying(problems) if all(map(is_number, distinct(problems, key)))]
    panels = {key: len(_panels(problems, key)) for key in numeric}
    fewest = min(panels.values(), default=0)
    return next((key for key, count in reversed(panels.items()) if count == fewest), None)


def line_table(ranking: Ranking, metric: Label, parameter: str) -> tuple[pd.DataFrame, int]:
    """Rows for `figures.lines`, and how many panels had no room."""
    groups = _panels(ranking.lookup.problems, parameter)
    shown = list(groups)[:MOST_PANELS]
    table = [
        {
            "panel": panel,
            "name": variant.name,
            "role": ranking.role(variant),
            "mark": ranking.lookup.marks[variant.id],
            "x": float(problem.params[parameter] or 0),
            "value": _correct_median(ranking.lookup, variant, problem, metric.name),
        }
        for panel in shown
        for problem in groups[panel]
        for variant in ranking.lookup.variants
    ]
    return pd.DataFrame(table), len(groups) - len(shown)


def _panels(problems: Sequence[Problem], parameter: str) -> dict[str, list[Problem]]:
    others = [key for key in varying(problems) if key != parameter]
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        name = ", ".join(f"{key} = {problem.params.get(key)}" for key in others)
        groups.setdefault(name, []).append(problem)
    return groups


def pair_chart(
    ranking: Ranking, words: Words, metrics: Sequence[Label], problem: Problem
) -> Chart | None:
    """Compare several metrics of the best variant and the baseline at one problem."""
    best, baseline = ranking.best, ranking.lookup.baseline
    if best is None or baseline is None or not metrics:
        return None
    table = pair_table(ranking, metrics, problem)
    figure = figures.pairs(table, Axis("", metrics[0].unit), (best.name, baseline.name))
    reading = f"{colours(ranking)} {words.reading}".strip()
    return make_chart(words.id, f"{words.title} at {problem.name}", reading, figure)


def pair_table(ranking: Ranking, metrics: Sequence[Label], problem: Problem) -> pd.DataFrame:
    """Rows for `figures.pairs`; NaN where a value is missing."""
    arms = {"best": ranking.best, "baseline": ranking.lookup.baseline}
    return pd.DataFrame(
        [
            {"name": metric.label}
            | {
                role: NAN
                if variant is None
                else _correct_median(ranking.lookup, variant, problem, metric.name)
                for role, variant in arms.items()
            }
            for metric in metrics
        ]
    )


def problem_charts(ranking: Ranking) -> Iterator[ProblemChart]:
    """Ratio figures for the problems, the largest first; at most `MOST_PROBLEM_FIGURES`."""
    largest = ranking.lookup.largest_problem
    ordered = sorted(ranking.lookup.problems, key=lambda problem: problem != largest)
    for problem in ordered[:MOST_PROBLEM_FIGURES]:
        table, left_out = dot_table(ranking, problem)
        if not table.empty:
            chart = dot_chart(ranking, problem, table, left_out)
            yield ProblemChart(problem.name, chart, tuple(_dot_rows(ranking, problem, table)))


def _dot_rows(ranking: Ranking, problem: Problem, table: pd.DataFrame) -> Iterator[Row]:
    columns = [table[name].tolist() for name in ("name", "mark", "role", "ratio", "low", "high")]
    for name, mark, role, *values in zip(*columns, strict=True):
        ruling = ranking.lookup.ruling(ranking.lookup.variants[mark], problem)
        yield Row(name, mark, role, (*map(_ratio, values), verdict_datum(ruling)))


def _symbol(ranking: Ranking, variant: Variant, problem: Problem) -> str:
    ruling = ranking.lookup.ruling(variant, problem)
    return symbol([ruling])


def _ratio(value: float) -> Datum:
    if pd.isna(value):
        return Datum(title="no interval", css="none")
    return Datum(numbers.ratio(value), numbers.raw(value))


def make_chart(identifier: str, title: str, reading: str, figure: Figure) -> Chart:
    """Draw a figure and put its words around it; `identifier` must be unique in the page."""
    identifier = slug(f"figure-{identifier}")
    return Chart(identifier, title, reading, svg.to_svg(figure, identifier, title, reading))


def pole(ranking: Ranking, variant: Variant) -> str:
    """Role in figures of rows: names stand beside them, so that only two colours are needed."""
    role = ranking.role(variant)
    return role if role in ("best", "baseline") else "other"


def colours(ranking: Ranking) -> str:
    """Say what the two colours mean."""
    best, baseline = ranking.best, ranking.lookup.baseline
    where = "as the only one" if tunes(ranking.lookup) else "over all problems"
    words = f"Blue: {best.name}, the {ranking.best_word} {where}." if best else ""
    if baseline and baseline != best:
        words += f" Orange: {baseline.name}, the baseline."
    return words.strip()


def _limit(values: pd.Series[float]) -> float:
    """Where bars are cut, so that a few far longer ones do not flatten all others; else infinite.

    Quartiles would not see one long bar, and a mean would follow it.
    """
    usual = float(values.quantile(0.75))
    return _CUT * usual if values.max() > _FAR * usual else math.inf


def _keep(ranking: Ranking, variants: Sequence[Variant], most: int) -> set[str]:
    """Ids of the first variants of a list, the baseline always among them."""
    kept = {variant.id for variant in variants[:most]}
    baseline = ranking.lookup.baseline
    return kept | {baseline.id} if baseline else kept


def _correct_median(lookup: Lookup, variant: Variant, problem: Problem, metric: str) -> float:
    correct = lookup.correct(lookup.cells.get((variant.id, problem.id)))
    return lookup.at(variant, problem, metric).median if correct else NAN


def _short_reason(lookup: Lookup, variant: Variant, problem: Problem) -> str:
    cell = lookup.cells.get((variant.id, problem.id))
    if cell is None:
        return "not in the plan"
    return "no value" if lookup.correct(cell) else OUTCOME_WORDS[lookup.status(cell).outcome]
