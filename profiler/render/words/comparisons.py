"""Variants against each other in words: winners, ties and ranks, steps of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.kinds.steps import ParameterStep, StepEffect
from profiler.findings.ranking import Ranking, VariantRank
from profiler.findings.verdicts import PairVerdict
from profiler.findings.winners import Winner, standing_of
from profiler.model import Cell, Problem
from profiler.notices import counted
from profiler.render.words import numbers
from profiler.render.words.verdicts import counts, percent, reason_and_blocks

_NAMED = 2
"""Variants that a sentence names; more are counted."""
_LEAST_BIAS = 0.001
"""A tenth of the least margin: less decides nothing."""


def ties_words(winner: Winner) -> str:
    """Variants the same as a winner, or not told apart from it, as a clause; empty without any."""
    if not winner.judged:
        return ""
    parts = []
    if winner.same_cells:
        parts.append(f"the same as {_names(winner.same_cells)}")
    if winner.not_told_apart:
        parts.append(f"not told apart from {_names(winner.not_told_apart)}")
    bias = bias_words(winner.selection_bias)
    return " and ".join(parts) + (f" (the lowest of equal ones reads {bias})" if bias else "")


def bias_words(bias: float) -> str:
    """`0.12 % too low`: what choosing the lowest does to its number; empty where it is small."""
    return f"{percent(bias)} too low" if bias >= _LEAST_BIAS else ""


def _names(cells: Sequence[Cell]) -> str:
    names = [cell.variant.label for cell in cells]
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} others"


def best_word(ranking: Ranking) -> str:
    """Label of the variant to recommend: the best only where verdicts show it.

    Where the baseline has the better mean, it is only the first of the rest.
    """
    return {"first_of_rest": "first of the rest"}.get(ranking.called, ranking.called)


def planned_winners(ranking: Ranking, row: VariantRank) -> list[Winner]:
    """Winners of the problems that a variant is planned for."""
    winners = ranking.deciding_winners
    return [winners[problem] for problem in row.planned if problem in winners]


def contender_words(ranking: Ranking, row: VariantRank) -> str:
    """Clause on the number of problems at which a variant wins or is not shown to be worse."""
    total = len(row.planned)
    winners = planned_winners(ranking, row)
    problems = counted(total, "problem")
    if any(winner.by_intervals for winner in winners):
        first = len(ranking.contenders.get(row.variant.id, ()))
        return f"first, or with an interval that overlaps the first one's, at {first} of {problems}"
    wins, same_count, not_told_apart = standing_of(row.variant, winners)
    parts = [f"has the lowest number at {wins} of {problems}"]
    if same_count:
        parts.append(f"the same as the winner at {same_count}")
    if not_told_apart:
        parts.append(f"not told apart from it at {not_told_apart}")
    return ", ".join(parts)


def best_ratio_words(slowdown: float) -> str:
    """A time against that of the best, as a ratio: `1.028x the best time`."""
    return f"{numbers.ratio(slowdown)} the best time"


def worst_ratio_words(slowdown: float) -> str:
    """Words on how far from the best a variant is at the worst problem that it is used for."""
    return f"at most {best_ratio_words(slowdown)}"


# ---- steps of parameters -------------------------------------------------------------------------


def step_summary(problems: Sequence[Problem], step_effect: StepEffect) -> str:
    """Effect over all problems: mean, extremes with their problems, verdicts."""
    measured = [
        (problem.name, effect, verdict)
        for problem, effect, verdict in step_effect.by(problems)
        if effect.pairs
    ]
    mean = numbers.ratio(step_effect.overall.ratio)
    verdicts = _step_verdicts([verdict for *_, verdict in measured])
    if len(measured) == 1:
        name, effect, _ = measured[0]
        between = numbers.interval(effect.low, effect.high)
        return f"{f'{mean} the time at {name} {between}'.rstrip()}{verdicts}."
    low = min(measured, key=lambda row: row[1].ratio)
    high = max(measured, key=lambda row: row[1].ratio)
    return (
        f"{mean} the time over {len(measured)} problems (geometric mean; from "
        f"{numbers.ratio(low[1].ratio)} at {low[0]} to {numbers.ratio(high[1].ratio)} at "
        f"{high[0]}){verdicts}."
    )


def _step_verdicts(verdicts: Sequence[PairVerdict]) -> str:
    """Clause with the counts of verdicts; of a single one with its reason."""
    reason = f" ({reason_and_blocks(verdicts[0])})" if len(verdicts) == 1 else ""
    return f", {counts(verdicts)}{reason}"


def step_name(step: ParameterStep) -> str:
    """Parameter and both values, as a row is called."""
    return f"{step.parameter}: {value_name(step.before)} \u2192 {value_name(step.after)}"


def value_name(value: object) -> str:
    """A parameter's value as YAML writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
