"""Headline of a first screen in one sentence; all others stand under "More"."""

from __future__ import annotations

import math
from collections.abc import Callable

from profiler.findings.answer import Answer, ReferenceLead, answer_of
from profiler.findings.findings import CellNumbers, Findings
from profiler.findings.kinds.steps import largest_effect, largest_step
from profiler.findings.kinds.waves import GOOD
from profiler.findings.ranking import VariantRank
from profiler.findings.winners import Winner
from profiler.model import Variant, Verdict
from profiler.planning.page_kinds import LADDER, PARAMETERS, WAVES
from profiler.render.tables.timers import timer_table
from profiler.render.words import numbers
from profiler.render.words.answer import NOTHING_MEASURED
from profiler.render.words.comparisons import noun, step_name, ties_words
from profiler.render.words.sentences import Sentence, sentence_of, spoken, strong
from profiler.render.words.verdict_words import word
from profiler.render.words.verdicts import counts_clause, word_of


def headline(findings: Findings) -> Sentence:
    """The answer in one sentence, as the kind of page asks for it."""
    return kind_sentence(findings) or _general(findings)


def kind_sentence(findings: Findings) -> Sentence:
    """The sentence that a kind of page has instead, which names no reference; empty without one."""
    of_kind = _by_kind(findings)
    return of_kind(findings) if of_kind else ()


def headline_text(findings: Findings) -> str:
    """The answer in one sentence, as plain text."""
    return spoken(headline(findings))


def _by_kind(findings: Findings) -> Callable[[Findings], Sentence] | None:
    if findings.timers is not None and findings.timers.compared:
        return _timers
    of_kind = {LADDER: _ladder, PARAMETERS: _steps, WAVES: _waves}
    finds = findings.report.settings.page_kind.finds
    return next((of_kind[name] for name in of_kind if name in finds), None)


# ---- most pages ----------------------------------------------------------------------------------


def _general(findings: Findings) -> Sentence:
    answer = answer_of(findings.ranking)
    row = answer.rank
    if row is None:
        return sentence_of(strong(NOTHING_MEASURED))
    reference = reference_clause(findings.numbers, answer.reference)
    if len(row.planned) == 1 or findings.programs.baseline is None or row.best is None:
        return sentence_of(f"{_winner(findings, row, answer)}{reference}.")
    return sentence_of(f"{_relative(findings, row, findings.programs.baseline)}{reference}.")


def _relative(findings: Findings, row: VariantRank, baseline: Variant) -> str:
    """Clause on the ratio to the baseline over several problems."""
    opening = ""
    if findings.ranking.baseline_rank:
        opening = f"{strong(baseline.label)}, the baseline, is ahead; of the rest, "
    verb = "takes" if findings.verdicts.given else "has"
    return (
        f"{opening}{strong(row.variant.label)} {verb} {strong(numbers.ratio(row.geometric_mean))} "
        f"the {noun(findings.numbers)} of {baseline.label} ({_over(len(row.ratios))})"
    )


def _over(problems: int) -> str:
    return f"geometric mean of {problems} problems" if problems > 1 else "at one problem"


def _winner(findings: Findings, row: VariantRank, answer: Answer) -> str:
    """Clause on the variant with the lowest number, at one problem or without a baseline."""
    which = "highest" if findings.numbers.primary.better == "higher" else "lowest"
    winners = [findings.ranking.deciding_winners[problem] for problem in sorted(row.planned)]
    if len(winners) == 1:
        at_one = _at_one(findings.numbers, row, winners[0], which)
        return f"{strong(row.variant.label)}{at_one}"
    return (
        f"{strong(row.variant.label)} has the {which} {noun(findings.numbers)} at {answer.wins} of "
        f"{len(row.planned)} problems"
    )


def _at_one(cell_numbers: CellNumbers, row: VariantRank, winner: Winner, which: str) -> str:
    baseline = cell_numbers.programs.baseline
    shown = numbers.show(winner.value.median, cell_numbers.primary.unit)
    called = "is the best" if winner.best else f"has the {which} {noun(cell_numbers)}"
    text = f" {called}, {shown}"
    if winner.cell.variant != row.variant:
        text = f" is first of the rest, after {winner.cell.variant.label}"
    ties = ties_words(winner)
    text += f", {ties}" if ties and not winner.best else ""
    if row.best is None or baseline is None or row.variant == baseline:
        return text
    verdict = word_of(row.verdicts[0]) if row.verdicts else ""
    return (
        f"{text}: {strong(numbers.ratio(row.best[1].ratio))} the {noun(cell_numbers)} of "
        f"{baseline.label}{f', {verdict}' if verdict else ''}"
    )


def reference_clause(numbers: CellNumbers, lead: ReferenceLead | None) -> str:
    """Clause on the best reference where it is ahead of all others; the baseline is no news."""
    if lead is None or not 0 < lead.ratio < 1 or lead.variant == numbers.programs.baseline:
        return ""
    return f"; {strong(lead.variant.label)}, a reference, {lead_words(numbers, lead)}"


def lead_words(cell_numbers: CellNumbers, lead: ReferenceLead) -> str:
    """How far a reference is ahead; with the verdict where it is FASTER at each problem."""
    is_faster = lead.verdicts.get(Verdict.FASTER.value, 0) == lead.problems
    verdict = f", {word(Verdict.FASTER)}" if is_faster else ""
    return (
        f"takes {numbers.ratio(lead.ratio)} the {noun(cell_numbers)} of the best of these{verdict}"
    )


# ---- kinds of page -------------------------------------------------------------------------------


def _ladder(findings: Findings) -> Sentence:
    kind = findings.kind
    measured = [rung for rung in kind.ladder if not numbers.is_missing(rung.ratio)]
    most, baseline = largest_step(kind.ladder), findings.programs.baseline
    if len(measured) < 2 or most is None or most.step is None or baseline is None:
        return ()
    best = next((rung for rung in measured if rung.variant == findings.ranking.best), measured[-1])
    what = noun(findings.numbers)
    return sentence_of(
        f"{len(kind.ladder)} versions go from {numbers.ratio(measured[0].ratio)} to "
        f"{strong(numbers.ratio(best.ratio))} the {what} of {baseline.label}, with "
        f"{strong(best.variant.label)}; the largest step is {strong(most.variant.label)}: "
        f"{numbers.ratio(most.step.overall.ratio)} the {what} of the version before"
        f"{counts_clause(most.step.verdicts)}."
    )


def _steps(findings: Findings) -> Sentence:
    most = largest_effect(findings.kind.parameter_steps)
    if most is None:
        return ()
    count = len(findings.kind.parameter_steps)
    opening = f"Of {count} steps, the largest effect is that of " if count > 1 else ""
    return sentence_of(
        f"{opening}{strong(step_name(most.step))}: {strong(numbers.ratio(most.overall.ratio))} the "
        f"{noun(findings.numbers)} ({_over(len(findings.programs.problems))})"
        f"{counts_clause(most.verdicts)}."
    )


def _waves(findings: Findings) -> Sentence:
    needs = findings.kind.waves.needs if findings.kind.waves else ()
    enough = [need for need in needs if math.isfinite(need.waves)]
    if not enough:
        return ()
    most = max(enough, key=lambda need: need.waves)
    least = min(enough, key=lambda need: need.waves)
    every = len(enough) == len(needs)
    who = "Every variant keeps" if every else f"{len(enough)} of {len(needs)} variants keep"
    text = f"{who} at least {numbers.show(100 * GOOD, '%')} of the rate of full waves from "
    text += f"{strong(f'{most.waves:.4g} waves')} on"
    if least != most:
        labels = {variant.id: variant.label for variant in findings.programs.variants}
        text += f", {strong(labels[least.variant])} from {least.waves:.4g} on"
    return sentence_of(f"{text}.")


def _timers(findings: Findings) -> Sentence:
    table = timer_table(findings)
    if table is None or table.furthest is None:
        return ()
    furthest = table.furthest
    return sentence_of(
        f"Of {len(table.timers)} timers, {strong(furthest.timer)} differs most from "
        f"{table.reference}: {strong(furthest.ratio)} at {furthest.where} ({furthest.times})."
    )
