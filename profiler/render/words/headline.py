"""Headline of a first screen in one sentence; all others stand under "More"."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiler.findings.counters import ParameterStep
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import (
    Contrast,
    StepEffect,
    contrasts,
    gains_and_losses,
    largest_effects,
)
from profiler.findings.kinds.waves import GOOD, RULE_BLOCKS_PER_SM, SteadyGrid
from profiler.findings.ranking import ReferenceLead, VariantRank
from profiler.findings.variant_names import CUT
from profiler.findings.verdicts import UNSEEN
from profiler.findings.why.find import find_why, idle_difference
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant, Verdict
from profiler.planning.page_kinds import LADDER, PARAMETERS, TIMELINES, WAVES
from profiler.render.tables.timers import furthest_clause
from profiler.render.words import numbers
from profiler.render.words.answer import NOTHING_MEASURED
from profiler.render.words.comparisons import step_name, ties_words, value_name
from profiler.render.words.names import quoted
from profiler.render.words.places import names_or_count, where
from profiler.render.words.sentences import Sentence, sentence_of, spoken, strong
from profiler.render.words.signs import SYMBOLS, word
from profiler.render.words.verdicts import counts_clause, symbol, verdict_counts, word_of


def headline(findings: Findings) -> Sentence:
    """The answer in one sentence, as the kind of page asks for it."""
    return kind_sentence(findings) or _general(findings)


def kind_sentence(findings: Findings) -> Sentence:
    """The sentence that a kind of page has instead, which names no reference; empty without one."""
    if findings.timers is not None and findings.timers.compared:
        return _timers(findings)
    of_kind = {LADDER: _ladder, PARAMETERS: _steps, WAVES: _waves}
    finds = findings.report.settings.page_kind.finds
    return next((sentence(findings) for name, sentence in of_kind.items() if name in finds), ())


def headline_text(findings: Findings) -> str:
    """The answer in one sentence, as plain text."""
    return spoken(headline(findings))


# ---- most pages ----------------------------------------------------------------------------------


def _general(findings: Findings) -> Sentence:
    row = findings.ranking.best_rank
    if row is None:
        return sentence_of(strong(NOTHING_MEASURED))
    reference = reference_clause(findings.programs.baseline, findings.ranking.best_reference)
    baseline = findings.programs.baseline
    if len(row.planned) == 1 or baseline is None or row.best is None or row.variant == baseline:
        return sentence_of(f"{_winner(findings, row)}{reference}.")
    relative = _relative(findings, row, baseline)
    meanwhile = _idle_clause(findings) or _overlap_clause(findings, row.variant)
    opening = _search_clause(findings) or _contrasted(findings)
    return sentence_of(f"{opening}{relative}{meanwhile}{reference}.")


def _contrasted(findings: Findings) -> str:
    """Sentence on a parameter of the problems, and flags of variants; empty on most pages."""
    shown_contrasts = contrasts(findings.ranking, findings.report.settings)
    if not shown_contrasts:
        return ""
    most, *other_contrasts = shown_contrasts
    others_words = [
        f"{value_name(contrast.step.after)} {numbers.ratio(contrast.ratio)} ({_ends(contrast)})"
        for contrast in other_contrasts
    ]
    steps = [
        effect
        for effect in largest_effects(findings.parameter_steps)
        if symbol(effect.verdicts) != SYMBOLS[Verdict.SAME]
    ][:_MOST_EFFECTS]
    steps_words = [_effect_words(step, findings.programs.problems) for step in steps]
    clauses = "".join(f", {clause}" for clause in (*others_words, *steps_words))
    return (
        f"{strong(step_name(most.step))} takes {strong(numbers.ratio(most.ratio))} the "
        f"time (best of each, {_mean_words(len(most.ratios))}, "
        f"{_ends(most)}; different work, no verdict{_unexplained_clause(findings, most.step)})"
        f"{clauses}; "
    )


def _ends(contrast: Contrast) -> str:
    """The least and the most that a value changes, over its problems: `0.981x to 1.204x`."""
    ratios = [ratio for _, ratio in contrast.ratios]
    return f"{numbers.ratio(min(ratios))} to {numbers.ratio(max(ratios))}"


def _unexplained_clause(findings: Findings, step: ParameterStep) -> str:
    """Says so where counters explain another pair of variants than one that differs in this."""
    pair = find_why(findings).answer
    explained = pair and {pair.cell.variant.id, pair.against.variant.id}
    is_explained = any({before.id, after.id} == explained for before, after in step.pairs)
    return "" if is_explained else ", not explained"


def _search_clause(findings: Findings) -> str:
    """Clause on how many configurations a search chose from; empty without a search."""
    cover = findings.search.coverage if findings.search else None
    if cover is None:
        return ""
    return f"Of {cover.configurations:,} configurations ({cover.tried:,} tried), "


def _idle_clause(findings: Findings) -> str:
    """Clause on how long the device is idle, on a page of timelines."""
    idle = idle_difference(findings)
    if idle is None or TIMELINES not in findings.report.settings.page_kind.finds:
        return ""
    baseline_idle, variant_idle = (
        numbers.share(1 - unit.busy_share) for unit in (idle.baseline_unit, idle.unit)
    )
    several = len(findings.programs.problems) > 1
    where = f" (recorded at {idle.cell.problem.name})" if several else ""
    return (
        f"; the {findings.timelines.device} is idle {strong(baseline_idle)} of the time in "
        f"{idle.against.variant.label}, {variant_idle} in {idle.cell.variant.label}{where}"
    )


def _overlap_clause(findings: Findings, variant: Variant) -> str:
    """Clause on the share of time in which two warpgroups or more of a kernel work at once."""
    programs, problem = findings.programs, findings.ranking.largest_problem
    compared_variants = [
        compared for compared in (variant, programs.baseline) if compared and problem
    ]
    shares = [
        inside.operation_shares
        for compared in compared_variants
        if (cell := programs.at(compared, problem))
        if (inside := findings.in_kernel.get(cell.id))
    ]
    if len(shares) < 2 or not all(shares):
        return ""
    variant_share, baseline_share = (numbers.share(sum(share[2:])) for share in shares)
    return (
        f"; two or more warpgroups have operations under way {strong(variant_share)} of the time "
        f"in {compared_variants[0].label}, {baseline_share} in {compared_variants[1].label}"
    )


def _relative(findings: Findings, row: VariantRank, baseline: Variant) -> str:
    """Clause on the ratio to the baseline over several problems."""
    opening = ""
    if findings.ranking.baseline_rank:
        opening = f"{strong(baseline.label)}, the baseline, is ahead; of the rest, "
    split = f"; {opposed_words}" if (opposed_words := _opposed_verdicts(row, findings)) else ""
    over = _mean_words(len(row.ratios), len(findings.programs.problems))
    untimed = any(pair.reason in UNSEEN for pair in row.verdicts)
    sums = "; of kernels alone, whole launches may differ" if untimed else ""
    return (
        f"{opening}{strong(row.variant.label)} takes {strong(numbers.ratio(row.geometric_mean))} "
        f"the time of {baseline.label} ({over}{sums}{split})"
    )


def _opposed_verdicts(row: VariantRank, findings: Findings) -> str:
    """`▼ FASTER at 69, ▲ SLOWER at 1024 x 64`, where there are both; else empty."""
    at = {
        verdict: [
            problem
            for problem in findings.programs.problems
            if problem.id in row.planned
            if (pair := row.verdict_by_problem.get(problem.id)) and pair.verdict is verdict
        ]
        for verdict in (Verdict.FASTER, Verdict.SLOWER)
    }
    if not all(at.values()):
        return ""
    return ", ".join(
        f"{word(verdict)} at {names_or_count(problems)}" for verdict, problems in at.items()
    )


def _mean_words(problems: int, planned: int = 0) -> str:
    """`geometric mean of 6 of 12 problems`; all of them where no more are planned."""
    of_planned = f" of {planned}" if planned > problems else ""
    return (
        f"geometric mean of {problems}{of_planned} problems" if problems > 1 else "at one problem"
    )


def _winner(findings: Findings, row: VariantRank) -> str:
    """Clause on the variant with the lowest number, at one problem or of a lone baseline."""
    winners = [findings.ranking.deciding_winners[problem] for problem in sorted(row.planned)]
    if len(winners) == 1:
        return _at_one(findings, row, winners[0])
    if not any(rank.slowdowns for rank in findings.ranking.ranks if rank is not row):
        return f"{strong(row.variant.label)} alone was measured, at {len(row.planned)} problems"
    return (
        f"{strong(row.variant.label)} has the lowest time at "
        f"{findings.ranking.wins} of {len(row.planned)} problems"
    )


def _at_one(findings: Findings, row: VariantRank, winner: Winner) -> str:
    cell_numbers, leader = findings.numbers, winner.cell.variant
    baseline = cell_numbers.programs.baseline
    median = numbers.show(winner.value.median, cell_numbers.primary.unit)
    rank_words = "is the best" if winner.best else "has the lowest time"
    ties = ties_words(winner)
    ties = f", {ties}" if ties and not winner.best else ""
    role = ", the baseline," if leader == baseline != row.variant else ""
    text = f"{strong(leader.label)}{role} {rank_words}, {median}{ties}"
    if row.best is None or baseline is None or row.variant == baseline:
        return text
    verdict = word_of(row.verdicts[0]) if row.verdicts else ""
    ratio = f"{strong(numbers.ratio(row.best[1].ratio))} the time of "
    comparison = f"{ratio}{baseline.label}{f', {verdict}' if verdict else ''}"
    if leader == row.variant:
        return f"{text}: {comparison}"
    rest = ", first of the rest," if len(winner.rival_verdicts) > 1 else ""
    return f"{text}; {strong(row.variant.label)}{rest} takes {comparison}"


def reference_clause(baseline: Variant | None, lead: ReferenceLead | None) -> str:
    """Clause on the best reference where it is ahead of all others; the baseline is no news.

    With the verdict where it is FASTER at each problem.
    """
    if lead is None or not 0 < lead.ratio < 1 or lead.variant == baseline:
        return ""
    is_faster = lead.verdicts.get(Verdict.FASTER.value, 0) == lead.problems
    verdict = f", {word(Verdict.FASTER)}" if is_faster else ""
    return (
        f"; {strong(lead.variant.label)}, a reference, takes {numbers.ratio(lead.ratio)} the "
        f"time of the best variant{verdict}"
    )


# ---- kinds of page -------------------------------------------------------------------------------


def _ladder(findings: Findings) -> Sentence:
    measured = [rung for rung in findings.ladder if not numbers.is_missing(rung.ratio)]
    baseline = findings.programs.baseline
    steps = _steps_words(findings)
    if len(measured) < 2 or not steps or baseline is None:
        return ()
    best = next((rung for rung in measured if rung.variant == findings.ranking.best), measured[-1])
    first, last = (_spelled(rung.variant) for rung in (measured[0], best))
    return sentence_of(
        f"{len(findings.ladder)} versions go from {numbers.ratio(measured[0].ratio)} the "
        f"time of {baseline.label} with {first} to {strong(numbers.ratio(best.ratio))} with "
        f"{strong(last)}; {steps}."
    )


def _spelled(version: Variant) -> str:
    """A version's number and note in quotes, whole where a label cuts it."""
    label = version.label
    if label.endswith(CUT):
        label = f"{label.partition(': ')[0]}: {version.note}"
    return quoted(label)


def _steps_words(findings: Findings) -> str:
    """Clause on the step of a ladder that gains most, and the one that loses most, if SLOWER."""
    gains, losses = gains_and_losses(findings.ladder)
    losses = [
        effect
        for effect in losses
        if 2 * sum(pair.verdict is Verdict.SLOWER for pair in effect.verdicts)
        > len(effect.verdicts)
    ]
    openings = (("the largest gain of one step is ", gains), ("the largest loss ", losses))
    return ", ".join(
        f"{opening}{_step_words(findings, effects[0])}" for opening, effects in openings if effects
    )


def _step_words(findings: Findings, effect: StepEffect) -> str:
    ((_, version),) = effect.step.pairs
    ratio = numbers.ratio(effect.overall.ratio)
    agreed = symbol(effect.verdicts)
    verdicts = f" {agreed}" if agreed else counts_clause(effect.verdicts)
    unexplained = _unexplained_clause(findings, effect.step)
    return f"{strong(_spelled(version))} ({ratio}{verdicts}{unexplained})"


def _steps(findings: Findings) -> Sentence:
    steps = largest_effects(findings.parameter_steps)
    if not steps:
        return ()
    most, *other_steps = steps
    effect_words = [
        _effect_words(step_effect, findings.programs.problems)
        for step_effect in other_steps[:_MOST_EFFECTS]
    ]
    other_words = f"; {', '.join(effect_words)}" if effect_words else ""
    more = len(other_steps) - _MOST_EFFECTS
    return sentence_of(
        f"{strong(step_name(most.step))} takes {strong(numbers.ratio(most.overall.ratio))} the "
        f"time ({_mean_words(len(findings.programs.problems))}"
        f"{_unexplained_clause(findings, most.step)})"
        f"{counts_clause(most.verdicts)}{other_words}{f' and {more} more' if more > 0 else ''}."
    )


_MOST_EFFECTS = 3


def _effect_words(step_effect: StepEffect, problems: Sequence[Problem]) -> str:
    """A step after the largest, in short: its ratio, and its verdicts by their symbols.

    Where those differ, the least and the most that it is for one pair of variants at one problem;
    with the problems where they oppose each other.
    """
    name, overall = step_name(step_effect.step), step_effect.overall
    if alike := symbol(step_effect.verdicts):
        return f"{name} {numbers.ratio(overall.ratio)} {alike}"
    measured = [effect for effect in step_effect.effects if effect.pairs]
    step_verdicts = {pair.verdict for pair in step_effect.verdicts}
    at = {effect.problem for effect in measured}
    measured_problems = {problem.id: problem for problem in problems if problem.id in at}
    least = min((effect.smallest, effect.problem) for effect in measured)
    most = max((effect.largest, effect.problem) for effect in measured)
    ends = [
        numbers.ratio(ratio)
        + (f" {place}" if {Verdict.FASTER, Verdict.SLOWER} <= step_verdicts else "")
        for ratio, problem in (least, most)
        for place in [where([measured_problems[problem]], [*measured_problems.values()])]
    ]
    count = len(step_effect.step.pairs)
    pairs = f"mean of {count} pairs; " if count > 1 else ""
    verdicts = f"{pairs}{' to '.join(ends)}; {verdict_counts(step_effect.verdicts)}"
    return f"{name} {numbers.ratio(overall.ratio)} ({verdicts})"


def _waves(findings: Findings) -> Sentence:
    needs = findings.steady_grids
    enough = [need for need in needs if math.isfinite(need.waves)]
    if not enough:
        return ()
    who = "" if len(enough) == len(needs) else f"{len(enough)} of {len(needs)} variants; "
    answer, waves = blocks_that_fill(enough)
    held = sum(need.rule_holds is True for need in needs)
    return sentence_of(
        f"A grid needs {strong(answer)} ({who}{waves}) to reach {numbers.share(GOOD)} of "
        f"the rate of full waves and stay there; the rule of thumb that {RULE_BLOCKS_PER_SM:g} "
        f"thread blocks per SM are enough holds for {held or 'none'} of {len(needs)} variants."
    )


def blocks_that_fill(needs: Sequence[SteadyGrid]) -> tuple[str, str]:
    """Blocks per SM, and waves, from which on grids of each variant are good, from least to most.

    Waves alone, and nothing else, where the number of multiprocessors is not known.
    """
    texts = []
    for unit, values in (
        ("thread blocks per SM", [need.blocks_per_sm for need in needs]),
        ("waves", [need.waves for need in needs]),
    ):
        ends = dict.fromkeys(f"{end:.4g}" for end in (min(values), max(values)))
        if not any(map(math.isnan, values)):
            texts.append(f"{' to '.join(ends)} {unit}")
    return texts[0], texts[-1]


def _timers(findings: Findings) -> Sentence:
    timers = findings.timers
    if timers is None or timers.furthest is None:
        return ()
    return sentence_of(
        f"Of {len(timers.collectors)} timers, {strong(timers.title(timers.furthest.collector))} "
        f"differs most from {furthest_clause(findings.programs, timers, timers.furthest)}"
        f"{_versions(findings, timers.title(timers.reference))}."
    )


def _versions(findings: Findings, reference: str) -> str:
    """Clause on the versions that the timers timed, by the reference; empty without a baseline."""
    row, baseline = findings.ranking.best_rank, findings.programs.baseline
    if row is None or baseline is None or row.best is None or row.variant == baseline:
        return ""
    opposed = _opposed_verdicts(row, findings)
    verdicts = f", {opposed}" if opposed else counts_clause(row.planned_verdicts)
    return (
        f"; by {reference}, {row.variant.label} takes {numbers.ratio(row.geometric_mean)} the time "
        f"of {baseline.label}{verdicts}"
    )
