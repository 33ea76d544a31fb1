"""The pages of kernel versions, of many configurations, and of flags on and off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import counter_medians
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Effect, StepEffect
from profiler.findings.method import run_funnel
from profiler.findings.verdicts import PairVerdict
from profiler.metrics.queries import Label
from profiler.model import Problem
from profiler.notices import counted
from profiler.render.figures import charts
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Mark
from profiler.render.kinds.ratios import (
    configurations_chart,
    contrasts_chart,
    steps_chart,
    timers_chart,
    versions_chart,
)
from profiler.render.searches import course_chart
from profiler.render.tables import heats
from profiler.render.tables.heats import Heat, RatioScale, moved_table, scale_of
from profiler.render.tables.rows import (
    Column,
    Datum,
    Row,
    SmallTable,
    counts_datum,
    raw_or_none,
    shown_metrics,
    verdict_datum,
)
from profiler.render.tables.slowdowns import (
    single_choice_table,
    slowdown_heats,
    slowdown_legend,
)
from profiler.render.timeline.in_kernel_section import close_ups_chart
from profiler.render.words import numbers
from profiler.render.words.comparisons import step_name, step_summary
from profiler.render.words.names import shorten
from profiler.render.words.verdicts import after_number, heat_mark, word_of

View = dict[str, Any]
"""Variables of one kind of page; among them `template` and `heading` of its own part, and `first`,
the figure of the first screen: None where nothing can be drawn."""


def versions_view(findings: Findings) -> View:
    """Kernel versions side by side: ratios to the baseline at every problem."""
    return {
        "template": "versions.html",
        "heading": f"{findings.numbers.primary.label} between versions",
        "first": _first(findings),
        "heat": heats.heat(findings),
        **problem_parts(findings),
        **metric_parts(findings),
    }


def _first(findings: Findings) -> Chart | None:
    """Ratios of timers where these are what is compared; what a kernel did inside, if recorded."""
    timers = findings.timers
    if timers is not None and timers.compared:
        return timers_chart(findings.programs, timers)
    return close_ups_chart(findings) or contrasts_chart(findings) or versions_chart(findings)


def problem_parts(findings: Findings) -> dict[str, Any]:
    """Ratios to the baseline with their intervals, a figure for each problem."""
    shown_problems = len(findings.programs.problems) if findings.programs.baseline else 0
    return {
        "problem_charts": tuple(charts.problem_charts(findings)),
        "left_out_problems": max(0, shown_problems - charts.MOST_PROBLEM_FIGURES),
    }


def metric_parts(findings: Findings) -> dict[str, Any]:
    """The most telling metrics, one block each."""
    blocks = tuple(
        _metric_block(findings, metric)
        for metric in shown_metrics(findings)[: charts.MOST_METRIC_FIGURES]
        if metric in findings.numbers.metrics
    )
    return {
        "metric_blocks": blocks,
        "left_out_metrics": len(findings.numbers.metrics) - len(blocks),
    }


def _metric_block(findings: Findings, metric: Label) -> tuple[Label, tuple[Chart, ...]]:
    """Metric and its figures; the page's script makes their table."""
    problem = findings.ranking.largest_problem
    drawn = [charts.line_chart(findings, metric)]
    if problem is not None:
        drawn.insert(0, charts.bar_chart(findings, metric, problem))
    return metric, tuple(chart for chart in drawn if chart is not None)


# ---- many configurations on few problems --------------------------------------------------------


def autotune_view(findings: Findings) -> View:
    """Ratios to the best, one configuration for all, parameters, needs and the funnel."""
    course = course_chart(findings, "first")
    return {
        "template": "autotune.html",
        "heading": "Which configuration",
        "first": course or configurations_chart(findings),
        "heats": slowdown_heats(findings),
        "heat_legend": slowdown_legend(),
        "single_choice": single_choice_table(findings.ranking),
        "effects": parameter_effects(findings),
        "funnel": run_funnel(findings.report),
        "configurations": configurations_chart(findings, "configurations") if course else None,
        **problem_parts(findings),
        **metric_parts(findings),
    }


# ---- effect of each parameter: variants that differ in nothing else ------------------------------


MOST_EFFECTS = 60


def parameter_effects(findings: Findings) -> dict[str, Any] | None:
    """Effect of every parameter of the variants that are no references; None without a pair.

    The chart has the first `MOST_EFFECTS` of the steps that stand in the table.
    """
    steps = findings.parameter_steps
    if not steps:
        return None
    return {
        "table": effect_heat(findings, steps),
        "chart": _parameters_chart(findings.numbers, steps),
        "left_out": max(0, len(steps) - MOST_EFFECTS),
    }


def effect_heat(findings: Findings, step_effects: Sequence[StepEffect]) -> Heat:
    """Ratio after ÷ before of every step: over all problems, its range, and by problem."""
    problems = findings.programs.problems
    scale = scale_of(effect.ratio for row in step_effects for effect in row.effects)
    rows = []
    for step_effect in step_effects:
        overall = step_effect.overall
        data = (
            _ratio_datum(overall.ratio, "geometric mean over the problems"),
            counts_datum(step_effect.verdicts),
            _ratio_datum(overall.smallest),
            _ratio_datum(overall.largest),
            Datum(
                str(_most_pairs(step_effect.effects)), title=f"{overall.pairs} over all problems"
            ),
            *(
                _effect_datum(problem.name, effect, pair, scale)
                for problem, effect, pair in step_effect.by(problems)
            ),
        )
        rows.append(Row(step_name(step_effect.step), data))
    return Heat(
        f"{findings.numbers.primary.label} after ÷ before, steps of parameters by problems",
        problems,
        tuple(rows),
        ("mean", "verdicts", "lowest", "highest", "pairs"),
        rows_are="step",
        scale=scale,
    )


def _effect_datum(problem: str, effect: Effect, pair: PairVerdict, scale: RatioScale) -> Datum:
    if not effect.pairs:
        return Datum(title="no pair was measured", css="none")
    between = numbers.interval(effect.low, effect.high)
    span = f"{numbers.ratio(effect.smallest)} to {numbers.ratio(effect.largest)}"
    ratio = f"{numbers.ratio(effect.ratio)} {between}".rstrip()
    text = f"{problem}: {ratio}; {_pairs([effect])}, {span}"
    css = scale.css(effect.ratio) + heat_mark(pair)
    return _ratio_datum(effect.ratio, text + after_number(pair), css)


def _ratio_datum(ratio: float, title: str = "", css: str = "") -> Datum:
    return Datum(numbers.plain_ratio(ratio), raw_or_none(ratio), title, css)


def _most_pairs(effects: Sequence[Effect]) -> int:
    return max(effect.pairs for effect in effects)


def _pairs(effects: Sequence[Effect]) -> str:
    return counted(_most_pairs(effects), "pair")


def _parameters_chart(numbers: CellNumbers, step_effects: Sequence[StepEffect]) -> Chart:
    metric = numbers.primary.label
    reading = (
        f"{metric} after ÷ before, of variants that differ in this parameter only. Dot: geometric "
        "mean. Bar: from the lowest to the highest pair at any problem."
    )
    label = f"{metric}, after \u00f7 before"
    drawing = figures.dots(list(map(_mark, step_effects[:MOST_EFFECTS])), label, effects=True)
    return make_chart("effects", f"{metric} after a step of one parameter", reading, drawing)


def _mark(step_effect: StepEffect) -> Mark:
    """A step over all problems."""
    overall = step_effect.overall
    text = f"{numbers.ratio(overall.ratio)}  ({_pairs(step_effect.effects)})"
    name = step_name(step_effect.step)
    return Mark(name, overall.ratio, overall.smallest, overall.largest, text, "ink")


def problem_effect_marks(problems: Sequence[Problem], step_effect: StepEffect) -> list[Mark]:
    """Marks of a step at each problem, with its interval."""
    return [
        Mark(
            shorten(problem.name),
            *(effect.ratio, effect.low, effect.high),
            f"{numbers.ratio(effect.ratio)}  {word_of(pair)}".rstrip(),
            "ink",
        )
        for problem, effect, pair in step_effect.by(problems)
        if effect.pairs
    ]


# ---- flags on and off: what each step of a parameter changes -------------------------------------


MOST_STEPS = 12


def ablation_view(findings: Findings) -> View:
    """All steps in one table, then each step with its figure and its counters."""
    step_effects = findings.parameter_steps
    medians = counter_medians(findings.numbers)
    blocks = [
        {
            "name": step_name(step_effect.step),
            "summary": step_summary(findings.programs.problems, step_effect),
            "verdict": counts_datum(step_effect.verdicts),
            "chart": _effect_chart(findings.numbers, number, step_effect),
            "moved": moved_table(findings.programs, step_effect.step, medians),
        }
        for number, step_effect in enumerate(step_effects[:MOST_STEPS])
    ]
    return {
        "template": "ablation.html",
        "heading": "What each step changes",
        "first": steps_chart(findings),
        "steps": effect_heat(findings, step_effects) if step_effects else None,
        "ablations": blocks,
        "left_out_steps": len(step_effects) - len(blocks),
        **metric_parts(findings),
    }


def _effect_chart(numbers: CellNumbers, number: int, step_effect: StepEffect) -> Chart:
    """Effect of a step by problem, as a figure and a table."""
    name, metric = step_name(step_effect.step), numbers.primary.label
    title = f"{name}: {metric.lower()} by problem"
    reading = (
        f"{metric} after \u00f7 before, of variants that differ in nothing else, paired block by "
        "block. Dot: geometric mean of the pairs. Bar: its 95\u202f% interval, where it is seen."
    )
    problems = numbers.programs.problems
    marks = problem_effect_marks(problems, step_effect)
    figure = figures.dots(marks, f"{metric}, after \u00f7 before", effects=True)
    rows = step_effect.by(problems)
    table = SmallTable.of(title, "problem", _EFFECT_COLUMNS, rows, lambda row: Row(row[0].name))
    return make_chart(f"ablation-{number}", title, reading, figure, table=table)


def _effect_column(head: str, name: str) -> Column[_EffectRow]:
    def ratio(row: _EffectRow) -> Datum:
        effect = row[1]
        return Datum.times(getattr(effect, name), "no interval" if effect.pairs else "no pair")

    return Column(head, ratio)


def _effect_verdict(row: _EffectRow) -> Datum:
    """The verdict; none where no pair was measured."""
    pair = row[2]
    return verdict_datum(pair) if pair.verdict else Datum(title="no interval", css="none")


_EffectRow = tuple[Problem, Effect, PairVerdict]
_EFFECT_COLUMNS: tuple[Column[_EffectRow], ...] = (
    _effect_column("after \u00f7 before", "ratio"),
    _effect_column("low", "low"),
    _effect_column("high", "high"),
    Column("verdict", _effect_verdict, is_text=True),
    Column("pairs", lambda row: Datum(str(row[1].pairs))),
    _effect_column("lowest", "smallest"),
    _effect_column("highest", "largest"),
)
