"""Steps of parameters in words: their names, their effects over all problems."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.findings import CellNumbers
from profiler.findings.kinds.steps import Effect, ParameterStep, StepEffect
from profiler.findings.verdicts import PairVerdict
from profiler.render.words import numbers
from profiler.render.words.verdicts import counts, reason_and_blocks


def noun(numbers: CellNumbers) -> str:
    """Noun for the primary metric in a sentence."""
    named = numbers.primary.name == "duration_ns"
    return "time" if named else numbers.primary.label.lower()


def step_summary(cell_numbers: CellNumbers, step_effect: StepEffect) -> str:
    """Effect over all problems: mean, extremes with their problems, verdicts."""
    measured = [
        (problem.name, effect, verdict)
        for problem, effect, verdict in zip(
            cell_numbers.programs.problems, step_effect.effects, step_effect.verdicts, strict=True
        )
        if effect.pairs
    ]
    mean = numbers.ratio(step_effect.overall.ratio)
    verdicts = _verdict_words(
        [effect for _, effect, _ in measured], [verdict for *_, verdict in measured]
    )
    if len(measured) == 1:
        name, effect, _ = measured[0]
        between = numbers.interval(effect.low, effect.high)
        return f"{f'{mean} the {noun(cell_numbers)} at {name} {between}'.rstrip()}{verdicts}."
    low = min(measured, key=lambda row: row[1].ratio)
    high = max(measured, key=lambda row: row[1].ratio)
    return (
        f"{mean} the {noun(cell_numbers)} over {len(measured)} problems (geometric mean; from "
        f"{numbers.ratio(low[1].ratio)} at {low[0]} to {numbers.ratio(high[1].ratio)} at "
        f"{high[0]}){verdicts}."
    )


def _verdict_words(effects: Sequence[Effect], verdicts: Sequence[PairVerdict]) -> str:
    """Verdicts; of metrics without any, whether the intervals include 1."""
    text = counts(verdicts)
    if not text:
        return _interval_words(effects)
    if len(verdicts) == 1:
        return f", {text} ({reason_and_blocks(verdicts[0])})"
    return f", {text}"


def _interval_words(effects: Sequence[Effect]) -> str:
    with_interval = [effect for effect in effects if not numbers.is_missing(effect.low)]
    if not with_interval:
        return "; without intervals"
    count = sum(effect_excludes_one(effect) for effect in with_interval)
    if len(with_interval) == 1:
        return f"; the 95\u202f% interval {'excludes' if count else 'includes'} 1"
    return f"; the 95\u202f% interval excludes 1 at {count} of {len(with_interval)}"


def effect_excludes_one(effect: Effect) -> bool:
    """Whether the interval is known and lies wholly on one side of 1."""
    return effect.low > 1 or effect.high < 1


def step_name(step: ParameterStep) -> str:
    """Parameter and both values, as a row is called."""
    return f"{step.parameter}: {value_name(step.before)} \u2192 {value_name(step.after)}"


def value_name(value: object) -> str:
    """A parameter's value as YAML writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
