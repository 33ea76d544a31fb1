"""The steps of an ablation with their effects, and what they say in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.analyse.effects import Effect, Step, Value, effects, over_problems, steps
from profiler.render import numbers
from profiler.render.lookup import Lookup

Found = tuple[Step, tuple[Effect, ...]]


def measured_steps(lookup: Lookup) -> tuple[Found, ...]:
    """The steps that the spec asks for, with their effects; those without a pair are left out."""
    chosen = steps(lookup.configurations, lookup.report.parameters or None)
    found = effects(chosen, lookup.blocks, [problem.id for problem in lookup.problems])
    pairs = zip(chosen, found, strict=True)
    return tuple((step, row) for step, row in pairs if over_problems(row).pairs)


def step_summary(lookup: Lookup, found: Found) -> str:
    """Effect over all problems in words: mean, extremes with their problems, intervals."""
    known = [
        (problem.name, one)
        for problem, one in zip(lookup.problems, found[1], strict=True)
        if one.pairs
    ]
    mean = numbers.ratio(over_problems(found[1]).ratio)
    noun = "time" if lookup.report.primary == "duration_ns" else lookup.primary.label.lower()
    if len(known) == 1:
        name, one = known[0]
        words = f"{mean} the {noun} at {name} {numbers.interval(one.low, one.high)}".rstrip()
        return f"{words}{_certainty([one])}."
    low = min(known, key=lambda pair: pair[1].ratio)
    high = max(known, key=lambda pair: pair[1].ratio)
    return (
        f"{mean} the {noun} over {len(known)} problems (geometric mean; from "
        f"{numbers.ratio(low[1].ratio)} at {low[0]} to {numbers.ratio(high[1].ratio)} at "
        f"{high[0]}){_certainty([one for _, one in known])}."
    )


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


def step_name(step: Step) -> str:
    """Parameter and both values, as a row is called."""
    return f"{step.parameter}: {value_name(step.before)} \u2192 {value_name(step.after)}"


def value_name(value: Value) -> str:
    """A parameter's value in words: as YAML writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
