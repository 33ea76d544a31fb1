"""Ratios on the first screen: variants and steps with intervals, configurations, timers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from profiler.findings.cell_numbers import Value
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Contrast, StepEffect, contrasts
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.model import Cell, Problem
from profiler.planning.problem_names import varying
from profiler.render.figures import palette, ratio_rows
from profiler.render.figures.axes import Handle, symbol_handle
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.palette import colour_of
from profiler.render.figures.ratio_rows import RowText, reference_handle
from profiler.render.kinds.maps import problems_chart
from profiler.render.tables.heats import heat_ratio, heat_verdict
from profiler.render.words import numbers
from profiler.render.words.comparisons import step_name
from profiler.render.words.names import shorten
from profiler.render.words.verdicts import counted, ratio_and_symbol, verdict_key

MOST_PROBLEMS = 12
"""Beyond, panels could not be read, and a heat map has all problems."""
MOST_STEPS = 6
_COLUMNS = ["panel", "name", "ratio", "low", "high", "text", "role", "mark", "cell"]
_NO_VARIANT = ("ink", -1, -1)
"""Role, mark and cell of a row that is no variant's."""


def versions_chart(findings: Findings) -> Chart | None:
    """Variants by problem, best first; of many problems their heat map."""
    programs = findings.programs
    if len(programs.problems) > MOST_PROBLEMS:
        return problems_chart(findings)
    if not programs.problems:
        return None
    lines = ratio_rows.lines_of(len(programs.problems))
    rows = [row for problem in programs.problems for row in _rows(findings, problem, lines)]
    if not rows:
        return None
    table = pd.DataFrame(rows, columns=_COLUMNS)
    against = programs.baseline.label if programs.baseline else "the best"
    reading = "Best first, with 95\u202f% intervals."
    if findings.verdicts.given:
        reading += f" {verdict_key()}."
    if len(programs.variants) > lines:
        reading += f" The first {lines} of each problem."
    metric = findings.numbers.primary.label
    figure = ratio_rows.interval_panels(table, f"{metric} \u00f7 that of {against}")
    return make_chart("first", f"{metric} by problem", reading, figure)


def _rows(findings: Findings, problem: Problem, most: int) -> list[tuple[object, ...]]:
    """Rows of one problem: its best variants, and the baseline where it is not among them."""
    in_order = [
        (variant, findings.programs.by_place[variant.id, problem.id])
        for variant, value in findings.numbers.sorted_at(problem, findings.numbers.primary.name)
        if value.present
    ]
    with_ratio = [pair for pair in in_order if heat_ratio(findings, pair[1])[0] > 0]
    last = [pair for pair in with_ratio[most:] if pair[0] == findings.programs.baseline]
    shown = [*with_ratio[: most - len(last)], *last]
    if not shown:
        return []
    best = findings.numbers.value(shown[0][1], findings.numbers.primary.name).median
    panel = f"{problem.name} \u00b7 {numbers.show(best, findings.numbers.primary.unit)}"
    return [(panel, *_row(findings, cell)) for _, cell in shown]


def _row(findings: Findings, cell: Cell) -> tuple[object, ...]:
    ratio, low, high = heat_ratio(findings, cell)
    return (
        cell.variant.label,
        *(ratio, low, high),
        ratio_and_symbol(ratio, [heat_verdict(findings, cell)]),
        findings.ranking.role(cell.variant),
        findings.programs.marks[cell.variant.id],
        findings.programs.cell_numbers[cell.id],
    )


def steps_chart(findings: Findings) -> Chart | None:
    """A panel for each step of a parameter, with its effect at every problem."""
    steps = findings.parameter_steps[:MOST_STEPS]
    if not steps or len(findings.programs.problems) > 2 * MOST_PROBLEMS:
        return None
    rows = [row for step_effect in steps for row in _step_rows(findings.programs, step_effect)]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    metric = findings.numbers.primary.label
    reading = (
        "Only variants that differ in nothing else are compared; bars are 95\u202f% intervals."
    )
    left_out = len(findings.parameter_steps) - len(steps)
    if left_out:
        reading += f" {left_out} more steps stand below."
    figure = ratio_rows.interval_panels(
        table, f"{metric} after the step \u00f7 before it", same_rows=True
    )
    return make_chart("first", f"{metric} after each step by problem", reading, figure)


def contrasts_chart(findings: Findings) -> Chart | None:
    """What a parameter of the problems changes, a panel for each value, then flags of variants."""
    differences = contrasts(findings.ranking, findings.report.settings)
    most = max((len(contrast.ratios) for contrast in differences), default=0)
    if not differences or most > 2 * MOST_PROBLEMS:
        return None
    steps = findings.parameter_steps[: max(MOST_STEPS - len(differences), 0)]
    rows = [row for contrast in differences for row in _contrast_rows(findings.programs, contrast)]
    rows += [row for effect in steps for row in _step_rows(findings.programs, effect)]
    metric = findings.numbers.primary.label
    reading = "The best of each problem is compared with that of the problem that differs in this."
    if steps:
        reading += " Variants that differ in a flag have 95\u202f% intervals."
    table = pd.DataFrame(rows, columns=_COLUMNS)
    figure = ratio_rows.interval_panels(table, f"{metric} after the step \u00f7 before it")
    return make_chart("first", f"What {differences[0].step.parameter} changes", reading, figure)


def _contrast_rows(programs: Programs, contrast: Contrast) -> list[tuple[object, ...]]:
    panel = f"{step_name(contrast.step)}: {numbers.ratio(contrast.ratio)}"
    keys = [key for key in varying(programs.problems) if key != contrast.step.parameter]
    return [
        (
            panel,
            ", ".join(f"{key}={problem.params.get(key)}" for key in keys) or problem.name,
            *(ratio, math.nan, math.nan),
            numbers.ratio(ratio),
            *_NO_VARIANT,
        )
        for problem, ratio in contrast.ratios
    ]


def _step_rows(programs: Programs, step_effect: StepEffect) -> list[tuple[object, ...]]:
    mean = numbers.ratio(step_effect.overall.ratio)
    verdicts = counted(step_effect.verdicts)
    panel = ", ".join(filter(None, (f"{step_name(step_effect.step)}: {mean}", verdicts)))
    triples = zip(programs.problems, step_effect.effects, step_effect.verdicts, strict=True)
    return [
        (
            panel,
            problem.name,
            *(effect.ratio, effect.low, effect.high),
            ratio_and_symbol(effect.ratio, [pair]),
            *_NO_VARIANT,
        )
        for problem, effect, pair in triples
        if effect.pairs
    ]


# ---- all configurations by problem, with the references as lines ---------------------------------


MOST_STRIPS = 16
_STRIP_COLUMNS = ["row", "ratio", "role", "mark", "cell"]


def configurations_chart(findings: Findings, chart_id: str = "first") -> Chart | None:
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
    figure = ratio_rows.strip(
        dots,
        references,
        [_row_text(findings, problem) for problem in problems],
        _entries(findings.ranking, dots, references),
        f"{metric.label} \u00f7 {against}",
    )
    title = f"{metric.label} of every configuration by problem"
    return make_chart(chart_id, title, reading, figure)


def _shown(ranking: Ranking) -> tuple[Problem, ...]:
    """Problems that have room, the ones that take longest; in the order of the plan."""
    with_winner = [
        problem for problem in ranking.programs.problems if problem.id in ranking.rival_winners
    ]
    longest = sorted(
        with_winner, key=lambda problem: -ranking.rival_winners[problem.id].value.median
    )[:MOST_STRIPS]
    return tuple(problem for problem in with_winner if problem in longest)


def strip_tables(
    findings: Findings, problems: Sequence[Problem]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows for `ratio_rows.strip`: dots of rivals, and lines of references."""
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
    return pd.DataFrame(dots, columns=_STRIP_COLUMNS), pd.DataFrame(
        references, columns=_STRIP_COLUMNS
    )


def _row_text(findings: Findings, problem: Problem) -> RowText:
    value: Value = findings.ranking.rival_winners[problem.id].value
    return problem.name, numbers.show(value.median, findings.numbers.primary.unit)


def _entries(ranking: Ranking, dots: pd.DataFrame, references: pd.DataFrame) -> tuple[Handle, ...]:
    """Legend: the named configurations, all others, then the references."""

    def named(table: pd.DataFrame) -> list[tuple[str, str]]:
        marks = table[table["role"] != "other"]["mark"].unique()
        variants = [ranking.programs.variants[int(mark)] for mark in sorted(marks)]
        return [(shorten(variant.label), colour_of(ranking.role(variant))) for variant in variants]

    others = dots[dots["role"] == "other"]["mark"].nunique()
    return (
        *(symbol_handle(*entry) for entry in named(dots)),
        *([symbol_handle(f"{others} others", colour_of("other"))] if others else []),
        *(reference_handle(*entry) for entry in named(references)),
    )


# ---- times by each timer, relative to the one that all are compared with -------------------------


MOST_CELLS = 18
_LOOKS = (
    (palette.SERIES[0], "o"),
    (palette.SERIES[1], "s"),
    (palette.SERIES[2], "D"),
    (palette.MUTED, "^"),
)
"""Colour and marker of each timer; those of variants are others."""


def timers_chart(programs: Programs, timers: TimerComparison) -> Chart:
    """A row for each cell, those that take least first; a mark for each timer."""
    medians = timers.medians[timers.medians["ratio"] > 0]
    times = medians.groupby("cell")["reference"].first().sort_values(kind="stable")
    shown = list(times.index[:MOST_CELLS])
    places = {cell: row for row, cell in enumerate(shown)}
    collectors = timers.collectors[: len(_LOOKS)]
    looks = dict(zip(collectors, _LOOKS, strict=False))
    cells = {cell.id: cell for cell in programs.cells}
    rows = [
        (
            places[row["cell"]],
            row["ratio"],
            *looks[row["collector"]],
            programs.marks[cells[row["cell"]].variant.id],
            programs.cell_numbers[row["cell"]],
        )
        for row in medians.to_dict("records")
        if row["cell"] in places and row["collector"] in looks
    ]
    table = pd.DataFrame(rows, columns=["row", "ratio", "colour", "marker", "mark", "cell"])
    reference = timers.title(timers.reference)
    texts = [
        (
            f"{cells[cell].problem.name} \u00b7 {cells[cell].variant.label}",
            numbers.show(float(times[cell]), "ns"),
        )
        for cell in shown
    ]
    reading = f"Shortest first; right, the time by {reference}."
    left_out = len(times) - len(shown)
    if left_out:
        reading += f" {left_out} longer ones stand in the tables only."
    figure = ratio_rows.timer_ratios(
        table,
        texts,
        [symbol_handle(timers.title(timer), *looks[timer]) for timer in collectors],
        f"time by each timer \u00f7 time by {reference}",
    )
    return make_chart("first", f"Ratio of each timer to {reference}", reading, figure)
