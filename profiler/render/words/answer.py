"""The first lines of a page: which is best, by how much, how sure, and what limits it.

No sentence says that something is the best, faster or slower where no verdict does: it says who has
the lowest median, who is not told apart from it, and what the verdict is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from profiler.findings.cell_numbers import CellNumbers, Value
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Rung
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking, VariantRank
from profiler.findings.verdicts import PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant, Verdict
from profiler.notices import all_problems, counted
from profiler.planning.page_kinds import load_part
from profiler.planning.problem_names import is_number, telling_parameters
from profiler.render.tables.sustained import captured_sentences, sustained_sentence
from profiler.render.tables.timers import error_parts, furthest_clause
from profiler.render.words import numbers
from profiler.render.words.comparisons import (
    contender_words,
    step_name,
    step_summary,
    ties_words,
    worst_ratio_words,
)
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.signs import OUTCOME_WORDS, word
from profiler.render.words.verdicts import counts_clause, reason_and_blocks, word_of

NOTHING_MEASURED = "No variant has a correct and measured result."
_MOST_GROUPS = 3
"""Groups of rivals of which the answer names the best."""
_MOST_LOST = 3
"""Problems that the leader loses of which the answer names the winner."""
_MOST_FIRST = 4
"""Variants of which the answer counts at how many problems they are first."""
_MOST_STEPS = 4
"""Steps that are said in the answer; the rest stand below."""


def sentences(findings: Findings) -> tuple[Sentence, ...]:
    """The answer in a few sentences: overall, at the largest problem, and coverage.

    Where the run tunes, which one to use comes first.
    """
    general = [_overall_sentence(findings), _largest_sentence(findings)]
    fastest = _fastest_sentence(findings)
    if findings.ranking.tunes:
        leaders = [rows[0] for rows in findings.ranking.rival_groups[:_MOST_GROUPS]]
        general = [*(everywhere_sentence(findings, row) for row in leaders), *general]
    else:
        general.append(everywhere_sentence(findings, findings.ranking.leader))
    general += [_timer_sentence(findings), sustained_sentence(findings)]
    general += captured_sentences(findings)
    texts = [sentence for sentence in (fastest, *general) if sentence]
    return (*texts, coverage_sentence(findings.programs))


def answer_of(findings: Findings) -> tuple[Sentence, ...]:
    """The sentences of the answer, as the kind of page has them."""
    reference = findings.report.settings.page_kind.answer
    kind_sentences: tuple[Sentence, ...] = load_part(reference)(findings) if reference else ()
    return kind_sentences or sentences(findings)


def step_sentences(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences on the effect of each step of a parameter; without any, the general answer."""
    steps = findings.parameter_steps
    if not steps:
        return sentences(findings)
    texts = [
        f"{strong(step_name(effect.step))}: {step_summary(findings.programs.problems, effect)}"
        for effect in steps[:_MOST_STEPS]
    ]
    more = len(steps) - len(texts)
    if more > 0:
        texts.append(f"{more} more steps stand below.")
    return (*map(sentence_of, texts), coverage_sentence(findings.programs))


def ladder_sentences(findings: Findings) -> tuple[Sentence, ...]:
    """Sentence on the first and last version of a ladder, then the general answer."""
    ladder = _ladder_sentence(findings)
    return (ladder, *sentences(findings)) if ladder else sentences(findings)


def _ladder_sentence(findings: Findings) -> Sentence:
    ladder = findings.ladder
    measured = [rung for rung in ladder if rung.step is not None and rung.step.overall.pairs]
    if not measured:
        return ()
    cumulative = measured[-1].cumulative
    if cumulative is None:
        return ()
    ratios = _ratios_clause(findings.programs.baseline, ladder)
    return sentence_of(
        f"The ladder of {len(ladder)} versions{ratios} ends at "
        f"{strong(numbers.ratio(cumulative.overall.ratio))} the time of its first version "
        f"(geometric mean){counts_clause(cumulative.verdicts)}."
    )


def _ratios_clause(baseline: Variant | None, ladder: tuple[Rung, ...]) -> str:
    ratios = [numbers.ratio(rung.ratio) for rung in ladder if not numbers.is_missing(rung.ratio)]
    if baseline is None or len(ratios) < 2:
        return ""
    return f" goes from {ratios[0]} to {ratios[-1]} the time of {baseline.label} and"


def _fastest_sentence(findings: Findings) -> Sentence:
    """Sentence on the reference that is ahead of the best of all others; else empty.

    Only where verdicts say so at most of the problems that both have.
    """
    lead = findings.ranking.best_reference
    if lead is None or lead.ratio >= 1:
        return ()
    faster = lead.verdicts.get(Verdict.FASTER.value, 0)
    if 2 * faster <= lead.problems:
        return ()
    mean = "geometric mean, " if lead.problems > 1 else ""
    every = all_problems(faster) if faster > 1 else "its problem"
    where = every if faster == lead.problems else f"{faster} of {lead.problems} problems"
    return sentence_of(
        f"{strong(lead.variant.label)} takes {strong(numbers.ratio(lead.ratio))} the "
        f"time of the best variant ({mean}{word(Verdict.FASTER)} at {where})."
    )


def _overall_sentence(findings: Findings) -> Sentence:
    row, baseline = findings.ranking.best_rank, findings.programs.baseline
    if row is None:
        return sentence_of(strong(NOTHING_MEASURED))
    if baseline is None or row.best is None or row.worst is None or len(row.ratios) < 2:
        return ()
    if _has_baseline_alone(findings.ranking):
        return ()
    count = len(row.ratios)
    every = row.complete and count == len(findings.programs.problems)
    over = all_problems(count) if every else f"the {count} problems"
    opening = f"Over {over} "
    if findings.ranking.baseline_rank:
        opening += f"{strong(baseline.label)}, the baseline, has the lowest geometric mean. "
        opening += "Of the rest, "
    return sentence_of(
        f"{opening}{strong(row.variant.label)} takes {strong(numbers.ratio(row.geometric_mean))} "
        f"the time of {baseline.label} (geometric mean; from "
        f"{numbers.ratio(row.best[1].ratio)} at {row.best[0].name} to "
        f"{numbers.ratio(row.worst[1].ratio)} at {row.worst[0].name})"
        f"{counts_clause(row.planned_verdicts)}."
    )


def _has_baseline_alone(ranking: Ranking) -> bool:
    """Whether nothing but the baseline has a result."""
    row = ranking.best_rank
    return row is not None and row.variant == ranking.programs.baseline


def _largest_sentence(findings: Findings) -> Sentence:
    problem = findings.ranking.largest_problem
    if problem is None:
        return ()
    where = f"At {_largest_words(findings.programs, problem)}{problem.name}"
    where += "," if len(findings.programs.problems) > 1 else ""
    first = findings.ranking.winners[problem.id]
    rival_winner = findings.ranking.rival_winners.get(problem.id, first)
    text = f"{where} {winner_words(findings.numbers, first)}"
    if first.cell != rival_winner.cell:
        text += f"; of the rest, {winner_words(findings.numbers, rival_winner)}"
    value = findings.numbers.duration(rival_winner.cell)
    alone = rival_winner.cell.variant == findings.programs.baseline
    if findings.programs.baseline is None or alone or numbers.is_missing(value.ratio):
        return sentence_of(f"{text}.")
    certainty = _certainty(value, findings.verdicts.at(rival_winner.cell.variant, problem))
    return sentence_of(
        f"{text}: {strong(numbers.ratio(value.ratio))} the time of "
        f"{findings.programs.baseline.label}{certainty}."
    )


def _largest_words(programs: Programs, shown_problem: Problem) -> str:
    """Apposition to the problem that is shown: the largest, or the one that takes longest."""
    if len(programs.problems) == 1:
        return ""
    keys = telling_parameters(programs.problems)
    shown_sizes = _sizes(shown_problem, keys)
    is_exceeded = any(
        _exceed_sizes(_sizes(problem, keys), shown_sizes) for problem in programs.problems
    )
    is_largest = bool(shown_sizes) and not is_exceeded
    return "the largest problem, " if is_largest else "the problem that takes longest, "


def _sizes(problem: Problem, keys: Iterable[str]) -> dict[str, float]:
    """Parameters of a problem that are numbers."""
    values = {key: problem.params.get(key) for key in keys}
    return {key: value for key, value in values.items() if is_number(value)}


def _exceed_sizes(sizes: Mapping[str, float], compared_sizes: Mapping[str, float]) -> bool:
    """Whether some of these sizes are larger than the others, and none is smaller."""
    pairs = [(sizes[key], compared_sizes[key]) for key in sizes.keys() & compared_sizes.keys()]
    return any(a > b for a, b in pairs) and all(a >= b for a, b in pairs)


def winner_words(cell_numbers: CellNumbers, winner: Winner) -> str:
    """Clause on the winner of a problem with its number: the best only where verdicts show it."""
    programs = cell_numbers.programs
    median = numbers.show(winner.value.median, cell_numbers.primary.unit)
    variant = winner.cell.variant
    if winner.final:
        median += " in the confirmation"
    name = f"{strong(variant.label)}{_aside(programs, winner)}"
    if winner.best:
        outside = variant.id in programs.references and variant != programs.baseline
        opening = "the lowest time is that of" if outside else "the best is"
        return f"{opening} {name} with {median}"
    ties = ties_words(winner)
    return f"{name} has the lowest median, {median}{f', {ties}' if ties else ''}"


def _aside(programs: Programs, winner: Winner) -> str:
    """Apposition to a winner that is the baseline or a reference; else empty."""
    variant = winner.cell.variant
    if variant == programs.baseline:
        return ", the baseline,"
    return ", a reference," if variant.id in programs.references else ""


def _certainty(value: Value, verdict: PairVerdict) -> str:
    interval = numbers.interval(value.ratio_low, value.ratio_high)
    between = f" {interval}" if interval else ""
    return f"{between}, {word_of(verdict)} ({reason_and_blocks(verdict)})"


def everywhere_sentence(findings: Findings, row: VariantRank | None) -> Sentence:
    """Sentence on the problems that a variant wins, and its slowdown used for all of them."""
    total = 0 if row is None else len(row.planned)
    if row is None or not row.slowdowns or total < 2 or _has_baseline_alone(findings.ranking):
        return ()
    text = f" {contender_words(findings.ranking, row)}{_first_elsewhere(findings.ranking, row)}"
    if row.covers and row.worst_slowdown > 1:  # else it has the lowest number everywhere
        worst = problem_of(findings.programs, row.worst_problem)
        most = worst_ratio_words(row.worst_slowdown)
        where = "everywhere" if row.complete else "at all of them"
        text += f"; used {where}, {most} (at {worst.name})"
    return sentence_of(f"{strong(row.variant.label)}{text}.")


def _first_elsewhere(ranking: Ranking, row: VariantRank) -> str:
    """Winners of the problems that a variant loses: each where they are few, else counts.

    Not where the run tunes: it asks for one configuration, and how much slower that is.
    """
    if ranking.tunes:
        return ""
    won = ranking.contenders.get(row.variant.id, frozenset())
    lost = [problem for problem in ranking.programs.problems if problem.id in row.planned - won]
    if not lost:
        return ""
    first = [ranking.deciding_winners[problem.id].cell.variant.label for problem in lost]
    if len(lost) <= _MOST_LOST:
        winners = [f"{name} at {problem.name}" for name, problem in zip(first, lost, strict=True)]
    else:
        winners = [f"{name} at {count}" for name, count in Counter(first).most_common(_MOST_FIRST)]
    return f" (elsewhere: {', '.join(winners)})"


def problem_of(programs: Programs, identifier: str) -> Problem:
    """The problem with an id."""
    return next(problem for problem in programs.problems if problem.id == identifier)


def _timer_sentence(findings: Findings) -> Sentence:
    """Largest error of a timer against ncu; empty without a second timer."""
    timers = findings.timers
    if timers is None or timers.furthest is None:
        return ()
    error = timers.furthest
    clause = furthest_clause(findings.programs, timers, error, error_parts(error))
    return sentence_of(
        f"Of the timers, {timers.title(error.collector)} differs most from {clause}."
    )


def coverage_sentence(programs: Programs) -> Sentence:
    """Sentence on the number of measured cells, and the outcomes of the others."""
    total = len(programs.plan.cells)
    unmeasured = [
        f"{count} {OUTCOME_WORDS[outcome]}"
        for outcome, count in programs.outcome_counts().items()
        if not outcome.correct
    ]
    unmeasured_words = f" ({', '.join(unmeasured)})" if unmeasured else ""
    return sentence_of(
        f"{programs.measured_count()} of {counted(total, 'cell')} measured{unmeasured_words}."
    )
