"""Effect of each parameter, as a table and a figure: variants that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Effect, StepEffect
from profiler.findings.verdicts import PairVerdict
from profiler.model import Problem
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Mark
from profiler.render.figures.version_figures import dots
from profiler.render.tables.heats import Heat, RatioScale, scale_of
from profiler.render.tables.rows import Datum, Row, counts_datum
from profiler.render.words import numbers
from profiler.render.words.comparisons import step_name
from profiler.render.words.names import shorten
from profiler.render.words.verdicts import after_number, heat_mark, word_of

MOST_STEPS = 60


def parameter_effects(findings: Findings) -> dict[str, Any] | None:
    """Effect of every parameter of the variants that are no references; None without a pair.

    The chart has the first `MOST_STEPS` of the steps that stand in the table.
    """
    steps = findings.parameter_steps
    if not steps:
        return None
    return {
        "table": effect_heat(findings, steps),
        "chart": _chart(findings.numbers, steps),
        "left_out": max(0, len(steps) - MOST_STEPS),
    }


def effect_heat(findings: Findings, step_effects: Sequence[StepEffect]) -> Heat:
    """Ratio after ÷ before of every step: over all problems, its range, and by problem.

    Where verdicts are given, their counts stand beside the mean.
    """
    lower = findings.numbers.primary.better != "higher"
    names = [problem.name for problem in findings.programs.problems]
    scale = scale_of(effect.ratio for row in step_effects for effect in row.effects)
    rows = []
    given = findings.verdicts.given
    for step_effect in step_effects:
        row, overall = step_effect.effects, step_effect.overall
        data = (
            Datum(*_ratio(overall.ratio), title="geometric mean over the problems"),
            *([counts_datum(step_effect.verdicts)] if given else []),
            Datum(*_ratio(overall.smallest)),
            Datum(*_ratio(overall.largest)),
            Datum(str(_most_pairs(row)), title=f"{overall.pairs} over all problems"),
            *(
                _datum(name, effect, pair, scale, lower=lower)
                for name, effect, pair in zip(names, row, step_effect.verdicts, strict=True)
            ),
        )
        rows.append(Row(step_name(step_effect.step), data))
    return Heat(
        f"{findings.numbers.primary.label} after ÷ before, steps of parameters by problems",
        findings.programs.problems,
        tuple(rows),
        ("mean", *(("verdicts",) if given else ()), "lowest", "highest", "pairs"),
        rows_are="step",
        scale=scale,
    )


def _datum(
    problem: str, effect: Effect, pair: PairVerdict, scale: RatioScale, *, lower: bool
) -> Datum:
    if not effect.pairs:
        return Datum(title="no pair was measured", css="none")
    between = numbers.interval(effect.low, effect.high)
    span = f"{numbers.ratio(effect.smallest)} to {numbers.ratio(effect.largest)}"
    text = f"{problem}: {numbers.ratio(effect.ratio)} {between}; {_pairs([effect])}, {span}"
    css = scale.css(effect.ratio, lower_is_better=lower) + heat_mark(pair)
    return Datum(*_ratio(effect.ratio), text + after_number(pair), css)


def _most_pairs(effects: Sequence[Effect]) -> int:
    return max(effect.pairs for effect in effects)


def _pairs(effects: Sequence[Effect]) -> str:
    count = _most_pairs(effects)
    return f"{count} pair{'s' if count > 1 else ''}"


def _ratio(value: float) -> tuple[str, str | None]:
    if numbers.is_missing(value):
        return numbers.MISSING, None
    return numbers.ratio(value).rstrip(numbers.TIMES), numbers.raw(value)


def _chart(numbers: CellNumbers, step_effects: Sequence[StepEffect]) -> Chart:
    metric = numbers.primary.label
    reading = (
        f"{metric} after ÷ before, of variants that differ in this parameter only. Dot: geometric "
        "mean. Bar: from the lowest to the highest pair at any problem."
    )
    label = f"{metric}, after \u00f7 before"
    drawing = dots(list(map(_mark, step_effects[:MOST_STEPS])), label, effects=True)
    return make_chart("effects", f"{metric} after a step of one parameter", reading, drawing)


def _mark(step_effect: StepEffect) -> Mark:
    """A step over all problems."""
    overall = step_effect.overall
    text = f"{numbers.ratio(overall.ratio)}  ({_pairs(step_effect.effects)})"
    name = step_name(step_effect.step)
    return Mark(name, overall.ratio, overall.smallest, overall.largest, text, "ink")


def problem_effect_marks(problems: Sequence[Problem], step_effect: StepEffect) -> list[Mark]:
    """One step at each problem, with its interval."""
    triples = zip(problems, step_effect.effects, step_effect.verdicts, strict=True)
    return [
        Mark(
            shorten(problem.name),
            *(effect.ratio, effect.low, effect.high),
            f"{numbers.ratio(effect.ratio)}  {word_of(pair)}".rstrip(),
            "ink",
        )
        for problem, effect, pair in triples
        if effect.pairs
    ]
