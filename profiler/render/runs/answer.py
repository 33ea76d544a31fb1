"""The first lines of a comparison between runs: what became slower or faster, judged by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import scipy

from profiler.analyse.between_runs import REFUSED_WORDS, Reason
from profiler.comparison.joined import Comparison
from profiler.comparison.programs import Program
from profiler.comparison.steps import Step
from profiler.model import Verdict
from profiler.render.runs.rows import Line
from profiler.render.runs.words import field_word
from profiler.render.words import numbers
from profiler.render.words.answer import Card, Part, Sentence

_MOST_NAMED = 3


def sentences(comparison: Comparison, rows: Sequence[Line]) -> tuple[Sentence, ...]:
    """Answer in a few sentences: what became slower, what faster, and what that rests on."""
    step = comparison.last
    if step.withheld is not None:
        why = REFUSED_WORDS[step.withheld]
        numbers_only = (Part("No verdict on durations", strong=True), Part(f": {why}. "))
        return ((*numbers_only, *_middle(rows)), *_retuned_sentence(step, rows))
    return (
        _verdict_sentence(rows, Verdict.SLOWER),
        _verdict_sentence(rows, Verdict.FASTER),
        _rest_sentence(rows),
        *_retuned_sentence(step, rows),
    )


def _middle(rows: Sequence[Line]) -> Sentence:
    ratios = [line.ratio for line in rows if line.ratio > 0]
    if not ratios:
        return (Part("No cell was measured in both runs."),)
    mean = numbers.ratio(float(scipy.stats.gmean(ratios)))
    low, high = numbers.ratio(min(ratios)), numbers.ratio(max(ratios))
    return (
        Part(
            f"The newer run's durations are {mean} those of the older (geometric mean over "
            f"{len(ratios)} cells; from {low} to {high})."
        ),
    )


def _verdict_sentence(rows: Sequence[Line], verdict: Verdict) -> Sentence:
    found = [line for line in rows if line.verdict is verdict]
    total = sum(line.verdict is not None for line in rows)
    if not found:
        return (Part(f"No cell is shown to be {verdict.value}."),)
    most, count = found[0], len(found)
    where = f"{most.variant} at {most.problem}"
    return (
        Part(f"{count} of {total} cells {'is' if count == 1 else 'are'} "),
        Part(verdict.value, strong=True),
        Part(f": {where}, " if count == 1 else f", most of all {where}: "),
        Part(f"{numbers.ratio(most.ratio)} {most.interval}".strip(), strong=True),
        Part("."),
    )


def _rest_sentence(rows: Sequence[Line]) -> Sentence:
    counts = Counter(line.verdict for line in rows)
    parts = [
        f"{counts[verdict]} {words}"
        for verdict, words in (
            (Verdict.SAME, "are the same within their margins"),
            (Verdict.UNCLEAR, "are unclear"),
            (Verdict.NO_DATA, "have no correct duration in one of the runs"),
        )
        if counts[verdict]
    ]
    return (Part(f"Of the others, {', '.join(parts)}."),) if parts else ()


def _retuned_sentence(step: Step, rows: Sequence[Line]) -> tuple[Sentence, ...]:
    """How often a compiler's autotuner chose otherwise; none where it never did."""
    if not step.retuned:
        return ()
    opening = Part("The compiler's autotuner chose otherwise at ")
    count = Part(str(len(step.retuned)), strong=True)
    total = f" of {len(rows)} cells"
    moved = [line for line in rows if line.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    among = sum(line.cell in step.retuned for line in moved)
    if moved:
        total += f", {among} of the {len(moved)} slower or faster ones among them"
    return ((opening, count, Part(f"{total}.")),)


def cards(comparison: Comparison, rows: Sequence[Line]) -> tuple[Card, ...]:
    """Four cards: slower, faster, what it is judged by, what else changed."""
    step = comparison.last
    return (
        _count_card("What became slower?", rows, Verdict.SLOWER),
        _count_card("What became faster?", rows, Verdict.FASTER),
        _control_card(step),
        _changes_card(comparison, step),
    )


def _count_card(question: str, rows: Sequence[Line], verdict: Verdict) -> Card:
    found = [line for line in rows if line.verdict is verdict]
    if not any(line.verdict is not None for line in rows):
        return Card(question, "not judged", "The numbers stand below, without verdicts.")
    variants = list(dict.fromkeys(line.variant for line in found))
    more = len(variants) - _MOST_NAMED
    shown = ", ".join(variants[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    noun = "cell" if len(found) == 1 else "cells"
    return Card(question, f"{len(found)} {noun}" if found else "nothing shown", shown)


def _control_card(step: Step) -> Card:
    """The shift of the baseline itself, which all ratios are relative to."""
    question = "What is it judged by?"
    if step.withheld is not None:
        return Card(question, "nothing", f"{REFUSED_WORDS[step.withheld]}: durations as they are")
    if step.control is None:
        return Card(question, "no control", "No baseline is the same program in both runs.")
    own = step.cells.loc[step.cells["variant"] == step.control, "raw_ratio"].dropna()
    if own.empty:
        return Card(question, step.control, "The baseline was not measured in both runs.")
    mean = numbers.ratio(float(scipy.stats.gmean(own)))
    span = f"{numbers.ratio(own.min())} to {numbers.ratio(own.max())}"
    detail = f"the baseline: {mean} its older duration by itself ({span}); ratios leave that out"
    without = step.cells.loc[step.cells["reason"] == Reason.NO_CONTROL, "problem"].nunique()
    if without:
        total = step.cells["problem"].nunique()
        detail += f"; at {without} of {total} problems it is another program, and controls nothing"
    return Card(question, step.control, detail)


def _changes_card(comparison: Comparison, step: Step) -> Card:
    fields = [one.field for one in comparison.differences]
    cells = step.cells
    changed = cells.loc[cells["program"] == Program.CHANGED, "variant"].nunique()
    words = ", ".join(field_word(field) for field in fields) or "nothing that was recorded"
    answer = f"{changed} variant{'' if changed == 1 else 's'} changed"
    if step.retuned:
        count = len(step.retuned)
        answer += f", {count} cell{'s' if count > 1 else ''} tuned otherwise"
    return Card("What else differs?", answer, f"Between the runs: {words}.")
