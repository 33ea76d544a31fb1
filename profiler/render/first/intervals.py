"""Ratios with intervals: the best variants of each problem, and the steps of an ablation."""

from __future__ import annotations

import pandas as pd

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.steps import StepEffect
from profiler.model import Cell, Problem
from profiler.render.figures import interval_panels
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.first.maps import problems_chart
from profiler.render.tables.heats import heat_ratio, heat_verdict
from profiler.render.words import numbers
from profiler.render.words.steps import step_name
from profiler.render.words.verdicts import counted, symbol, verdict_key

MOST_PROBLEMS = 12
"""Beyond, panels could not be read, and a heat map has all problems."""
MOST_STEPS = 6
_COLUMNS = ["panel", "name", "ratio", "low", "high", "text", "role", "mark", "cell"]
_NO_VARIANT = -1


def versions_chart(findings: Findings) -> Chart | None:
    """Variants by problem, best first; of many problems their heat map."""
    programs = findings.programs
    if len(programs.problems) > MOST_PROBLEMS:
        return problems_chart(findings)
    if not programs.problems:
        return None
    lines = interval_panels.layout(len(programs.problems)).lines
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
    figure = interval_panels.interval_panels(table, f"{metric} \u00f7 that of {against}")
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
    sign = symbol([heat_verdict(findings, cell)])
    return (
        cell.variant.label,
        *(ratio, low, high),
        f"{numbers.ratio(ratio)} {sign}".rstrip(),
        findings.ranking.role(cell.variant),
        findings.programs.marks[cell.variant.id],
        findings.programs.cell_numbers[cell.id],
    )


def steps_chart(findings: Findings) -> Chart | None:
    """A panel for each step of a parameter, with its effect at every problem."""
    steps = findings.kind.parameter_steps[:MOST_STEPS]
    if not steps or len(findings.programs.problems) > 2 * MOST_PROBLEMS:
        return None
    rows = [row for step_effect in steps for row in _step_rows(findings.programs, step_effect)]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    metric = findings.numbers.primary.label
    reading = (
        "Only variants that differ in nothing else are compared; bars are 95\u202f% intervals."
    )
    left_out = len(findings.kind.parameter_steps) - len(steps)
    if left_out:
        reading += f" {left_out} more steps stand below."
    figure = interval_panels.interval_panels(
        table, f"{metric} after the step \u00f7 before it", same_rows=True
    )
    return make_chart("first", f"{metric} after each step by problem", reading, figure)


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
            f"{numbers.ratio(effect.ratio)} {symbol([pair])}".rstrip(),
            "ink",
            _NO_VARIANT,
            _NO_VARIANT,
        )
        for problem, effect, pair in triples
        if effect.pairs
    ]
