"""The first lines of a page: which is best, by how much, how sure, and what limits it.

No sentence says "faster" or "slower": that is a verdict, which needs a test that is not made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analyse.effects import over_problems
from profiler.analyse.limits import LimitKind, limit
from profiler.model import Cell
from profiler.render import numbers
from profiler.render.ladder import largest_step, rungs
from profiler.render.lookup import OUTCOME_WORDS, Lookup, Value
from profiler.render.overall import Standing, correct_rows, excludes_one, tunes
from profiler.render.roles import Ranking
from profiler.render.steps import measured_steps, step_name, step_summary


@dataclass(frozen=True)
class Part:
    """A piece of a sentence."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Card:
    """One of the four cards."""

    question: str
    answer: str
    detail: str


Sentence = tuple[Part, ...]
_MOST_GROUPS = 3
"""Groups of rivals of which the answer names the best."""
_MOST_STEPS = 4
"""Steps that are said in the answer; the rest stand below."""
Ranked = Sequence[tuple[Cell, Value]]


def sentences(ranking: Ranking) -> tuple[Sentence, ...]:
    """Answer in a few sentences: overall, at the largest problem, and coverage.

    On a page of single parameters: what each step of them changes. Of a ladder: from where it led
    to where.
    """
    lookup = ranking.lookup
    if lookup.report.kind == "ablation" and (found := _step_sentences(lookup)):
        return (*found, _coverage_sentence(lookup))
    general = [_overall_sentence(ranking), _largest_sentence(ranking)]
    if lookup.report.kind == "progression":
        general.insert(0, _ladder_sentence(ranking))
    if tunes(lookup):  # the question is which one to use: that comes first
        leaders = [rows[0] for rows in ranking.groups[:_MOST_GROUPS]]
        general = [*(_everywhere_sentence(ranking, one) for one in leaders), *general]
    else:
        general.append(_everywhere_sentence(ranking, ranking.leader))
    return (*(one for one in general if one), _coverage_sentence(lookup))


def _step_sentences(lookup: Lookup) -> list[Sentence]:
    steps = measured_steps(lookup)
    found: list[Sentence] = [
        (Part(step_name(one[0]), strong=True), Part(f": {step_summary(lookup, one)}"))
        for one in steps[:_MOST_STEPS]
    ]
    more = len(steps) - len(found)
    return [*found, (Part(f"{more} more steps stand below."),)] if more > 0 else found


def _ladder_sentence(ranking: Ranking) -> Sentence:
    ladder = rungs(ranking)
    known = [one for one in ladder if over_problems(one.step).pairs]
    most = largest_step(ladder)
    if not known or most is None:
        return ()
    last, step = known[-1], numbers.ratio(over_problems(most.step).ratio)
    noun = _noun(ranking.lookup)
    percents = [one.percent for one in ladder if not numbers.is_missing(one.percent)]
    baseline = ranking.lookup.baseline
    led = (
        f" goes from {percents[0]:.1f}\u202f% to {percents[-1]:.1f}\u202f% of {baseline.name} and"
        if baseline and len(percents) > 1
        else ""
    )
    return (
        Part(f"The ladder of {len(ladder)} versions{led} ends at "),
        Part(numbers.ratio(over_problems(last.whole).ratio), strong=True),
        Part(f" the {noun} of its first version (geometric mean). Its largest step is "),
        Part(most.variant.name, strong=True),
        Part(f": {step} the {noun} of the version before it."),
    )


def _overall_sentence(ranking: Ranking) -> Sentence:
    row = ranking.best_standing
    baseline = ranking.lookup.baseline
    if ranking.best is None:
        return (Part("No variant has a correct and measured result.", strong=True),)
    if row is None or baseline is None or row.best is None or row.worst is None:
        return ()
    if len(row.ratios) < 2:
        return ()
    over = "all" if row.complete else "the"
    opening: Sentence = (Part(f"Over {over} {len(row.ratios)} problems "),)
    if ranking.baseline_standing:
        leader = Part(baseline.name, strong=True)
        opening = (*opening, leader, Part(", the baseline, is best. The best of the rest, "))
    name = Part(row.variant.name, strong=True)
    comma = (Part(","),) if ranking.baseline_standing else ()
    return (
        *opening,
        name,
        *comma,
        Part(f" {_verb(ranking.lookup)} "),
        Part(numbers.ratio(row.geometric_mean), strong=True),
        Part(f" the {_noun(ranking.lookup)} of {baseline.name} (geometric mean; best "),
        Part(f"{numbers.ratio(row.best[1].ratio)} at {row.best[0].name}, worst "),
        Part(f"{numbers.ratio(row.worst[1].ratio)} at {row.worst[0].name})."),
    )


def _largest_sentence(ranking: Ranking) -> Sentence:
    lookup = ranking.lookup
    problem = lookup.largest_problem
    if problem is None:
        return ()
    where = (
        f"At {problem.name}" if len(lookup.problems) == 1 else f"At the largest, {problem.name},"
    )
    ranked = lookup.ranked(problem)
    first, _ = ranked[0]
    cell, value = _first_rival(lookup, ranked)
    opening = _with_value(lookup, f"{where} the best is ", *ranked[0])
    if first != cell:
        own = first.variant == lookup.baseline
        words = ", the baseline; next is " if own else ", a reference; the best of the rest is "
        opening = (*opening, *_with_value(lookup, words, cell, value))
    if lookup.baseline is None or numbers.is_missing(value.ratio):
        return (*opening, Part("."))
    return (
        *opening,
        Part(": "),
        Part(numbers.ratio(value.ratio), strong=True),
        Part(f" the {_noun(lookup)} of {lookup.baseline.name}{_certainty(value)}."),
    )


def _first_rival(lookup: Lookup, ranked: Ranked) -> tuple[Cell, Value]:
    rivals = (pair for pair in ranked if pair[0].variant.id not in lookup.references)
    return next(rivals, ranked[0])


def _with_value(lookup: Lookup, opening: str, cell: Cell, value: Value) -> Sentence:
    shown = numbers.show(value.median, lookup.primary.unit)
    return (Part(opening), Part(cell.variant.name, strong=True), Part(f" with {shown}"))


def _certainty(value: Value) -> str:
    if numbers.is_missing(value.ratio_low):
        return ", without an interval"
    verb = "excludes" if excludes_one(value) else "includes"
    interval = numbers.interval(value.ratio_low, value.ratio_high)
    return f" {interval}; the 95\u202f% interval {verb} 1"


def _everywhere_sentence(ranking: Ranking, row: Standing | None) -> Sentence:
    total = 0 if row is None else len(row.planned)
    if row is None or row.regret is None or total < 2:
        return ()
    first = len(ranking.best_or_tied.get(row.variant.id, ()))
    text = f" is best or tied at {first} of {total} problems"
    if row.covers and not numbers.is_missing(row.regret.worst_pct):
        worst = next(one for one in ranking.lookup.problems if one.id == row.regret.worst_problem)
        cost = f"{row.regret.worst_pct:.1f}\u202f%"
        text += f"; used {_where(row)} it costs at most {cost} against the best (at {worst.name})"
    return (Part(row.variant.name, strong=True), Part(f"{text}."))


def _where(row: Standing) -> str:
    return "everywhere" if row.complete else "at all of them"


def _coverage_sentence(lookup: Lookup) -> Sentence:
    total = len(lookup.report.plan.cells)
    counts = [
        f"{count} {OUTCOME_WORDS[outcome]}"
        for outcome, count in lookup.outcome_counts().items()
        if outcome.failed or outcome.value == "not_measured"
    ]
    rest = f" ({', '.join(counts)})" if counts else ""
    return (Part(f"{lookup.measured_count()} of {total} cells measured{rest}."),)


def cards(ranking: Ranking) -> tuple[Card, ...]:
    """Best, by how much, is it real, what limits it."""
    return (
        _best_card(ranking),
        _difference_card(ranking),
        _reality_card(ranking),
        _limit_card(ranking),
    )


def _best_card(ranking: Ranking) -> Card:
    row = ranking.leader
    if row is None:
        return Card("Best", numbers.MISSING, "no correct result was measured")
    first = len(ranking.best_or_tied.get(row.variant.id, ()))
    total = len(row.planned)
    detail = f"best or tied at {first} of {total} problems"
    if not row.covers:
        detail += f"; measured at {len(row.ratios)}"
    elif tunes(ranking.lookup) and row.regret is not None:
        detail += f"; used {_where(row)} it costs at most {row.regret.worst_pct:.1f}\u202f%"
    if row is ranking.baseline_standing:
        detail = f"the baseline; {detail}"
    return Card("Best", row.variant.name, detail)


def _difference_card(ranking: Ranking) -> Card:
    row, baseline = ranking.best_standing, ranking.lookup.baseline
    question = "By how much"
    if baseline is None or row is None or row.best is None or row.worst is None:
        return Card(question, numbers.MISSING, "no baseline to compare with")
    against = f"the {_noun(ranking.lookup)} of {baseline.name}"
    if ranking.baseline_standing:
        against += f" in {row.variant.name}, the best of the rest"
    if len(row.ratios) == 1:
        value = row.best[1]
        between = numbers.interval(value.ratio_low, value.ratio_high)
        return Card(question, numbers.ratio(value.ratio), f"{against} {between}")
    span = f"{numbers.ratio(row.best[1].ratio)} to {numbers.ratio(row.worst[1].ratio)}"
    detail = f"{against}: geometric mean, {span} by problem"
    return Card(question, numbers.ratio(row.geometric_mean), detail)


def _reality_card(ranking: Ranking) -> Card:
    row = ranking.best_standing
    question = "Is it real"
    if row is None or not row.ratios:
        return Card(question, numbers.MISSING, "no ratio to a baseline")
    sizes = [
        ranking.lookup.at(row.variant, problem, ranking.lookup.report.primary).n
        for problem, _ in row.ratios
    ]
    samples = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    detail = (
        f"95\u202f% intervals of the ratio exclude 1; {samples} blocks a cell; no verdict is given"
    )
    return Card(question, f"{row.excluding_one} of {len(row.ratios)} problems", detail)


def _limit_card(ranking: Ranking) -> Card:
    question = "What limits it"
    problem, row = ranking.lookup.largest_problem, ranking.leader
    if problem is None or row is None:
        return Card(question, numbers.MISSING, "nothing was measured")
    cell = ranking.lookup.cells.get((row.variant.id, problem.id))
    found = limit(correct_rows(ranking.lookup), cell.id) if cell else None
    if found is None or found.kind is LimitKind.UNKNOWN:
        return Card(question, numbers.MISSING, "percent of peak was not collected")
    busy = {"compute": found.compute_pct, "memory": found.memory_pct, "DRAM": found.dram_pct}
    parts = ", ".join(f"{name} {numbers.show(value, '%')}" for name, value in busy.items() if value)
    detail = f"{parts} of peak at {problem.name}"
    if found.stalls:
        detail += f"; warps wait most for {found.stalls[0].reason.replace('_', ' ')}"
    return Card(question, str(found.kind), detail)


def _noun(lookup: Lookup) -> str:
    return "time" if lookup.report.primary == "duration_ns" else lookup.primary.label.lower()


def _verb(lookup: Lookup) -> str:
    return "takes" if lookup.report.primary == "duration_ns" else "has"
