"""The page of flags on and off: what each step of a parameter changes, problem by problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.analyse.effects import Effect, Medians
from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import Ruling
from profiler.findings.steps import Found, excludes_one, measured_steps, step_name, step_summary
from profiler.model import Problem
from profiler.render.figures import effect_figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.kinds.versions import View, metric_parts, ratio_legend
from profiler.render.tables.effects import NO_VARIANT, effect_heat, problem_effect_table
from profiler.render.tables.moved import counters, medians_of, moved_table
from profiler.render.tables.rows import Datum, Heat, Row
from profiler.render.tables.verdict_cells import counts_datum, verdict_datum
from profiler.render.words import numbers
from profiler.render.words.labels import Label

MOST_STEPS = 12
EFFECT_HEADS = ("after \u00f7 before", "low", "high", "verdict", "pairs", "lowest", "highest")


@dataclass(frozen=True)
class Ablation:
    """One step: its effect by problem as figure and table, and the counters that moved with it."""

    name: str
    summary: str
    verdict: Datum
    """How often each verdict was given over the problems; the worst case on hover."""
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
    step = found.step
    name, metric = step_name(step), lookup.primary.label
    reading = (
        f"{metric} after \u00f7 before, of variants that differ in nothing else, paired block by "
        "block. Dot: geometric mean of the pairs. Bar: its 95\u202f% interval, where it is seen."
    )
    table = problem_effect_table(lookup.problems, found)
    figure = effect_figures.effect_dots(table, f"{metric}, after \u00f7 before")
    return Ablation(
        name,
        step_summary(lookup, found),
        counts_datum(found.rulings),
        make_chart(f"ablation-{number}", f"{name}: {metric.lower()} by problem", reading, figure),
        tuple(_rows(lookup.problems, found)),
        moved_table(lookup, step, medians),
    )


def _rows(problems: Sequence[Problem], found: Found) -> list[Row]:
    rows = zip(problems, found.effects, found.rulings, strict=True)
    return [
        Row(problem.name, NO_VARIANT, "other", _data(effect, ruling))
        for problem, effect, ruling in rows
    ]


def _data(effect: Effect, ruling: Ruling) -> tuple[Datum, ...]:
    def ratio(value: float) -> Datum:
        if numbers.is_missing(value):
            return Datum(title="no pair" if not effect.pairs else "no interval", css="none")
        return Datum(numbers.ratio(value), numbers.raw(value))

    return (
        ratio(effect.ratio),
        ratio(effect.low),
        ratio(effect.high),
        verdict_datum(ruling) if ruling.verdict else _certainty(effect),
        Datum(str(effect.pairs)),
        ratio(effect.smallest),
        ratio(effect.largest),
    )


def _certainty(effect: Effect) -> Datum:
    """What the interval says of a metric that no verdict is given on."""
    if numbers.is_missing(effect.low):
        return Datum(title="no interval", css="none")
    words = "excludes" if excludes_one(effect) else "includes"
    return Datum(f"interval {words} 1", title="no verdict is given on this metric", css="words")
