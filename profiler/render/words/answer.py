"""The first lines of a page: which is best, by how much, how sure, and what limits it.

No sentence says that something is the best, faster or slower where no verdict does: it says who has
the lowest median, with whom it ties, and what the verdict is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from profiler.analyse.effects import over_problems
from profiler.findings.ladder import Rung, largest_step, rungs
from profiler.findings.lookup import OUTCOME_WORDS, Lookup
from profiler.findings.overall import Standing, excludes_one, tunes, winners
from profiler.findings.roles import Ranking
from profiler.findings.rulings import Ruling, counts
from profiler.findings.steps import measured_steps, step_name, step_summary
from profiler.findings.values import Value
from profiler.findings.winners import Winner
from profiler.model import Problem
from profiler.render.tables.timers import timer_table
from profiler.render.words import numbers
from profiler.render.words.problems import is_number, telling


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
    css: str = ""
    """Class of a verdict, whose word and symbol are in the answer."""


Sentence = tuple[Part, ...]
_MOST_GROUPS = 3
"""Groups of rivals of which the answer names the best."""
_MOST_LOST = 3
"""Problems that the leader loses of which the answer names the winner."""
_MOST_FIRST = 4
"""Variants of which the answer counts at how many problems they are first."""
_MOST_STEPS = 4
"""Steps that are said in the answer; the rest stand below."""


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
        general = [*(everywhere_sentence(ranking, one) for one in leaders), *general]
    else:
        general.append(everywhere_sentence(ranking, ranking.leader))
    general.append(_plain_timer_sentence(lookup))
    return (*(one for one in general if one), _coverage_sentence(lookup))


def noun(lookup: Lookup) -> str:
    """What the primary metric is called in a sentence."""
    return "time" if lookup.report.primary == "duration_ns" else lookup.primary.label.lower()


def _step_sentences(lookup: Lookup) -> list[Sentence]:
    steps = measured_steps(lookup)
    found: list[Sentence] = [
        (Part(step_name(one.step), strong=True), Part(f": {step_summary(lookup, one)}"))
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
    last, what = known[-1], noun(ranking.lookup)
    return (
        Part(f"The ladder of {len(ladder)} versions{_led(ranking, ladder)} ends at "),
        Part(numbers.ratio(over_problems(last.whole).ratio), strong=True),
        Part(f" the {what} of its first version (geometric mean){_said(last.whole_rulings)}. "),
        Part("Its largest step is "),
        Part(most.variant.name, strong=True),
        Part(f": {numbers.ratio(over_problems(most.step).ratio)} the {what} of the version "),
        Part(f"before it{_said(most.step_rulings)}."),
    )


def _led(ranking: Ranking, ladder: tuple[Rung, ...]) -> str:
    percents = [one.percent for one in ladder if not numbers.is_missing(one.percent)]
    baseline = ranking.lookup.baseline
    if baseline is None or len(percents) < 2:
        return ""
    return (
        f" goes from {percents[0]:.1f}\u202f% to {percents[-1]:.1f}\u202f% of {baseline.name} and"
    )


def _said(rulings: tuple[Ruling, ...]) -> str:
    """The verdicts of several problems, after a comma; empty without any."""
    told = counts(rulings)
    return f", {told}" if told else ""


def _overall_sentence(ranking: Ranking) -> Sentence:
    row = ranking.best_standing
    lookup = ranking.lookup
    baseline = lookup.baseline
    if ranking.best is None:
        return (Part("No variant has a correct and measured result.", strong=True),)
    if row is None or baseline is None or row.best is None or row.worst is None:
        return ()
    if len(row.ratios) < 2:
        return ()
    every = row.complete and len(row.ratios) == len(lookup.problems)
    over = "all" if every else "the"
    opening: Sentence = (Part(f"Over {over} {len(row.ratios)} problems "),)
    if ranking.baseline_standing:
        which = "highest" if lookup.primary.better == "higher" else "lowest"
        leader = Part(baseline.name, strong=True)
        rest = Part(f", the baseline, has the {which} geometric mean. Of the rest, ")
        opening = (*opening, leader, rest)
    return (
        *opening,
        Part(row.variant.name, strong=True),
        Part(f" {_verb(lookup)} "),
        Part(numbers.ratio(row.geometric_mean), strong=True),
        Part(f" the {noun(lookup)} of {baseline.name} (geometric mean; from "),
        Part(f"{numbers.ratio(row.best[1].ratio)} at {row.best[0].name} to "),
        Part(f"{numbers.ratio(row.worst[1].ratio)} at {row.worst[0].name})"),
        Part(f"{_said(row.rulings)}."),
    )


def _largest_sentence(ranking: Ranking) -> Sentence:
    lookup = ranking.lookup
    problem = lookup.largest_problem
    if problem is None:
        return ()
    where = f"At {_largest_words(lookup)}{problem.name}"
    where += "," if len(lookup.problems) > 1 else ""
    first = lookup.winners[problem.id]
    shown = lookup.rival_winners.get(problem.id, first)
    opening = (Part(f"{where} "), *winner_words(lookup, first))
    if first.cell != shown.cell:
        opening = (*opening, Part("; of the rest, "), *winner_words(lookup, shown))
    value = lookup.value(shown.cell, lookup.report.primary)
    alone = shown.cell.variant == lookup.baseline
    if lookup.baseline is None or alone or numbers.is_missing(value.ratio):
        return (*opening, Part("."))
    told = _certainty(value, lookup.ruling(shown.cell.variant, problem))
    return (
        *opening,
        Part(": "),
        Part(numbers.ratio(value.ratio), strong=True),
        Part(f" the {noun(lookup)} of {lookup.baseline.name}{told}."),
    )


def _largest_words(lookup: Lookup) -> str:
    """Say why one problem speaks for all; of problems of different kinds none is the largest."""
    if len(lookup.problems) == 1:
        return ""
    keys = telling(lookup.problems)
    sizes = any(is_number(one.params.get(key)) for one in lookup.problems for key in keys)
    return "the largest, " if sizes else "the one whose quickest takes longest, "


def winner_words(lookup: Lookup, winner: Winner) -> Sentence:
    """Who wins a problem, with its number: the best only where it is shown to be, else a tie."""
    shown = numbers.show(winner.value.median, lookup.primary.unit)
    variant = winner.cell.variant
    name = Part(variant.name, strong=True)
    if winner.final:
        shown += " in the final"
    aside = _aside(lookup, winner)
    if winner.best:
        outside = variant.id in lookup.references and variant != lookup.baseline
        opening = "the lowest time is that of " if outside else "the best is "
        return (Part(opening), name, Part(f"{aside} with {shown}"))
    which = "highest" if lookup.primary.better == "higher" else "lowest"
    ties = winner.ties()
    tail = f" and ties with {ties}" if ties else ""
    comma = "," if ties else ""
    return (name, Part(f"{aside} has the {which} median, {shown}{comma}{tail}"))


def _aside(lookup: Lookup, winner: Winner) -> str:
    """Say of a winner that it is no rival."""
    variant = winner.cell.variant
    if variant == lookup.baseline:
        return ", the baseline,"
    return ", a reference," if variant.id in lookup.references else ""


def _certainty(value: Value, ruling: Ruling) -> str:
    interval = numbers.interval(value.ratio_low, value.ratio_high)
    between = f" {interval}" if interval else ""
    if ruling.verdict is not None:
        return f"{between}, {ruling.word} ({ruling.why})"
    if not between:
        return ", without an interval"
    verb = "excludes" if excludes_one(value) else "includes"
    return f"{between}; the 95\u202f% interval {verb} 1"


def everywhere_sentence(ranking: Ranking, row: Standing | None) -> Sentence:
    """At how many problems a variant is best, and what it costs to use it for all of them."""
    total = 0 if row is None else len(row.planned)
    if row is None or row.regret is None or total < 2:
        return ()
    text = f" is {ranking.first_words(row)}{_first_elsewhere(ranking, row)}"
    if row.covers and row.regret.worst_pct > 0:  # else it has the lowest median everywhere
        worst = _problem(ranking.lookup, row.regret.worst_problem)
        cost = f"{row.regret.worst_pct:.1f}\u202f%"
        text += f"; used {where(row)} it costs at most {cost} against the winner (at {worst.name})"
    return (Part(row.variant.name, strong=True), Part(f"{text}."))


def _first_elsewhere(ranking: Ranking, row: Standing) -> str:
    """Who is first at the problems that a variant loses: each where they are few, else how often.

    Not on a page that tunes: it asks for one configuration, and what that costs.
    """
    if tunes(ranking.lookup):
        return ""
    found, own = winners(ranking.lookup), ranking.best_or_tied.get(row.variant.id, frozenset())
    lost = [one for one in ranking.lookup.problems if one.id in row.planned - own]
    if not lost:
        return ""
    first = [found[one.id].cell.variant.name for one in lost]
    if len(lost) <= _MOST_LOST:
        named = [f"{name} at {one.name}" for name, one in zip(first, lost, strict=True)]
    else:
        named = [f"{name} at {count}" for name, count in Counter(first).most_common(_MOST_FIRST)]
    return f" (else first: {', '.join(named)})"


def _problem(lookup: Lookup, identifier: str) -> Problem:
    return next(one for one in lookup.problems if one.id == identifier)


def where(row: Standing) -> str:
    """Say where a variant is used when it is used at every problem that it can run on."""
    return "everywhere" if row.complete else "at all of them"


def _plain_timer_sentence(lookup: Lookup) -> Sentence:
    """How far a quick benchmark would be off, where one was made beside ncu."""
    table = timer_table(lookup)
    if table is None or table.worst is None:
        return ()
    worst = table.worst
    rest = f": {worst.parts}." if worst.parts else "."
    return (
        Part("The plain timer is furthest off at "),
        Part(f"{worst.where}: "),
        Part(worst.ratio, strong=True),
        Part(f" the time of {table.reference}, {worst.times}{rest}"),
    )


def _coverage_sentence(lookup: Lookup) -> Sentence:
    total = len(lookup.report.plan.cells)
    found = [
        f"{count} {OUTCOME_WORDS[outcome]}"
        for outcome, count in lookup.outcome_counts().items()
        if outcome.failed or outcome.value == "not_measured"
    ]
    rest = f" ({', '.join(found)})" if found else ""
    return (Part(f"{lookup.measured_count()} of {total} cells measured{rest}."),)


def _verb(lookup: Lookup) -> str:
    return "takes" if lookup.report.primary == "duration_ns" else "has"
