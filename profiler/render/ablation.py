"""The page of flags on and off: what each step of a parameter changes, problem by problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.analyse.effects import Effect, Medians
from profiler.model import Problem
from profiler.render import effect_figures, numbers
from profiler.render.charts import Chart, make_chart
from profiler.render.effects import NO_VARIANT, effect_heat, problem_effect_table
from profiler.render.labels import Label
from profiler.render.lookup import Lookup
from profiler.render.moved import counters, medians_of, moved_table
from profiler.render.roles import Ranking
from profiler.render.steps import Found, excludes_one, measured_steps, step_name, step_summary
from profiler.render.tables import Datum, Heat, Row
from profiler.render.views import View, metric_parts, ratio_legend

MOST_STEPS = 12
EFFECT_HEADS = ("after \u00f7 before", "low", "high", "excludes 1", "pairs", "lowest", "highest")


@dataclass(frozen=True)
class Ablation:
    """One step: its effect by problem as figure and table, and the counters that moved with it."""

    name: str
    summary: str
    chart: Chart
    rows: tuple[Row, ...]
    """For `EFFECT_HEADS`."""
    moved: Heat | None


def ablation_view(ranking: Ranking) -> View:
    """All steps in one table, then each step with its figure and its counters."""
    lookup = ranking.lookup
    found = measured_steps(lookup)
    medians = {metric: medians_of(lookup, metric) for metric in counters(lookup)}
    blocks = [
        _ablation(lookup, number, one, medians) for number, one in enumerate(found[:MOST_STEPS])
    ]
    parts = {
        "steps": effect_heat(ranking, found) if found else None,
        "ablations": tuple(blocks),
        "left_out_steps": len(found) - len(blocks),
        "effect_heads": EFFECT_HEADS,
        "ratio_legend": ratio_legend(),
        **metric_parts(ranking),
    }
    return View("ablation.html", "What each step changes", parts)


def _ablation(
    lookup: Lookup, number: int, found: Found, medians: Mapping[Label, Medians]
) -> Ablation:
    step, row = found
    name, metric = step_name(step), lookup.primary.label
    reading = (
        f"{metric} after \u00f7 before, of variants that differ in nothing else, paired block by "
        "block. Dot: geometric mean of the pairs. Bar: its 95\u202f% interval, where it is seen."
    )
    table = problem_effect_table(lookup.problems, row)
    figure = effect_figures.effect_dots(table, f"{metric}, after \u00f7 before")
    return Ablation(
        name,
        step_summary(lookup, found),
        make_chart(f"ablation-{number}", f"{name}: {metric.lower()} by problem", reading, figure),
        tuple(_rows(lookup.problems, row)),
        moved_table(lookup, step, medians),
    )


def _rows(problems: Sequence[Problem], found: Sequence[Effect]) -> list[Row]:
    return [
        Row(problem.name, NO_VARIANT, "other", _data(effect))
        for problem, effect in zip(problems, found, strict=True)
    ]


def _data(effect: Effect) -> tuple[Datum, ...]:
    def ratio(value: float) -> Datum:
        if numbers.is_missing(value):
            return Datum(title="no pair" if not effect.pairs else "no interval", css="none")
        return Datum(numbers.ratio(value), numbers.raw(value))

    certain = "yes" if excludes_one(effect) else "no"
    return (
        ratio(effect.ratio),
        ratio(effect.low),
        ratio(effect.high),
        Datum(numbers.MISSING if numbers.is_missing(effect.low) else certain, css="words"),
        Datum(str(effect.pairs)),
        ratio(effect.smallest),
        ratio(effect.largest),
    )
