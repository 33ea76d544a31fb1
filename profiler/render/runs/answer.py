"""The first lines of a comparison between runs: what became slower or faster, judged by what."""

from __future__ import annotations

from profiler.findings.runs.comparison import RunComparison
from profiler.findings.runs.steps import RunStep
from profiler.model import Verdict
from profiler.render.runs.rows import Names
from profiler.render.runs.words import field_word
from profiler.render.words import numbers
from profiler.render.words.answer import Card, Part, Sentence

_MOST_NAMED = 3


def sentences(comparison: RunComparison, names: Names) -> tuple[Sentence, ...]:
    """Answer in a few sentences: what became slower, what faster, and what that rests on."""
    step = comparison.last
    if step.refused is not None:
        numbers_only = (
            Part("No verdict on durations", strong=True),
            Part(f": {step.refused_words}. "),
        )
        return ((*numbers_only, *_mean_sentence(step)), *_retuned_sentence(step))
    return (
        _verdict_sentence(step, Verdict.SLOWER, names),
        _verdict_sentence(step, Verdict.FASTER, names),
        _rest_sentence(step),
        *_retuned_sentence(step),
    )


def headline(comparison: RunComparison, names: Names) -> Sentence:
    """The answer in one sentence: how many cells became slower and faster, and the most of each."""
    step = comparison.last
    if step.refused is not None:
        return _mean_sentence(step)
    changes = {verdict: step.with_verdict(verdict) for verdict in (Verdict.SLOWER, Verdict.FASTER)}
    parts: list[Part] = []
    for verdict, cells in changes.items():
        joint = " and " if parts else ""
        be = "is" if len(cells) == 1 else "are"
        parts.append(Part(f"{joint}{len(cells)} {be} "))
        parts.append(Part(verdict.value, strong=True))
        if cells:
            most = cells[0]
            where = f"{names.variant(most.cell)} at {names.problem(most.cell)}"
            parts.append(Part(f" (most: {numbers.ratio(most.ratio)}, {where})"))
    return (Part(f"Of {step.judged} cells, "), *parts, Part("."))


def _mean_sentence(step: RunStep) -> Sentence:
    mean = step.mean_ratio
    if mean is None:
        return (Part("No cell was measured in both runs."),)
    first, second = step.numbers
    return (
        Part(
            f"Run {second}'s durations are {numbers.ratio(mean.mean)} those of run {first} "
            f"(geometric mean over {mean.count} cells; from {numbers.ratio(mean.smallest)} to "
            f"{numbers.ratio(mean.largest)})."
        ),
    )


def _verdict_sentence(step: RunStep, verdict: Verdict, names: Names) -> Sentence:
    changes = step.with_verdict(verdict)
    if not changes:
        return (Part(f"No cell is shown to be {verdict.value}."),)
    most, count = changes[0], len(changes)
    where = f"{names.variant(most.cell)} at {names.problem(most.cell)}"
    interval = numbers.interval(most.ratio_low, most.ratio_high)
    return (
        Part(f"{count} of {step.judged} cells {'is' if count == 1 else 'are'} "),
        Part(verdict.value, strong=True),
        Part(f": {where}, " if count == 1 else f", most of all {where}: "),
        Part(f"{numbers.ratio(most.ratio)} {interval}".strip(), strong=True),
        Part("."),
    )


def _rest_sentence(step: RunStep) -> Sentence:
    parts = [
        f"{count} {clause}"
        for verdict, clause in (
            (Verdict.SAME, "are the same within their margins"),
            (Verdict.UNCLEAR, "are unclear"),
            (Verdict.NO_DATA, "have no correct duration in one of the runs"),
        )
        if (count := step.counts.get(verdict, 0))
    ]
    return (Part(f"Of the others, {', '.join(parts)}."),) if parts else ()


def _retuned_sentence(step: RunStep) -> tuple[Sentence, ...]:
    """Sentence on the cells that a compiler's autotuner tuned differently; empty without any."""
    if not step.retuned:
        return ()
    opening = Part("The compiler's autotuner chose differently at ")
    count = Part(str(len(step.retuned)), strong=True)
    total = f" of {len(step.cells)} cells"
    decided = [change for change in step.cells.values() if change.decided]
    among = sum(bool(change.retuned) for change in decided)
    if decided:
        total += f", {among} of the {len(decided)} slower or faster ones among them"
    return ((opening, count, Part(f"{total}.")),)


def cards(comparison: RunComparison, names: Names) -> tuple[Card, ...]:
    """Four cards: slower, faster, what it is judged by, what else changed."""
    step = comparison.last
    return (
        _count_card("What became slower?", step, Verdict.SLOWER, names),
        _count_card("What became faster?", step, Verdict.FASTER, names),
        _control_card(step, names),
        _changes_card(comparison, step),
    )


def _count_card(question: str, step: RunStep, verdict: Verdict, names: Names) -> Card:
    if not step.judged:
        return Card(question, "not judged", "The numbers stand below, without verdicts.")
    changes = step.with_verdict(verdict)
    variants = list(dict.fromkeys(names.variant(change.cell) for change in changes))
    more = len(variants) - _MOST_NAMED
    shown = ", ".join(variants[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    noun = "cell" if len(changes) == 1 else "cells"
    return Card(question, f"{len(changes)} {noun}" if changes else "nothing shown", shown)


def _control_card(step: RunStep, names: Names) -> Card:
    """The shift of the baseline itself, which all ratios are relative to."""
    question = "What is it judged by?"
    if step.refused is not None:
        return Card(question, "nothing", f"{step.refused_words}: durations as they are")
    if step.control is None:
        return Card(question, "no control", "No baseline is the same program in both runs.")
    control, shift = names.variant_name(step.control), step.control_shift
    if shift is None:
        return Card(question, control, "The baseline was not measured in both runs.")
    span = f"{numbers.ratio(shift.smallest)} to {numbers.ratio(shift.largest)}"
    detail = (
        f"the baseline: {numbers.ratio(shift.mean)} its duration in run {step.numbers[0]} by "
        f"itself ({span}); ratios leave that out"
    )
    without, total = step.uncontrolled_problems
    if without:
        detail += f"; at {without} of {total} problems it is another program, and controls nothing"
    return Card(question, control, detail)


def _changes_card(comparison: RunComparison, step: RunStep) -> Card:
    fields = [difference.field for difference in comparison.differences]
    changed = step.changed_variants
    names = ", ".join(field_word(field) for field in fields) or "nothing that was recorded"
    answer = f"{changed} variant{'' if changed == 1 else 's'} changed"
    if step.retuned:
        count = len(step.retuned)
        answer += f", {count} cell{'s' if count > 1 else ''} tuned differently"
    return Card("What else differs?", answer, f"Between the runs: {names}.")
