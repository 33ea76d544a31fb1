"""What each parameter does, as a table and a figure: variants that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.steps import Effect, StepEffect
from profiler.findings.verdicts import PairVerdict
from profiler.model import Problem
from profiler.render.figures import effect_figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.tables.rows import Datum, Heat, Row, heat_class, heat_heads
from profiler.render.tables.verdict_cells import counts_datum
from profiler.render.words import numbers
from profiler.render.words.names import shorten
from profiler.render.words.steps import step_name
from profiler.render.words.verdicts import after_number, heat_mark, word_of

MOST_STEPS = 60
NO_VARIANT = -1
"""Mark of a row that belongs to no one variant."""


@dataclass(frozen=True)
class Effects:
    """Every step with its effects; the chart has the first `MOST_STEPS`."""

    table: Heat
    chart: Chart
    left_out: int


def parameter_effects(findings: Findings) -> Effects | None:
    """Effect of every parameter of the variants that are no references; None without a pair."""
    steps = findings.parameter_steps
    if not steps:
        return None
    return Effects(
        effect_heat(findings, steps), _chart(findings, steps), max(0, len(steps) - MOST_STEPS)
    )


def effect_heat(findings: Findings, found: Sequence[StepEffect]) -> Heat:
    """Ratio after ÷ before of every step: over all problems, its range, and by problem.

    Where verdicts are given, their counts stand beside the mean.
    """
    lower = findings.primary.better != "higher"
    names = [problem.name for problem in findings.problems]
    rows = []
    given = findings.gives_verdicts
    for one in found:
        row, whole = one.effects, one.overall
        data = (
            Datum(*_ratio(whole.ratio), title="geometric mean over the problems"),
            *([counts_datum(one.verdicts)] if given else []),
            Datum(*_ratio(whole.smallest)),
            Datum(*_ratio(whole.largest)),
            Datum(str(_most_pairs(row)), title=f"{whole.pairs} over all problems"),
            *(
                _datum(name, effect, pair, lower=lower)
                for name, effect, pair in zip(names, row, one.verdicts, strict=True)
            ),
        )
        rows.append(Row(step_name(one.step), NO_VARIANT, "other", data))
    return Heat(
        against="",
        caption=f"{findings.primary.label} after ÷ before, steps of parameters by problems",
        leads=("mean", *(("verdicts",) if given else ()), "lowest", "highest", "pairs"),
        heads=heat_heads(findings.problems),
        problems=tuple(names),
        rows=tuple(rows),
        rows_are="step",
    )


def _datum(problem: str, effect: Effect, pair: PairVerdict, *, lower: bool) -> Datum:
    if not effect.pairs:
        return Datum(title="no pair was measured", css="none")
    between = numbers.interval(effect.low, effect.high)
    span = f"{numbers.ratio(effect.smallest)} to {numbers.ratio(effect.largest)}"
    words = f"{problem}: {numbers.ratio(effect.ratio)} {between}; {_pairs([effect])}, {span}"
    css = heat_class(effect.ratio, lower_is_better=lower) + heat_mark(pair)
    return Datum(*_ratio(effect.ratio), words + after_number(pair), css)


def _most_pairs(found: Sequence[Effect]) -> int:
    return max(effect.pairs for effect in found)


def _pairs(found: Sequence[Effect]) -> str:
    count = _most_pairs(found)
    return f"{count} pair{'s' if count > 1 else ''}"


def _ratio(value: float) -> tuple[str, str | None]:
    if numbers.is_missing(value):
        return numbers.MISSING, None
    return numbers.ratio(value).rstrip(numbers.TIMES), numbers.raw(value)


def _chart(findings: Findings, found: Sequence[StepEffect]) -> Chart:
    metric = findings.primary.label
    reading = (
        f"{metric} after ÷ before, of variants that differ in this parameter only. Dot: geometric "
        "mean. Bar: from the lowest to the highest pair at any problem."
    )
    table = effect_table(found[:MOST_STEPS])
    label = f"{metric}, after \u00f7 before"
    drawing = effect_figures.effect_dots(table, label)
    return make_chart("effects", f"{metric} after a step of one parameter", reading, drawing)


def effect_table(found: Sequence[StepEffect]) -> pd.DataFrame:
    """Rows for `effect_figures.effect_dots`: each step over all problems."""
    wholes = [(one.step, one.effects, one.overall) for one in found]
    return pd.DataFrame(
        [
            {
                "name": step_name(step),
                "ratio": whole.ratio,
                "low": whole.smallest,
                "high": whole.largest,
                "text": f"{numbers.ratio(whole.ratio)}  ({_pairs(row)})",
            }
            for step, row, whole in wholes
        ]
    )


def problem_effect_table(problems: Sequence[Problem], found: StepEffect) -> pd.DataFrame:
    """Rows for `effect_figures.effect_dots`: one step at each problem, with its interval."""
    return pd.DataFrame(
        [
            {
                "name": shorten(problem.name),
                "ratio": effect.ratio,
                "low": effect.low,
                "high": effect.high,
                "text": f"{numbers.ratio(effect.ratio)}  {word_of(pair)}".rstrip(),
            }
            for problem, effect, pair in zip(problems, found.effects, found.verdicts, strict=True)
            if effect.pairs
        ]
    )
