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
from profiler.render.words.answer import Part, Sentence, spoken
from profiler.render.words.ranks import ties_words
from profiler.render.words.steps import noun, step_name
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


def _name(variant: Variant) -> Part:
    return Part(variant.label, strong=True)


# ---- most pages ----------------------------------------------------------------------------------


def _general(findings: Findings) -> Sentence:
    answer = answer_of(findings.ranking)
    row = answer.rank
    if row is None:
        return (Part("No variant has a correct and measured result.", strong=True),)
    reference = reference_clause(findings.numbers, answer.reference)
    if len(row.planned) == 1 or findings.programs.baseline is None or row.best is None:
        return (*_winner(findings, row, answer), *reference, Part("."))
    return (*_relative(findings, row), *reference, Part("."))


def _relative(findings: Findings, row: VariantRank) -> Sentence:
    """Clause on the ratio to the baseline over several problems."""
    baseline = findings.programs.baseline
    if baseline is None:
        return ()
    opening: Sentence = ()
    if findings.ranking.baseline_rank:
        rest = Part(", the baseline, is ahead; of the rest, ")
        opening = (_name(baseline), rest)
    return (
        *opening,
        _name(row.variant),
        Part(" takes " if findings.verdicts.given else " has "),
        Part(numbers.ratio(row.geometric_mean), strong=True),
        Part(f" the {noun(findings.numbers)} of {baseline.label} ({_over(len(row.ratios))})"),
    )


def _over(problems: int) -> str:
    return f"geometric mean of {problems} problems" if problems > 1 else "at one problem"


def _winner(findings: Findings, row: VariantRank, answer: Answer) -> Sentence:
    """Clause on the variant with the lowest number, at one problem or without a baseline."""
    which = "highest" if findings.numbers.primary.better == "higher" else "lowest"
    winners = [findings.ranking.deciding_winners[problem] for problem in sorted(row.planned)]
    name = _name(row.variant)
    if len(winners) != 1:
        return (name, Part(f" has the {which} {noun(findings.numbers)} at {answer.wins} of "
                           f"{len(row.planned)} problems"))  # fmt: skip
    winner = winners[0]
    return (name, *_at_one(findings.numbers, row, winner, which))


def _at_one(cell_numbers: CellNumbers, row: VariantRank, winner: Winner, which: str) -> Sentence:
    programs = cell_numbers.programs
    shown = numbers.show(winner.value.median, cell_numbers.primary.unit)
    called = "is the best" if winner.best else f"has the {which} {noun(cell_numbers)}"
    opening = Part(f" {called}, {shown}")
    if winner.cell.variant != row.variant:
        opening = Part(f" is first of the rest, after {winner.cell.variant.label}")
    ties = ties_words(winner)
    tail = f", {ties}" if ties and not winner.best else ""
    if row.best is None or programs.baseline is None or row.variant == programs.baseline:
        return (opening, Part(tail))
    value = row.best[1]
    verdict = word_of(row.verdicts[0]) if row.verdicts else ""
    baseline = programs.baseline.label
    return (
        opening,
        Part(f"{tail}: "),
        Part(numbers.ratio(value.ratio), strong=True),
        Part(f" the {noun(cell_numbers)} of {baseline}{f', {verdict}' if verdict else ''}"),
    )


def reference_clause(numbers: CellNumbers, lead: ReferenceLead | None) -> Sentence:
    """Clause on the best reference where it is ahead of all others; the baseline is no news."""
    if lead is None or not 0 < lead.ratio < 1 or lead.variant == numbers.programs.baseline:
        return ()
    return (Part("; "), _name(lead.variant), Part(f", a reference, {lead_words(numbers, lead)}"))


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
    return (
        Part(f"{len(kind.ladder)} versions go from {numbers.ratio(measured[0].ratio)} to "),
        Part(numbers.ratio(best.ratio), strong=True),
        Part(f" the {noun(findings.numbers)} of {baseline.label}, with "),
        _name(best.variant),
        Part("; the largest step is "),
        _name(most.variant),
        Part(f": {numbers.ratio(most.step.overall.ratio)} the {noun(findings.numbers)} of "),
        Part(f"the version before{counts_clause(most.step.verdicts)}."),
    )


def _steps(findings: Findings) -> Sentence:
    most = largest_effect(findings.kind.parameter_steps)
    if most is None:
        return ()
    count = len(findings.kind.parameter_steps)
    return (
        Part(f"Of {count} steps, the largest effect is that of " if count > 1 else ""),
        Part(step_name(most.step), strong=True),
        Part(": "),
        Part(numbers.ratio(most.overall.ratio), strong=True),
        Part(f" the {noun(findings.numbers)} ({_over(len(findings.programs.problems))})"),
        Part(f"{counts_clause(most.verdicts)}."),
    )


def _waves(findings: Findings) -> Sentence:
    needs = findings.kind.waves.needs if findings.kind.waves else ()
    enough = [need for need in needs if math.isfinite(need.waves)]
    if not enough:
        return ()
    most = max(enough, key=lambda need: need.waves)
    least = min(enough, key=lambda need: need.waves)
    by_id = {variant.id: variant for variant in findings.programs.variants}
    who = (
        "Every variant" if len(enough) == len(needs) else f"{len(enough)} of {len(needs)} variants"
    )
    share = numbers.show(100 * GOOD, "%")
    first = (
        Part(f"{who} keep{'s' if len(enough) == len(needs) else ''} at least {share} of the rate "),
        Part("of full waves from "),
        Part(f"{most.waves:.4g} waves", strong=True),
        Part(" on"),
    )
    if least == most:
        return (*first, Part("."))
    return (*first, Part(", "), _name(by_id[least.variant]),
            Part(f" from {least.waves:.4g} on."))  # fmt: skip


def _timers(findings: Findings) -> Sentence:
    table = timer_table(findings)
    if table is None or table.furthest is None:
        return ()
    furthest = table.furthest
    return (
        Part(f"Of {len(table.timers)} timers, "),
        Part(furthest.timer, strong=True),
        Part(f" differs most from {table.reference}: "),
        Part(furthest.ratio, strong=True),
        Part(f" at {furthest.where} ({furthest.times})."),
    )
