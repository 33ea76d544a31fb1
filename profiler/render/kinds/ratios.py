"""Ratios on the first screen: variants and steps with intervals, configurations, timers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiler.findings.cell_numbers import Value
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Contrast, StepEffect, contrasts
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.model import Cell, Problem
from profiler.planning.problem_names import varying_parameters
from profiler.render.figures import ratio_rows, styles
from profiler.render.figures.axes import Handle, symbol_handle
from profiler.render.figures.charts import Chart, make_chart, mark_of
from profiler.render.figures.drawing import Mark
from profiler.render.figures.ratio_rows import RowText
from profiler.render.kinds.maps import problems_chart
from profiler.render.tables.heats import heat_ratio, heat_verdict
from profiler.render.words import numbers
from profiler.render.words.comparisons import step_name
from profiler.render.words.names import shorten
from profiler.render.words.verdicts import ratio_and_symbol, verdict_counts, verdict_key

MOST_PROBLEMS = 12
"""Beyond, panels could not be read, and a heat map has all problems."""
MOST_STEPS = 6


def versions_chart(findings: Findings) -> Chart | None:
    """Variants by problem, best first; of many problems their heat map."""
    programs = findings.programs
    if len(programs.problems) > MOST_PROBLEMS:
        return problems_chart(findings)
    if not programs.problems:
        return None
    lines = ratio_rows.lines_of(len(programs.problems))
    panels = dict(
        _panel(findings, cells)
        for problem in programs.problems
        if (cells := _shown_cells(findings, problem, lines))
    )
    if not panels:
        return None
    against = programs.baseline.label if programs.baseline else "the best"
    reading = f"Best first, with 95\u202f% intervals. {verdict_key()}."
    if len(programs.variants) > lines:
        reading += f" The first {lines} of each problem."
    metric = findings.numbers.primary.label
    figure = ratio_rows.interval_panels(panels, f"{metric} \u00f7 that of {against}")
    return make_chart("first", f"{metric} by problem", reading, figure)


def _shown_cells(findings: Findings, problem: Problem, most: int) -> list[Cell]:
    """The best cells of a problem, and that of the baseline where it is not among them."""
    in_order = [
        findings.programs.by_place[variant.id, problem.id]
        for variant, value in findings.numbers.sorted_at(problem, findings.numbers.primary.name)
        if value.present
    ]
    with_ratio = [cell for cell in in_order if heat_ratio(findings, cell)[0] > 0]
    last = [cell for cell in with_ratio[most:] if cell.variant == findings.programs.baseline]
    return [*with_ratio[: most - len(last)], *last]


def _panel(findings: Findings, cells: Sequence[Cell]) -> tuple[str, list[Mark]]:
    """Title of a panel, with the time of the best of its problem, and its marks."""
    primary = findings.numbers.primary
    best = findings.numbers.duration(cells[0]).median
    title = f"{cells[0].problem.name} \u00b7 {numbers.show(best, primary.unit)}"
    return title, [_mark(findings, cell) for cell in cells]


def _mark(findings: Findings, cell: Cell, place: float = math.nan) -> Mark:
    ratio, low, high = heat_ratio(findings, cell)
    return mark_of(
        findings.ranking,
        cell.variant,
        ratio,
        ends=(low, high),
        text=ratio_and_symbol(ratio, [heat_verdict(findings, cell)]),
        cell=findings.programs.cell_numbers[cell.id],
        place=place,
    )


def steps_chart(findings: Findings) -> Chart | None:
    """A panel for each step of a parameter, with its effect at every problem."""
    steps = findings.parameter_steps[:MOST_STEPS]
    if not steps or len(findings.programs.problems) > 2 * MOST_PROBLEMS:
        return None
    panels = dict(_step_panel(findings.programs, step_effect) for step_effect in steps)
    metric = findings.numbers.primary.label
    reading = (
        "Only variants that differ in nothing else are compared; bars are 95\u202f% intervals."
    )
    left_out = len(findings.parameter_steps) - len(steps)
    if left_out:
        reading += f" {left_out} more steps stand below."
    figure = ratio_rows.interval_panels(
        panels, f"{metric} after the step \u00f7 before it", same_rows=True
    )
    return make_chart("first", f"{metric} after each step by problem", reading, figure)


def contrasts_chart(findings: Findings) -> Chart | None:
    """Chart of a parameter of the problems, a panel for each value, then flags of variants."""
    differences = contrasts(findings.ranking, findings.report.settings)
    most = max((len(contrast.ratios) for contrast in differences), default=0)
    if not differences or most > 2 * MOST_PROBLEMS:
        return None
    steps = findings.parameter_steps[: max(MOST_STEPS - len(differences), 0)]
    panels = dict(_contrast_panel(findings.programs, contrast) for contrast in differences)
    panels |= dict(_step_panel(findings.programs, effect) for effect in steps)
    metric = findings.numbers.primary.label
    reading = "The best of each problem is compared with that of the problem that differs in this."
    if steps:
        reading += " Variants that differ in a flag have 95\u202f% intervals."
    figure = ratio_rows.interval_panels(panels, f"{metric} after the step \u00f7 before it")
    return make_chart("first", f"What {differences[0].step.parameter} changes", reading, figure)


def _contrast_panel(programs: Programs, contrast: Contrast) -> tuple[str, list[Mark]]:
    title = f"{step_name(contrast.step)}: {numbers.ratio(contrast.ratio)}"
    keys = [key for key in varying_parameters(programs.problems) if key != contrast.step.parameter]
    return title, [
        Mark(
            ", ".join(f"{key}={problem.params.get(key)}" for key in keys) or problem.name,
            ratio,
            text=numbers.ratio(ratio),
            role="ink",
        )
        for problem, ratio in contrast.ratios
    ]


def _step_panel(programs: Programs, step_effect: StepEffect) -> tuple[str, list[Mark]]:
    mean = numbers.ratio(step_effect.overall.ratio)
    verdicts = verdict_counts(step_effect.verdicts)
    title = ", ".join(filter(None, (f"{step_name(step_effect.step)}: {mean}", verdicts)))
    return title, [
        Mark(
            problem.name,
            *(effect.ratio, effect.low, effect.high),
            ratio_and_symbol(effect.ratio, [pair]),
            "ink",
        )
        for problem, effect, pair in step_effect.by(programs.problems)
        if effect.pairs
    ]


# ---- all configurations by problem, with the references as lines ---------------------------------


MOST_STRIPS = 16


def configurations_chart(findings: Findings, chart_id: str = "first") -> Chart | None:
    """Ratio of every configuration at each problem; None without a correct result."""
    problems = _shown_problems(findings.ranking)
    dots, references = strip_marks(findings, problems)
    if not dots:
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
        _entries(dots, references),
        f"{metric.label} \u00f7 {against}",
    )
    title = f"{metric.label} of every configuration by problem"
    return make_chart(chart_id, title, reading, figure)


def _shown_problems(ranking: Ranking) -> tuple[Problem, ...]:
    """Problems that have room, the ones that take longest; in the order of the plan."""
    with_winner = [
        problem for problem in ranking.programs.problems if problem.id in ranking.rival_winners
    ]
    longest = sorted(
        with_winner, key=lambda problem: -ranking.rival_winners[problem.id].value.median
    )[:MOST_STRIPS]
    return tuple(problem for problem in with_winner if problem in longest)


def strip_marks(findings: Findings, problems: Sequence[Problem]) -> tuple[list[Mark], list[Mark]]:
    """Marks for `ratio_rows.strip`: dots of rivals, and lines of references."""
    programs = findings.programs
    dots: list[Mark] = []
    references: list[Mark] = []
    for row, problem in enumerate(problems):
        for variant in programs.variants:
            cell = programs.correct_at(variant, problem)
            if cell and heat_ratio(findings, cell)[0] > 0:
                marks = references if variant.id in programs.references else dots
                marks.append(_mark(findings, cell, row))
    return dots, references


def _row_text(findings: Findings, problem: Problem) -> RowText:
    value: Value = findings.ranking.rival_winners[problem.id].value
    return problem.name, numbers.show(value.median, findings.numbers.primary.unit)


def _entries(dots: Sequence[Mark], references: Sequence[Mark]) -> tuple[Handle, ...]:
    """Legend: the named configurations, all others, then the references."""

    def named(marks: Sequence[Mark]) -> list[tuple[str, str]]:
        of_variants = {mark.variant: mark for mark in marks if mark.role != "other"}
        in_order = (of_variants[variant] for variant in sorted(of_variants))
        return [(shorten(mark.name), mark.colour) for mark in in_order]

    other_variants = len({mark.variant for mark in dots if mark.role == "other"})
    return (
        *(symbol_handle(*entry) for entry in named(dots)),
        *([symbol_handle(f"{other_variants} others", styles.OTHER)] if other_variants else []),
        *(Handle(name, styles.line(colour, 2.2)) for name, colour in named(references)),
    )


# ---- times by each timer, relative to the one that all are compared with -------------------------


MOST_CELLS = 18
_LOOKS = (("series-1", "o"), ("series-2", "s"), ("series-3", "D"), ("muted", "^"))
"""Role, for its colour, and marker of each timer; those of variants are others."""


def timers_chart(programs: Programs, timers: TimerComparison) -> Chart:
    """A row for each cell, those that take least first; a mark for each timer."""
    medians = timers.medians[timers.medians["ratio"] > 0]
    times = medians.groupby("cell")["reference"].first().sort_values(kind="stable")
    shown_cells = list(times.index[:MOST_CELLS])
    places = {cell: row for row, cell in enumerate(shown_cells)}
    looks = dict(zip(timers.collectors[: len(_LOOKS)], _LOOKS, strict=False))
    cells = {cell.id: cell for cell in programs.cells}
    marks: dict[str, list[Mark]] = {}
    for row in medians.to_dict("records"):
        if row["cell"] in places and row["collector"] in looks:
            role, kind = looks[row["collector"]]
            variant = programs.marks[cells[row["cell"]].variant.id]
            number, place = programs.cell_numbers[row["cell"]], places[row["cell"]]
            mark = Mark("", row["ratio"], role=role, variant=variant, cell=number, place=place)
            marks.setdefault(kind, []).append(mark)
    reference = timers.title(timers.reference)
    texts = [
        (
            f"{cells[cell].problem.name} \u00b7 {cells[cell].variant.label}",
            numbers.show(float(times[cell]), "ns"),
        )
        for cell in shown_cells
    ]
    reading = f"Shortest first; right, the time by {reference}."
    left_out = len(times) - len(shown_cells)
    if left_out:
        reading += f" {left_out} longer ones stand in the tables only."
    figure = ratio_rows.timer_ratios(
        marks,
        texts,
        [
            symbol_handle(timers.title(timer), styles.colour_of(role), kind)
            for timer, (role, kind) in looks.items()
        ],
        f"time by each timer \u00f7 time by {reference}",
    )
    return make_chart("first", f"Ratio of each timer to {reference}", reading, figure)
