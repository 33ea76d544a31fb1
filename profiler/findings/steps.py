"""The steps of an ablation with their effects, and what they say in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analyse.effects import Effect, ParameterStep, Value, effects, over_problems, steps
from profiler.findings.lookup import Lookup
from profiler.findings.rulings import NO_RULING, Ruling, counts
from profiler.render.words import numbers


@dataclass(frozen=True)
class Found:
    """A step with its effect and what is said of it, by problem in the order of the plan."""

    step: ParameterStep
    effects: tuple[Effect, ...]
    rulings: tuple[Ruling, ...]


def measured_steps(lookup: Lookup) -> tuple[Found, ...]:
    """The steps that the spec asks for, with their effects; those without a pair are left out."""
    chosen = steps(lookup.configurations, lookup.report.parameters or None)
    return tuple(one for one in found_steps(lookup, chosen) if over_problems(one.effects).pairs)


def found_steps(lookup: Lookup, chosen: Sequence[ParameterStep]) -> tuple[Found, ...]:
    """Effects of these steps, and what is said of them; where there is no pair, nothing is."""
    problems = [problem.id for problem in lookup.problems]
    found = effects(chosen, lookup.blocks, problems)
    said = lookup.rulings.of_steps(chosen, problems)
    return tuple(
        Found(step, row, tuple(map(_where_paired, row, rulings)))
        for step, row, rulings in zip(chosen, found, said, strict=True)
    )


def _where_paired(effect: Effect, ruling: Ruling) -> Ruling:
    return ruling if effect.pairs else NO_RULING


def step_summary(lookup: Lookup, found: Found) -> str:
    """Effect over all problems in words: mean, extremes with their problems, verdicts."""
    known = [
        (problem.name, one, ruling)
        for problem, one, ruling in zip(lookup.problems, found.effects, found.rulings, strict=True)
        if one.pairs
    ]
    mean = numbers.ratio(over_problems(found.effects).ratio)
    noun = "time" if lookup.report.primary == "duration_ns" else lookup.primary.label.lower()
    said = _said([one for _, one, _ in known], [ruling for *_, ruling in known])
    if len(known) == 1:
        name, one, _ = known[0]
        words = f"{mean} the {noun} at {name} {numbers.interval(one.low, one.high)}".rstrip()
        return f"{words}{said}."
    low = min(known, key=lambda one: one[1].ratio)
    high = max(known, key=lambda one: one[1].ratio)
    return (
        f"{mean} the {noun} over {len(known)} problems (geometric mean; from "
        f"{numbers.ratio(low[1].ratio)} at {low[0]} to {numbers.ratio(high[1].ratio)} at "
        f"{high[0]}){said}."
    )


def _said(found: Sequence[Effect], rulings: Sequence[Ruling]) -> str:
    """Verdicts; of metrics without any, what the intervals say."""
    told = counts(rulings)
    if not told:
        return _certainty(found)
    if len(rulings) == 1:
        return f", {told} ({rulings[0].why})"
    return f", {told}"


def _certainty(found: Sequence[Effect]) -> str:
    known = [one for one in found if not numbers.is_missing(one.low)]
    if not known:
        return "; without intervals"
    count = sum(excludes_one(one) for one in known)
    if len(known) == 1:
        return f"; the 95\u202f% interval {'excludes' if count else 'includes'} 1"
    return f"; the 95\u202f% interval excludes 1 at {count} of {len(known)}"


def excludes_one(effect: Effect) -> bool:
    """Whether the interval is known and lies wholly on one side of 1."""
    return effect.low > 1 or effect.high < 1


def step_name(step: ParameterStep) -> str:
    """Parameter and both values, as a row is called."""
    return f"{step.parameter}: {value_name(step.before)} \u2192 {value_name(step.after)}"


def value_name(value: Value) -> str:
    """A parameter's value in words: as YAML writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
